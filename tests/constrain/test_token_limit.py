"""A reply ends within its token limit, if that leaves enough for values of usual length."""

import json
from typing import Any

import pytest

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.constraint import dialect_note
from fcshim.constrain.grammar import DEFAULT_LIMITS, Grammar, GrammarLimits
from fcshim.constrain.token_limit import NARROWER_LIMITS, limit_tokens, longest_text
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from tests.constrain.matcher import admits
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
            "more": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    },
)


def calls_of(dialect: Dialect, *tools: Tool) -> Grammar:
    grammar = grammar_of_calls(dialect, tools)
    assert grammar is not None
    return grammar


CONSTRAINED = {name: row for name, row in DIALECTS.items() if not dialect_note(row)}


@pytest.mark.parametrize("dialect", CONSTRAINED.values(), ids=CONSTRAINED)
def test_no_text_is_longer_than_the_token_limit(dialect: Dialect) -> None:
    grammar = calls_of(dialect, WEATHER)
    tokens = longest_text(grammar, NARROWER_LIMITS[-1])
    grammar = limit_tokens(grammar, tokens)
    texts = [sample(grammar, seed) for seed in range(10)]

    assert NARROWER_LIMITS[-1] == grammar.limits
    assert not any("may take" in note for note in grammar.notes)
    assert max(len(text.encode()) for text in texts) <= tokens
    for text in texts:
        calls = calls_in(text, dialect, [WEATHER])

        assert calls
        assert all(call.error is None for call in calls), text


def test_wider_limits_are_kept_where_they_fit() -> None:
    grammar = calls_of(FUNCTION_CALL, WEATHER)
    one = limit_tokens(grammar, 10**11)
    other = limit_tokens(grammar, longest_text(grammar, NARROWER_LIMITS[0]))

    assert DEFAULT_LIMITS is one.limits
    assert NARROWER_LIMITS[0] is other.limits
    assert GrammarLimits(8_192, 32, 7) == limit_tokens(grammar, None).limits


def test_a_call_that_may_exceed_the_tokens_is_noted() -> None:
    grammar = limit_tokens(calls_of(FUNCTION_CALL, Tool("n" * 100)), 64)

    assert ("a call may take more than 64 tokens",) == grammar.notes


def test_a_small_token_limit_does_not_cut_values_short() -> None:
    grammar = limit_tokens(calls_of(FUNCTION_CALL, WEATHER), 100)
    city = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"

    arguments = json.dumps({"city": city})

    assert admits(grammar, f'<function_call>\n{{"name": "weather", "arguments": {arguments}}}\n</function_call>')
    assert ("a call may take more than 100 tokens",) == grammar.notes[-1:]
