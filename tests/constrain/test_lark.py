"""llguidance compiles the Lark grammars and admits the sampled texts."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.grammar import ROOT, Grammar, LiteralText, Repeat, chars, choice, series
from fcshim.constrain.token_limit import limit_tokens
from fcshim.messages import Tool
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from tests.constrain import schemas
from tests.constrain.matcher import Matcher
from tests.constrain.sampler import sample
from tests.examples import examples

JSON = Any


@examples(14)
@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_sampled_texts_are_admitted(schema: JSON, seed: int) -> None:
    grammar = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", schema), Tool("add")])
    assert grammar is not None
    grammar = limit_tokens(grammar, 2_000)

    assert Matcher(grammar).admits(sample(grammar, seed))


@examples(14)
@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_damaged_texts_are_rejected_unless_the_grammar_derives_them(schema: JSON, seed: int) -> None:
    """A shortened text is incomplete, as JSON and as a tag."""
    grammar = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", schema)], max_calls=1)
    assert grammar is not None
    grammar = limit_tokens(grammar, 2_000)
    text = sample(grammar, seed)
    matcher = Matcher(grammar)

    assert not matcher.admits(text[: random.Random(seed).randrange(len(text))])
    assert not matcher.admits(text + "x")
    assert not matcher.admits(text.replace("{", "[", 1))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer", "minimum": -3, "maximum": 120}, ["-3", "0", "99", "120"], ["-4", "121", "007", "1.0"]),
        ({"type": "string", "maxLength": 3}, ['""', '"abc"', '"é\\n"'], ['"abcd"', "1", '"\t"']),
        ({"enum": ["a", "ab", 1]}, ['"a"', '"ab"', "1"], ['"abc"', '""']),
        ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"', '"2024-13-01"']),
        ({"type": "array", "items": {"type": "null"}, "minItems": 1}, ["[null]", "[null, null]"], ["[]", "[1]"]),
    ],
)
def test_a_value_is_admitted_where_the_schema_admits_it(schema: JSON, good: list[str], bad: list[str]) -> None:
    tool = Tool("f", "", {"type": "object", "properties": {"x": schema}, "required": ["x"]})
    grammar = grammar_of_calls(FUNCTION_CALL, [tool])
    assert grammar is not None
    matcher = Matcher(grammar)
    frame = '<function_call>\n{{"name": "f", "arguments": {{"x": {}}}}}\n</function_call>'

    assert [True] * len(good) == [matcher.admits(frame.format(text)) for text in good]
    assert [False] * len(bad) == [matcher.admits(frame.format(text)) for text in bad]


@pytest.mark.parametrize("name", [name for name, row in DIALECTS.items() if grammar_of_calls(row, [Tool("add")])])
def test_every_dialect_compiles(name: str) -> None:
    tool = Tool("f", "", {"type": "object", "properties": {"x": {"type": "string"}}})
    grammar = grammar_of_calls(DIALECTS[name], [tool, Tool("add")])
    assert grammar is not None
    matcher = Matcher(limit_tokens(grammar, 2_000))

    assert all(matcher.admits(sample(limit_tokens(grammar, 2_000), seed)) for seed in range(5))


def test_unusual_characters_survive_the_notation() -> None:
    odd = '"\\/\n\r\t\x00\x7f\u2028é\U0001f600]^-'
    ranges = choice([chars("]"), chars("^"), chars("-"), chars("\U0001f600"), chars("\\")])
    grammar = Grammar({ROOT: series(LiteralText(odd), Repeat(ranges, 2, 3))})
    matcher = Matcher(grammar)

    assert matcher.admits(odd + "]^")
    assert matcher.admits(odd + "-\\\U0001f600")
    assert not matcher.admits(odd + "]")
    assert not matcher.admits(json.dumps(odd) + "]^")
