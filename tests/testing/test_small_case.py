"""Small cases of recorded requests."""

import json

import pytest

from fcshim.errors import ConfigError
from fcshim.messages import Tool
from fcshim.parse.stream import StreamParser, parse
from fcshim.testing.small_case import reading_of, shorten, small_case
from tests.parse.cases import Case, check
from tests.server.proxy import CALL
from tests.server.test_recording import recorded

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
WEATHER, MAIL = Tool("get_weather", "", CITY), Tool("send_mail", "", {"type": "object"})
PROSE = "Let me think about what the user wants. It is a question about the weather, I believe.\n\n"


@pytest.mark.parametrize(
    ("text", "stop_reason"),
    [
        (
            PROSE + '<function_call>{"name": "get_weather", "arguments": {"city": "Paris, Texas"}}</function_call>',
            "complete",
        ),
        (PROSE + "<function_call>{'name': 'get_weather', 'arguments': {'city': 'Paris',}}</function_call>", "complete"),
        (PROSE + '<function_call>{"name": "get_weather", "arguments": {"city": "Par', "max_tokens"),
        (PROSE + '<function_call>{"name": "get_weather", "arguments": {"days": "3"}}</function_call>', "complete"),
        (PROSE + '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n' + PROSE, "complete"),
        ('<tool_call>{"name": "get_weather", "arguments": {"city": "a" b "c"}}</tool_call>', "complete"),
        ("<think>I could look it up.</think>" + PROSE, "complete"),
        (PROSE, "complete"),
    ],
)
def test_the_case_is_short_and_read_in_the_same_way(text, stop_reason):
    options = {"dialect": "function_call", "rescue": True}
    made = shorten(text, [WEATHER, MAIL], options, stop_reason)
    before, after = (StreamParser(tools=tools, **options) for tools in ([WEATHER, MAIL], made.tools))

    assert reading_of(before.feed(text) + before.close(stop_reason)) == reading_of(
        after.feed(made.input) + after.close(stop_reason)
    )
    assert len(made.input) < len(text)
    assert PROSE not in made.input
    assert 1 == len(made.tools)
    check(Case(**json.loads(json.dumps(made.as_vector("small")))))  # a test vector, under every split


def test_a_failed_call_stays_a_failed_call():
    text = (
        PROSE + '<function_call>{"name": "get_weather", "arguments": {"city": "x, "days": 3}}</function_call>' + PROSE
    )
    made = shorten(text, [WEATHER], {"dialect": "function_call"})

    assert [] == made.calls
    assert "malformed" in str(reading_of(parse(made.input, tools=made.tools)))


async def test_a_record_becomes_a_small_case(tmp_path):
    """The proxy records a reply with prose and a call; what is left is the call."""
    file = await recorded(tmp_path, (PROSE, CALL))
    made = small_case(file)

    assert len(made.input) < len(PROSE + CALL) // 2
    assert ["add"] == [call["call"] for call in made.calls]
    assert "function_call" == made.options["dialect"]


async def test_a_file_that_is_no_record_is_an_error(tmp_path):
    (tmp_path / "x.jsonl").write_text("{}")
    with pytest.raises(ConfigError):
        small_case(tmp_path / "x.jsonl")
    file = await recorded(tmp_path / "records", (CALL,))
    with pytest.raises(ConfigError, match="none with number 7"):
        small_case(file, attempt=7)
