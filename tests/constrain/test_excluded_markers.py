"""Texts without markers: none that is admitted holds one, and nearly all that hold none are admitted."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fcshim.constrain.excluded_markers import _MAX_RESTARTS, text_excluding
from fcshim.constrain.grammar import ROOT, Grammar, LiteralText, Repeat, choice, series
from tests.constrain.matcher import admits
from tests.constrain.sampler import sample

ASCII = ((0x20, 0x7E),)
SETS = {
    "tags": ("</parameter>", "</function>", "<function=", "<parameter=", "</tool_call>"),
    "one inside another": ("]<]minimax[>[", "]<]m"),
    "that repeat themselves": ("aab", "aaab", "bb"),
    "long ones, which hold another": ("<|close|>argument<|sep|>", "<|open|>call", "<|close|>call<|sep|>"),
    "one character": ("<", "ab"),
}


def grammar_of(markers: tuple[str, ...]) -> Grammar:
    units = text_excluding("x", markers, ASCII)
    return Grammar({**units.rules, ROOT: series(Repeat(units.unit, 0, None, "characters"), units.last)})


@pytest.mark.parametrize("markers", SETS.values(), ids=SETS)
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_text_holds_a_marker(markers: tuple[str, ...], seed: int) -> None:
    text = sample(grammar_of(markers), seed)

    assert not any(marker in text for marker in markers), text


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(st.sampled_from(["</", "<", "parameter", ">", "function=", "a", " ", "<<<", "</par"]), max_size=7)
)
@example(["</", "<", "</parameter", ">"])
@example(["</parameter", " ", ">"])
@example(["</", "</", "<", "</par", "</", "a"])
@example(["<<<"] * 5)
@example(["<<<"] * 6)
def test_what_is_admitted_is_what_holds_none(parts: list[str]) -> None:
    text = "".join(parts)
    holds = any(marker in text for marker in SETS["tags"])
    admitted = admits(grammar_of(SETS["tags"]), text)
    # The grammar admits a bounded number of marker beginnings in a row; a text with more of them may be refused.
    bounded = text.count("<") <= 1 + _MAX_RESTARTS

    assert not (holds and admitted), text
    assert holds or admitted or not bounded, text


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(st.sampled_from(["]<", "]", "<", "]minimax", ">[", "minimax[>", "a", "]<]m", "[>["]), max_size=7))
def test_where_markers_hold_their_first_character_only_one_may_begin_inside_another(parts: list[str]) -> None:
    text = "".join(parts)
    markers = SETS["one inside another"]
    holds = any(marker in text for marker in markers)
    tangled = re.search(r"\][^\]]*\][^\]]*\]", text) is not None

    assert holds <= (not admits(grammar_of(markers), text))
    assert holds or tangled or admits(grammar_of(markers), text), text


def test_most_of_a_long_marker_that_holds_another_is_avoided_with_it() -> None:
    grammar = grammar_of(SETS["long ones, which hold another"])

    assert [True, True, False] == [
        admits(grammar, text) for text in ("<|close|>arg<|open|>cal<|clos<<", "<|sep|>a<|close|>", "a<|close|>call")
    ]


def test_the_text_behind_is_not_taken_for_part_of_it() -> None:
    units = text_excluding("x", SETS["tags"], ASCII)
    whole = series(Repeat(units.unit, 0, None), units.last, LiteralText("</parameter>"))
    grammar = Grammar({**units.rules, ROOT: choice([whole])})

    assert admits(grammar, "a <</parameter>")
    assert admits(grammar, "</para</parameter>")
    assert not admits(grammar, "a</parameter></parameter>")
