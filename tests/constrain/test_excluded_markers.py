"""Admitted texts never contain a marker, and nearly all texts without one are admitted."""

import re

import pytest
from hypothesis import example, given
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
@given(seed=st.integers(0, 2**32))
def test_no_sampled_text_contains_a_marker(markers: tuple[str, ...], seed: int) -> None:
    text = sample(grammar_of(markers), seed)

    assert not any(marker in text for marker in markers), text


@given(
    parts=st.lists(st.sampled_from(["</", "<", "parameter", ">", "function=", "a", " ", "<<<", "</par"]), max_size=7)
)
@example(["</", "<", "</parameter", ">"])
@example(["</parameter", " ", ">"])
@example(["</", "</", "<", "</par", "</", "a"])
@example(["<<<"] * 5)
@example(["<<<"] * 6)
def test_texts_without_a_marker_are_admitted_up_to_a_bound_and_others_never(parts: list[str]) -> None:
    text = "".join(parts)
    holds = any(marker in text for marker in SETS["tags"])
    admitted = admits(grammar_of(SETS["tags"]), text)
    # The grammar admits a bounded number of marker prefixes in a row; a text with more of them may be rejected.
    bounded = text.count("<") <= 1 + _MAX_RESTARTS

    assert not (holds and admitted), text
    assert holds or admitted or not bounded, text


@given(parts=st.lists(st.sampled_from(["]<", "]", "<", "]minimax", ">[", "minimax[>", "a", "]<]m", "[>["]), max_size=7))
def test_a_marker_prefix_may_contain_one_other_prefix(parts: list[str]) -> None:
    text = "".join(parts)
    markers = SETS["one inside another"]
    holds = any(marker in text for marker in markers)
    tangled = re.search(r"\][^\]]*\][^\]]*\]", text) is not None

    assert holds <= (not admits(grammar_of(markers), text))
    assert holds or tangled or admits(grammar_of(markers), text), text


def test_a_long_marker_is_excluded_by_its_distinctive_prefix() -> None:
    grammar = grammar_of(SETS["long ones, which hold another"])

    assert [True, True, False] == [
        admits(grammar, text) for text in ("<|close|>arg<|open|>cal<|clos<<", "<|sep|>a<|close|>", "a<|close|>call")
    ]


def test_a_marker_prefix_may_precede_the_closing_tag() -> None:
    units = text_excluding("x", SETS["tags"], ASCII)
    whole = series(Repeat(units.unit, 0, None), units.last, LiteralText("</parameter>"))
    grammar = Grammar({**units.rules, ROOT: choice([whole])})

    assert admits(grammar, "a <</parameter>")
    assert admits(grammar, "</para</parameter>")
    assert not admits(grammar, "a</parameter></parameter>")
