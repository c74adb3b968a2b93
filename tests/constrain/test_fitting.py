"""A reply ends within its tokens, even where each is a byte, wherever the shortest call does."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.fitting import TIGHTER, fitted, measure
from fcshim.constrain.grammar import LOOSE, ROOT, Grammar, Limits, Repeat, Text, chars, choice, series
from fcshim.constrain.shortening import shortened
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from tests.constrain import schemas
from tests.constrain.matcher import Matcher, admits
from tests.constrain.sampler import sample
from tests.constrain.test_calls import calls_in

JSON = Any
WEATHER = Tool(
    "weather",
    "",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "labels": {"type": "object"},
            "more": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    },
)


def calls_of(dialect: Dialect, *tools: Tool) -> Grammar:
    grammar = grammar_of_calls(dialect, tools)
    assert grammar is not None
    return grammar


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("tokens", [400, 700])
def test_no_text_is_longer_than_there_are_tokens(dialect: Dialect, tokens: int) -> None:
    grammar = fitted(calls_of(dialect, WEATHER), tokens)
    texts = [sample(grammar, seed) for seed in range(30)]

    assert not any("may take" in note for note in grammar.notes)
    assert max(len(text.encode()) for text in texts) <= tokens
    for text in texts:
        calls = calls_in(text, dialect, [WEATHER])

        assert calls
        assert all(call.error is None for call in calls), text


@settings(max_examples=60, deadline=None)
@given(schema=schemas.arguments, seed=st.integers(0, 2**32), tokens=st.integers(60, 600))
def test_what_is_left_is_what_the_schema_admits(schema: JSON, seed: int, tokens: int) -> None:
    tool = Tool("f", "", schema)
    grammar = shortened(calls_of(FUNCTION_CALL, tool), tokens)
    if grammar is None:
        return
    text = sample(grammar, seed)

    assert len(text.encode()) <= tokens
    for call in calls_in(text, FUNCTION_CALL, [tool]):
        assert call.error is None
        assert [] == call.coerced
        arguments = json.loads(call.tool_call_arguments_complete)
        assert [] == list(Draft202012Validator(schema).iter_errors(arguments))


@settings(max_examples=30, deadline=None)
@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_what_is_left_was_there_before(schema: JSON, seed: int) -> None:
    whole = calls_of(FUNCTION_CALL, Tool("f", "", schema))
    short = shortened(whole, 200)
    if short is not None:
        assert Matcher(whole).admits(sample(short, seed))


def test_the_shortest_text_is_left_and_below_it_nothing() -> None:
    grammar = Grammar({ROOT: choice([Text("abc"), series(Text("a"), Repeat(chars("bz"), 0, 9))])})

    assert shortened(grammar, 0) is None
    for tokens in range(1, 12):
        short = shortened(grammar, tokens)
        assert short is not None
        assert admits(short, "a")
        assert admits(short, "abc") == (tokens >= 3)
        assert not admits(short, "a" + "b" * tokens)


def test_room_is_shared_and_one_part_gets_what_another_cannot_use() -> None:
    parts = series(Text("<"), Repeat(chars("az"), 0, 2), Text("|"), Repeat(chars("az"), 0, 50), Text(">"))
    short = shortened(Grammar({ROOT: parts}), 20)
    assert short is not None

    assert admits(short, f"<ab|{'x' * 15}>")
    assert not admits(short, f"<|{'x' * 16}>")


def test_wide_characters_are_left_out_where_bytes_count() -> None:
    short = shortened(Grammar({ROOT: Repeat(chars("az", "é", "北", "\U0001f600"), 1, 1)}), 2)
    assert short is not None

    assert [True, True, False, False] == [admits(short, char) for char in "aé北\U0001f600"]


def test_wider_limits_are_kept_where_they_fit() -> None:
    grammar = calls_of(FUNCTION_CALL, WEATHER)
    one = fitted(grammar, 10**11)
    other = fitted(grammar, measure(grammar, TIGHTER[0]))

    assert LOOSE is one.limits
    assert TIGHTER[0] is other.limits
    assert Limits(8_192, 32, 7) == fitted(grammar, None).limits


def test_a_name_that_is_too_long_is_noted() -> None:
    grammar = fitted(calls_of(FUNCTION_CALL, Tool("n" * 100)), 64)

    assert ("a call may take more than 64 tokens",) == grammar.notes


def test_many_tools_are_shortened_in_bounded_work() -> None:
    tools = [Tool(f"tool{at}", "", {**WEATHER.parameters, "title": str(at)}) for at in range(128)]
    grammar = fitted(calls_of(FUNCTION_CALL, *tools), 150)

    assert len(sample(grammar, 1).encode()) <= 150


def test_rules_that_lead_to_one_another_by_hundreds_are_left_as_they_are() -> None:
    schema = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(400)}}
    grammar = fitted(calls_of(FUNCTION_CALL, Tool("f", "", schema)), 300)

    assert TIGHTER[-1] == grammar.limits
    assert any("may take" in note for note in grammar.notes)
