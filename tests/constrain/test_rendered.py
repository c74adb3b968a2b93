"""The grammar of each dialect admits the valid calls that its templates render."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.constraint import dialect_note
from fcshim.constrain.grammar import Grammar, GrammarLimits
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.render import render_calls
from tests.constrain.matcher import Matcher
from tests.examples import examples, identifiers

JSON = Any
WIDE = GrammarLimits(characters=60_000, items=100, further_calls=7)

names = identifiers(9, also="")
words = st.sampled_from(
    ["Paris", " ", "é", "北", "<", "<<", "</", "<b>", "a: 1", "}", "]", "5", "]<", "```", "'", '"', "\\"]
)
texts = st.lists(words, max_size=5).map("".join)
SCALARS: dict[str, st.SearchStrategy[JSON]] = {
    "string": texts,
    "integer": st.integers(-(10**9), 10**9),
    "number": st.integers(-4_000, 4_000).map(lambda number: number / 4),
    "boolean": st.booleans(),
    "null": st.none(),
}


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[JSON, JSON]:
    """Draw a schema and a value that it admits."""
    kind = draw(st.sampled_from([*SCALARS, "enum", *(["array", "object"] if depth else [])]))
    match kind:
        case "enum":
            choices = draw(st.lists(st.one_of(names, st.integers(0, 9)), min_size=1, max_size=3, unique_by=str))
            return {"enum": choices}, draw(st.sampled_from(choices))
        case "array":
            item, _ = draw(typed(depth=0))
            one = st.sampled_from(item["enum"]) if "enum" in item else SCALARS[item["type"]]
            return {"type": "array", "items": item}, draw(st.lists(one, max_size=3))
        case "object":
            return draw(objects(depth - 1))
        case _:
            return {"type": kind}, draw(SCALARS[kind])


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> tuple[JSON, dict[str, JSON]]:
    """Draw an object schema and an object that it admits; some members are required, others may be absent."""
    drawn = draw(st.dictionaries(names, st.tuples(typed(depth=depth), st.sampled_from("row")), max_size=4))
    schema = {
        "type": "object",
        "properties": {key: schema for key, ((schema, _), _) in drawn.items()},
        "required": [key for key, (_, kind) in drawn.items() if kind == "r"],
    }
    return schema, {key: value for key, ((_, value), kind) in drawn.items() if kind != "o"}


def grammar_of(dialect: Dialect, tools: list[Tool]) -> Grammar:
    grammar = grammar_of_calls(dialect, tools)
    assert grammar is not None
    return Grammar(grammar.rules, grammar.notes, WIDE)


CONSTRAINED = {name: row for name, row in DIALECTS.items() if not dialect_note(row)}


@pytest.mark.parametrize("dialect", CONSTRAINED.values(), ids=CONSTRAINED)
@examples(4)
@given(drawn=st.dictionaries(names, objects(), min_size=1, max_size=3))
def test_rendered_calls_are_admitted(dialect: Dialect, drawn: dict[str, tuple[JSON, JSON]]) -> None:
    grammar = grammar_of(dialect, [Tool(name, "", schema) for name, (schema, _) in drawn.items()])
    calls = [(name, json.dumps(value, ensure_ascii=False)) for name, (_, value) in drawn.items()]
    text = render_calls(dialect, calls).strip()

    assert Matcher(grammar).admits(text), text
