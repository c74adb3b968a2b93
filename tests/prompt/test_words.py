"""Words that open calls and are no tags, those of a user's own dialect included."""

import pytest

from fcshim.prompt.words import Words


def test_a_word_that_is_learnt_is_made_harmless_from_then_on() -> None:
    words = Words()
    before = words.neutralise("CALL: f")
    words.learn("CALL:")

    assert before == "CALL: f"
    assert words.neutralise("CALL: f") == "C_ALL: f"
    assert words.restore("C_ALL: f") == "CALL: f"


@pytest.mark.parametrize("marker", ["@@", "__call__", "a_b", "call", "((", "\\o/", "∎∎"])
@pytest.mark.parametrize("text", ["{0}", "x{0}y", "{0}{0}", "{0} _{0}_", "_{0}__{0}", "{0}_{0}"])
def test_whatever_the_word_is_it_comes_back(marker: str, text: str) -> None:
    words = Words()
    words.learn(marker)
    text = text.format(marker)
    safe = words.neutralise(text)

    assert marker not in safe
    assert words.restore(safe) == text
    assert words.restore(words.restore(words.neutralise(safe))) == text


def test_what_stands_behind_the_end_still_says_what_stands_before_it() -> None:
    text = "f_unctools [_e~["

    assert Words().restore(text, len("f_unctools ")) == "functools "


def test_a_single_character_is_left_alone() -> None:
    words = Words()
    words.learn("§")

    assert words.neutralise("§") == "§"
