"""Texts that make the search for markers slow."""

import random

import pytest

from fcshim.prompt import escape, marker_names, plain_markers
from fcshim.prompt.escape import BUNDLED
from tests.steps import steps

pytestmark = pytest.mark.security

PARTS = (
    *(
        "word, ",
        "end. ",
        "Observation: ",
        "Action:\n[",
        ">>>",
        "functools [",
        "functools\ufeff\ufeff[",
        "functools｛",
        "✿ARGS✿:",
        "Action args:",
        "[e~[",
        "turn|>",
        "9",
    ),
    *(
        "<",
        "[",
        "&lt;",
        "\\u003c",
        "\\",
        "/",
        "_",
        " ",
        "tool_call",
        ">",
        "]",
        "|",
        "｜",
        "TOOL_CALLS",
        "im_start",
        "&",
    ),
    *("＜", "\n", "a", "&gt;", "\u200b", "<|", "|>", "function=x", "tool▁call▁begin", "<tool_call>", "[/INST]"),
)


@pytest.mark.parametrize("text", ["<", "< ", "<_", "[", "&", "\\", "<\n", "<[&＜"])
def test_a_row_of_brackets_is_one_candidate(text):
    assert steps(lambda: BUNDLED.escape(text * 100_000)) < 10_000  # some 300 for each piece of the text


def test_brackets_before_a_marker_change_nothing():
    for before in ("<" * 1_000, "< " * 1_000, "<_[&\\ " * 100):
        text = f"{before}<tool_call>"

        assert f"{before}<_tool_call>" == BUNDLED.escape(text)
        assert text == BUNDLED.unescape(BUNDLED.escape(text))


def test_a_text_searched_in_pieces_is_escaped_as_one(monkeypatch):
    source = random.Random(0)
    for _ in range(2_000):
        text = "".join(source.choices(PARTS, k=30))
        for module in (escape, plain_markers):
            monkeypatch.setattr(module, "PIECE", 1_000)
        whole = BUNDLED.escape(text)
        for module in (escape, plain_markers):
            monkeypatch.setattr(module, "PIECE", 5)

        assert whole == BUNDLED.escape(text)
        assert text == BUNDLED.unescape(whole)


def test_no_piece_of_a_long_text_is_longer_than_it_has_to_be():
    for text in ("What is this about, then? " * 5_000, "x < y; " * 20_000, "Observation: it was. " * 5_000):
        plain = BUNDLED._plain_markers

        assert max(map(len, plain_markers.cut_pieces(text, escape._CUT))) < plain_markers.PIECE + 100
        assert max(map(len, plain.pieces(text))) < plain_markers.PIECE + 100


def test_no_bundled_marker_is_cut():
    for marker in marker_names._MARKERS:
        found = escape._CUT.search(marker, 1)

        assert found is None or marker[found.start()] in "<[", marker
