"""Texts that make the search for markers slow."""

import random

import pytest

from fcshim.prompt import escape
from fcshim.prompt.escape import BUNDLED
from tests.steps import steps

pytestmark = pytest.mark.security

PARTS = (
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
    assert steps(lambda: BUNDLED.escape(text * 100_000)) < 5_000  # some 170 for each piece of the text


def test_brackets_before_a_marker_change_nothing():
    for before in ("<" * 1_000, "< " * 1_000, "<_[&\\ " * 100):
        text = f"{before}<tool_call>"

        assert f"{before}<_tool_call>" == BUNDLED.escape(text)
        assert text == BUNDLED.unescape(BUNDLED.escape(text))


def test_a_text_searched_in_pieces_is_escaped_as_one(monkeypatch):
    source = random.Random(0)
    for _ in range(2_000):
        text = "".join(source.choices(PARTS, k=30))
        monkeypatch.setattr(escape, "_PIECE", 1_000)
        whole = BUNDLED.escape(text)
        monkeypatch.setattr(escape, "_PIECE", 5)

        assert whole == BUNDLED.escape(text)
        assert text == BUNDLED.unescape(whole)
