"""A call in a form with no or several readings does not run, and is reported, so that it is asked for again."""

import json
import random
from collections.abc import Sequence

import pytest

from fcshim import StreamParser
from fcshim.parse.defect import Defect
from fcshim.reply import fold
from fcshim.testing.splits import splits

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = [{"name": "get_weather", "parameters": WEATHER}]
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
RESULT = f"<tool_response>\n{CALL}\n</tool_response>"


def _defects(pieces: Sequence[str], dialect: str) -> list[Defect]:
    """Read a reply, of which no call may run."""
    found: list[Defect] = []
    parser = StreamParser(dialect, TOOLS, rescue=True, on_defect=found.append, on_copy=found.append)
    events = [event for piece in pieces for event in parser.feed(piece)]

    assert [call for call in fold(events + parser.close()).tool_calls if call.error is None] == []

    return found


@pytest.mark.parametrize("dialect", ["function_call", "hermes", "bare_json"])
@pytest.mark.parametrize(
    "text",
    [
        "<function_call><name>get_weather</name>Paris</function_call>",
        "<tool_call><name>get_weather</name><arguments><town>Paris</town></arguments></tool_call>",
        "<name>get_weather</name>\nParis",
        '<get_weather>{"city": "Paris"}{"city": "Rome"}</get_weather>',
        '<get_weather city="Paris", days=3>',
        '<get_weather city="Paris" color="red"/>',
        '{"get_weather": {"city": "Paris"}, "get_weather2": {"city": "Rome"}}',
        json.dumps({"content": CALL}),
        json.dumps({"role": "assistant", "content": json.dumps({"get_weather": {"city": "Paris"}})}),
        '{"name": "get_weather", "description": "The weather.", "parameters": {"city": "Paris"}}',
        RESULT,
    ],
)
def test_a_lost_call_is_reported(text: str, dialect: str) -> None:
    for pieces in ([text], *splits(text, random.Random(text), count=2)):
        assert _defects(pieces, dialect), pieces


def test_an_open_marker_of_the_selected_dialect_is_reported() -> None:
    assert [defect.kind for defect in _defects("<tool_call>", "hermes")] == ["unreadable"]


@pytest.mark.parametrize(
    "text",
    [
        'The tag <get_weather city="Paris", days=3> is an example.',
        "Call it as `<name>get_weather</name>`.",
        json.dumps({"content": "The weather is fine."}),
        json.dumps({"role": "tool", "content": CALL}),
        "The reply ended with <tool_call>",
        '{"weather": {"city": "Paris"}}',
    ],
)
def test_what_only_mentions_a_call_is_not_reported(text: str) -> None:
    for pieces in ([text], *splits(text, random.Random(text), count=2)):
        assert _defects(pieces, "function_call") == [], pieces
