"""Strings with a length limit: no byte sequence that a sampler admits is too long; without one, every script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.grammar import ROOT, Grammar
from fcshim.constrain.keywords import Keywords
from fcshim.constrain.rules import Rules
from fcshim.constrain.scalars import ScalarWriter
from fcshim.constrain.value_syntax import JSON_SYNTAX
from fcshim.events import JSON
from tests.constrain.matcher import Matcher

TEXTS = ["नमस्ते", "สวัสดี", "👍🏽 ok", "日本語", "Zoë", "ᠮᠣᠩᠭᠣᠯ", "𝒳", "தமிழ்", "a", "한국어"]


def matcher(schema: dict[str, JSON]) -> Matcher:
    rules = Rules()
    found = ScalarWriter(JSON_SYNTAX, rules, argument=False).string(Keywords((schema,)), frozenset())
    assert found is not None
    return Matcher(Grammar({**rules.rules, ROOT: found}))


@pytest.mark.parametrize("schema", [{}, {"minLength": 1}])
def test_every_script_can_be_written_without_a_largest_length(schema: dict[str, JSON]) -> None:
    found = matcher(schema)

    assert TEXTS == [text for text in TEXTS if found.admits(f'"{text}"')]


@pytest.mark.parametrize("schema", [{"maxLength": 100}, {"minLength": 1, "maxLength": 24}])
def test_a_largest_length_leaves_out_what_sampling_byte_by_byte_may_lengthen(schema: dict[str, JSON]) -> None:
    found = matcher(schema)

    assert ["日本語", "Zoë", "ᠮᠣᠩᠭᠣᠯ", "a", "한국어"] == [text for text in TEXTS if found.admits(f'"{text}"')]


@pytest.mark.parametrize(("least", "most"), [(0, 0), (1, 3), (2, 6), (6, 6), (0, 11), (5, None), (3, 40)])
@given(text=st.text("a😀नé<", max_size=45))
def test_no_bytes_are_admitted_that_decode_to_more_characters(text: str, least: int, most: int | None) -> None:
    found = matcher({"minLength": least, **({} if most is None else {"maxLength": most})})
    if found.admits(f'"{text}"'):
        assert least <= len(text)
        assert most is None or (len(text) <= most and not set(text) & set("😀न"))
    elif len(text) >= least and "<" not in text:
        assert most is not None
        assert len(text) > most or set(text) & set("😀न")
