"""Calls that a dialect's templates render are parsed to the same calls, with equal arguments, under every split."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.messages import as_tools
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import StreamParser
from fcshim.prompt.render import render_call, render_calls, render_result, render_system
from fcshim.testing.splits import random_split
from tests.examples import examples, identifiers
from tests.parse.laws import check_reply, executable

JSON = Any

names = identifiers(13)
words = st.sampled_from(
    ["Paris", " ", "\n", "\n\n", "\t", "é", "\U0001f642", "<", ">", "</", '"', "'", "\\", "a: 1", "}", "]", "5"]
)
texts = st.lists(words | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6), max_size=6).map("".join)
numbers = st.integers(-(10**12), 10**12)
floats = st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda number: number + 0.5)
SCALARS: dict[str, st.SearchStrategy[JSON]] = {
    "string": texts,
    "integer": numbers,
    "number": floats,
    "boolean": st.booleans(),
}


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, JSON], JSON]:
    """A schema and a value that it admits."""
    kind = draw(st.sampled_from([*SCALARS, "enum", *(["array", "object"] if depth else [])]))
    if kind == "enum":
        choices = draw(st.lists(names, min_size=1, max_size=3, unique=True))
        return {"type": "string", "enum": choices}, draw(st.sampled_from(choices))
    if kind == "array":
        item, _ = draw(typed_values(depth=0))
        values = draw(st.lists(_admitted(item), max_size=3))
        return {"type": "array", "items": item}, values
    if kind == "object":
        return draw(objects(depth - 1))
    return {"type": kind}, draw(SCALARS[kind])


def _admitted(schema: dict[str, JSON]) -> st.SearchStrategy[JSON]:
    return st.sampled_from(schema["enum"]) if "enum" in schema else SCALARS[schema["type"]]


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The schema of an object and an object that it admits."""
    members = draw(st.dictionaries(names, typed_values(depth=depth), max_size=4))
    schema = {"type": "object", "properties": {key: typed for key, (typed, _) in members.items()}}
    return schema, {key: value for key, (_, value) in members.items()}


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[dict[str, JSON]], list[tuple[str, dict[str, JSON]]]]:
    """Tools and one to three calls of them."""
    drawn = draw(st.dictionaries(names, objects(), min_size=1, max_size=3))
    tools = [{"name": name, "parameters": schema} for name, (schema, _) in drawn.items()]
    return tools, [(name, arguments) for name, (_, arguments) in drawn.items()]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@examples(6)
@given(turn=turns(), seed=st.integers(0, 2**32))
def test_rendered_calls_parse_to_the_same_calls(
    dialect: Dialect, turn: tuple[list[dict[str, JSON]], list[tuple[str, dict[str, JSON]]]], seed: int
) -> None:
    check_round_trip(dialect, *turn, seed)


def check_round_trip(
    dialect: Dialect, tools: list[dict[str, JSON]], calls: list[tuple[str, dict[str, JSON]]], seed: int
) -> None:
    """Render calls and read them whole, by character and at random splits."""
    text = render_calls(dialect, [(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls])

    assert calls == _read(dialect, tools, [text])
    assert calls == _read(dialect, tools, list(text))
    assert calls == _read(dialect, tools, random_split(text, random.Random(seed)))


NAMED = {name: row for name, row in DIALECTS.items() if not row.call.names}
"""The dialects with the tool's name in a call. Where it is the start marker, only the name itself is one."""


@pytest.mark.parametrize("name", ["get_weather", "getWeather", "Get-Weather", "functions.getWeather"])
@pytest.mark.parametrize("dialect", NAMED.values(), ids=NAMED)
def test_every_dialect_reads_a_single_call_and_other_spellings_of_its_name(dialect: Dialect, name: str) -> None:
    city = {"type": "object", "properties": {"city": {"type": "string"}}}
    text = render_call(dialect, name, '{"city": "Paris"}').strip("\n")

    assert [("get_weather", {"city": "Paris"})] == _read(dialect, [{"name": "get_weather", "parameters": city}], [text])


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_the_system_prompt_shows_the_tools(dialect: Dialect) -> None:
    tools = as_tools([{"name": "get_weather", "description": "Tell the weather."}])
    text = render_system(dialect, tools)

    assert "get_weather" in text
    assert "Tell the weather." in text
    assert text == text.rstrip("\n")


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_rendered_result_contains_its_content(dialect: Dialect) -> None:
    assert "21 degrees" in render_result(dialect, "get_weather", "21 degrees")


def _read(dialect: Dialect, tools: list[dict[str, JSON]], pieces: list[str]) -> list[tuple[str, dict[str, JSON]]]:
    parser = StreamParser(dialect, tools)
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    found = check_reply("".join(pieces), "complete", events)

    assert len(executable(found)) == len([piece for piece in found if "call" in piece]), found

    return [(call["call"], json.loads(call["arguments"])) for call in executable(found)]
