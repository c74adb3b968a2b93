"""Properties of every dialect in the table."""

import itertools

import pytest

from fcshim.messages import Tool, ToolChoice
from fcshim.parse.body import BodyReader
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.parse.grammar import load_grammar
from fcshim.parse.json.body import JsonShape
from fcshim.parse.json.header import HeaderShape
from fcshim.parse.limits import DEFAULT_LIMITS
from fcshim.parse.sink import CallSink
from fcshim.prompt.render import render_call, render_result, render_system

ROWS = [pytest.param(row, id=name) for name, row in DIALECTS.items()]


@pytest.mark.parametrize("row", ROWS)
def test_no_end_marker_is_a_prefix_of_another_marker(row: Dialect) -> None:
    others = (*row.inner_openers(), *row.section.openers(), *row.closers())
    begun = [(short, long) for short in row.closers() for long in others if long != short and long.startswith(short)]

    assert [] == begun


@pytest.mark.parametrize("row", ROWS)
def test_a_dialect_has_no_duplicate_markers(row: Dialect) -> None:
    for markers in (row.openers(), row.closers(), row.section.openers(), row.turn.tokens):
        assert len(set(markers)) == len(markers)


@pytest.mark.parametrize("row", ROWS)
def test_every_dialect_has_a_start_marker_or_start_characters(row: Dialect) -> None:
    assert row.openers() or row.call.starts or row.call.names
    assert set(row.call.starts) <= set("[{")


@pytest.mark.parametrize("row", ROWS)
def test_dialects_are_hashable(row: Dialect) -> None:
    assert hash(row) == hash(DIALECTS[row.name])


MENDED = sorted({row.body.grammar for row in DIALECTS.values() if isinstance(row.body, JsonShape | HeaderShape)})


@pytest.mark.parametrize("name", MENDED)
def test_every_grammar_loads(name: str) -> None:
    assert "start" in load_grammar(name).options.start


@pytest.mark.parametrize("row", ROWS)
def test_every_dialect_creates_body_readers(row: Dialect) -> None:
    reader = row.body.reader(row, row.call.open, CallSink(None, "stream", str, 100), DEFAULT_LIMITS)

    assert isinstance(reader, BodyReader)
    assert "" == reader.unread


TOOLS = [Tool("first_tool", "What it does.", {"type": "object", "properties": {"city": {"type": "string"}}}), Tool("g")]
DEMAND = ToolChoice("required", ["first_tool"])


@pytest.mark.parametrize("row", ROWS)
def test_the_prompt_lists_the_tools_and_names_the_required_one(row: Dialect) -> None:
    prompt, demand = render_system(row, TOOLS), render_system(row, TOOLS, DEMAND)

    assert all(part in prompt.casefold() for part in ("first_tool", "what it does.", "city", "string"))
    assert demand.startswith(prompt)
    assert "first_tool" in demand.removeprefix(prompt)
    assert prompt != render_system(row, TOOLS, parallel=False)


@pytest.mark.parametrize("row", ROWS)
def test_the_prompt_shows_the_markers(row: Dialect) -> None:
    prompt = render_system(row, [])

    if not row.call.starts:
        assert all(marker in prompt for marker in (row.call.open, row.call.close))
        assert row.call.open in render_call(row, "f", "{}")
    assert "4711" in render_result(row, "f", "4711")
    assert row.result.open.strip() in render_result(row, "f", "4711")


@pytest.mark.parametrize("row", ROWS)
def test_a_rendered_result_contains_no_start_marker(row: Dialect) -> None:
    result = render_result(row, "f", "4711")

    assert not [marker for marker in row.openers() if marker in result]


def test_names_and_summaries_are_unique() -> None:
    for one, other in itertools.combinations(DIALECTS.values(), 2):
        assert one.name != other.name
        assert one.summary != other.summary
