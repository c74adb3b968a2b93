"""Strings with a largest length: every script can be written, and no bytes that a sampler may write are too many."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.constrain.grammar import ROOT, Grammar
from fcshim.constrain.keywords import Keywords
from fcshim.constrain.rules import Rules
from fcshim.constrain.scalars import ScalarWriter
from fcshim.constrain.value_syntax import JSON_SYNTAX
from fcshim.events import JSON
from tests.constrain.matcher import Matcher

TEXTS = [
    "नमस्ते",
    "สวัสดี",
    "日本語",
    "Zoë",
    "ᠮᠣᠩᠭᠣᠯ",
    "தமிழ்",
    "a",
    "한국어",
    "Привет, мир",
    "שלום",
    "नरेंद्र मोदी",
    "👍🏽 ok",
    "𝒳",
]
OVERLONG = {"é": ((3, "न"), (4, "😀न")), "न": ((4, "😀"),), "日": ((4, "😀"),)}
"""The overlong forms of a character: their bytes, and the characters that llama.cpp must admit at their place, since it
compares an incomplete character with the range of what it may become."""


def matcher(schema: dict[str, JSON]) -> Matcher:
    rules = Rules()
    found = ScalarWriter(JSON_SYNTAX, rules, argument=False).string(Keywords((schema,)), frozenset())
    assert found is not None
    return Matcher(Grammar({**rules.rules, ROOT: found}))


@pytest.mark.parametrize("schema", [{}, {"minLength": 1}, {"maxLength": 100}, {"minLength": 1, "maxLength": 40}])
def test_every_script_can_be_written(schema: dict[str, JSON]) -> None:
    found = matcher(schema)

    assert TEXTS == [text for text in TEXTS if found.admits(f'"{text}"')]


@pytest.mark.parametrize(("maximum", "lost"), [(39, TEXTS[-2:]), (20, TEXTS[-2:])])
def test_a_short_string_has_no_characters_of_four_bytes(maximum: int, lost: list[str]) -> None:
    found = matcher({"maxLength": maximum})

    assert lost == [text for text in TEXTS if not found.admits(f'"{text}"')]


@pytest.mark.parametrize(
    ("maximum", "char", "count"),
    [
        *((maximum, "a", maximum) for maximum in (1, 7, 8, 39, 40, 100)),
        *((7, char, 7) for char in "é日"),
        *((39, char, count) for char, count in {"é": 37, "न": 39, "日": 39}.items()),
        *((100, char, count) for char, count in {"é": 95, "न": 97, "日": 97, "😀": 100}.items()),
    ],
)
def test_nearly_as_much_as_the_limit_can_be_written(maximum: int, char: str, count: int) -> None:
    found = matcher({"maxLength": maximum})

    assert (True, False) == (found.admits(f'"{char * count}"'), found.admits(f'"{char * (count + 1)}"'))


def longest_decoding(found: Matcher, text: str) -> int:
    """Return how many characters the bytes are decoded to, if each character is as overlong as llama.cpp lets it be."""
    total = 0
    for at, char in enumerate(text):
        forms = [
            width
            for width, starts in OVERLONG.get(char, ())
            if all(found.begins(f'"{text[:at]}{start}') for start in starts)
        ]
        total += max(forms, default=1)
    return total


@pytest.mark.parametrize(
    ("minimum", "maximum"), [(0, 0), (1, 3), (2, 6), (6, 6), (0, 8), (7, 8), (0, 11), (3, 40), (36, 40)]
)
@given(text=st.text("a😀नé日", max_size=45))
@example(text="日éa")
@example(text="aaé")
@example(text="日日日é" + "a" * 40)
@example(text="日" * 45)
@example(text="न" * 45)
@example(text="日" + "é" * 45)
def test_no_bytes_are_admitted_that_decode_to_more_characters(text: str, minimum: int, maximum: int) -> None:
    found = matcher({"minLength": minimum, "maxLength": maximum})
    longest = max((at for at in range(len(text) + 1) if found.begins(f'"{text[:at]}')), default=0)
    text = text[:longest]

    assert longest_decoding(found, text) <= maximum
    assert not found.admits(f'"{text}"') or minimum <= len(text)


@pytest.mark.parametrize(
    ("written", "valid"),
    [(r"\ud83d\ude00é", True), (r"\uD83D\uDE00", True), (r"\ud83d", False), (r"\ud83d\n", False), (r"\ude00", False)],
)
def test_a_character_of_four_bytes_may_be_escaped_and_no_surrogate_stands_alone(written: str, valid: bool) -> None:
    assert [valid] * 2 == [matcher({"maxLength": maximum}).admits(f'"{written}"') for maximum in (2, 50)]
