"""Escaping of markers that are not tags, also of user-defined dialects."""

import pytest

from fcshim.prompt.escape import PlainMarkers


def test_an_added_marker_is_escaped() -> None:
    words = PlainMarkers(["CALL:"])

    assert PlainMarkers().escape("CALL: f") == "CALL: f"
    assert words.escape("CALL: f") == "C_ALL: f"
    assert words.unescape("C_ALL: f") == "CALL: f"


@pytest.mark.parametrize("marker", ["@@", "__call__", "a_b", "call", "((", "\\o/", "∎∎"])
@pytest.mark.parametrize("text", ["{0}", "x{0}y", "{0}{0}", "{0} _{0}_", "_{0}__{0}", "{0}_{0}"])
def test_escaping_of_any_added_marker_is_reversible(marker: str, text: str) -> None:
    words = PlainMarkers([marker])
    text = text.format(marker)
    safe = words.escape(text)

    assert marker not in safe
    assert words.unescape(safe) == text
    assert words.unescape(words.unescape(words.escape(safe))) == text


def test_text_after_the_end_still_serves_as_lookahead() -> None:
    text = "f_unctools [_e~["

    assert PlainMarkers().unescape(text, len("f_unctools ")) == "functools "


def test_a_single_character_is_not_escaped() -> None:
    assert PlainMarkers(["§"]).escape("§") == "§"
