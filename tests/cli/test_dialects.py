"""`fcshim dialects`."""

import json

from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import parse
from fcshim.reply import fold
from tests.cli.command import fcshim


def test_every_dialect_is_shown_with_summary_and_example():
    outcome = fcshim("dialects")

    assert 0 == outcome.code
    for row in DIALECTS.values():
        assert f"{row.name}\n  {row.summary}\n" in outcome.out
        assert row.call.open in outcome.out


def test_json_output_has_every_dialect():
    rows = json.loads(fcshim("dialects", "--json").out)

    assert list(DIALECTS) == [row["name"] for row in rows]
    assert {"name", "summary", "waits", "example"} == set(rows[0])
    assert '{"name": "get_weather", "arguments": {"city": "Paris"}}' in rows[0]["example"]


def test_every_example_is_a_call_in_its_dialect():
    tool = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    for row in json.loads(fcshim("dialects", "--json").out):
        reply = fold(parse(row["example"], row["name"], [tool]))

        assert [("get_weather", None)] == [(made.tool_call_name, made.error) for made in reply.tool_calls], row["name"]
        assert "" == reply.text.strip()
