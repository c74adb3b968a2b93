"""Words that open calls and are no tags, those of a user's own dialect included."""

import pytest

from fcshim.prompt.plain_markers import PlainMarkers


def test_a_word_that_is_learnt_is_made_harmless_from_then_on() -> None:
    words = PlainMarkers()
    before = words.escape("CALL: f")
    words.add("CALL:")

    assert before == "CALL: f"
    assert words.escape("CALL: f") == "C_ALL: f"
    assert words.unescape("C_ALL: f") == "CALL: f"


@pytest.mark.parametrize("marker", ["@@", "__call__", "a_b", "call", "((", "\\o/", "∎∎"])
@pytest.mark.parametrize("text", ["{0}", "x{0}y", "{0}{0}", "{0} _{0}_", "_{0}__{0}", "{0}_{0}"])
def test_whatever_the_word_is_it_comes_back(marker: str, text: str) -> None:
    words = PlainMarkers()
    words.add(marker)
    text = text.format(marker)
    safe = words.escape(text)

    assert marker not in safe
    assert words.unescape(safe) == text
    assert words.unescape(words.unescape(words.escape(safe))) == text


def test_what_stands_behind_the_end_still_says_what_stands_before_it() -> None:
    text = "f_unctools [_e~["

    assert PlainMarkers().unescape(text, len("f_unctools ")) == "functools "


def test_a_single_character_is_left_alone() -> None:
    words = PlainMarkers()
    words.add("§")

    assert words.escape("§") == "§"
