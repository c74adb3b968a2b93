"""`tools = "auto"` in front of a server that claims native tools: whatever it does, the client gets the call."""

import json
import logging

import pytest

from fcshim import Client
from fcshim.events import Text, ToolCallEnd
from tests.scripted import CUT, ROLE, Script, end_chunks, event, llama_server_with_tools, text_chunk, text_reply

TAGGED = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</function_call>'
BARE = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
TOOLS = [{"name": "add", "parameters": SCHEMA}]
REFUSAL = Script((b'{"error":{"message":"tools param requires --jinja flag"}}',), status=500)

pytestmark = pytest.mark.model_pages


def native_reply():
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    calls = [{"index": 0, "id": "c1", "type": "function", "function": function}]
    return Script((ROLE, event(choices=[{"index": 0, "delta": {"tool_calls": calls}}]), end_chunks("tool_calls")))


def chats(upstream):
    """Return whether each chat request had native tools."""
    return ["tools" in each.body for each in upstream.requests if each.path == "/v1/chat/completions"]


async def complete(replies, count=1, **sampling):
    async with (
        llama_server_with_tools(*replies) as upstream,
        Client(upstream.url, model="m", constrain="off") as client,
    ):
        return [await client.complete("1 + 2?", TOOLS, **sampling) for _ in range(count)], chats(upstream)


def calls_of(reply):
    return [(call.tool_call_name, json.loads(call.tool_call_arguments_complete)) for call in reply.tool_calls]


ADDED = [("add", {"a": 1, "b": 2})]


async def test_native_tools_that_work_are_used():
    replies, native = await complete([native_reply(), text_reply("3"), native_reply()], 3)

    assert [ADDED, [], ADDED] == list(map(calls_of, replies))
    assert [True, True, True] == native


async def test_native_tools_are_used_until_they_are_refused():
    replies, native = await complete([REFUSAL, text_reply(TAGGED), text_reply(TAGGED)], 2)

    assert [ADDED, ADDED] == list(map(calls_of, replies))
    assert [True, False, False] == native


@pytest.mark.parametrize("left", [TAGGED, BARE, f"```json\n{BARE}\n```"])
async def test_a_call_left_in_the_text_arrives_and_the_next_request_uses_the_prompt(left):
    replies, native = await complete([text_reply(left), text_reply(TAGGED)], 2)

    assert [ADDED, ADDED] == list(map(calls_of, replies))
    assert [True, False] == native


async def test_a_stream_gets_the_text_at_once_and_then_the_call():
    async with (
        llama_server_with_tools(text_reply("So: ", "\n", BARE)) as upstream,
        Client(upstream.url, model="m") as client,
    ):
        events = [each async for each in client.stream("1 + 2?", TOOLS)]

    assert Text("So: ") == events[0]
    assert ["add"] == [each.tool_call_name for each in events if isinstance(each, ToolCallEnd)]


async def test_without_the_demanded_call_the_request_is_sent_again_with_the_prompt(caplog):
    caplog.set_level(logging.INFO, "fcshim")
    replies, native = await complete([text_reply("No."), text_reply(TAGGED)], tool_choice="required")

    assert ("", ADDED) == (replies[0].text, calls_of(replies[0]))
    assert (20, 10) == (replies[0].usage.input_tokens, replies[0].usage.output_tokens)
    assert [True, False] == native
    assert "sent again with tools in the prompt: no call came although one was demanded" in caplog.text


async def test_a_stream_gets_nothing_of_a_reply_without_its_demanded_call():
    async with (
        llama_server_with_tools(text_reply("No."), text_reply(TAGGED)) as upstream,
        Client(upstream.url, model="m") as client,
    ):
        events = [each async for each in client.stream("1 + 2?", TOOLS, tool_choice="required")]

    assert not [each for each in events if isinstance(each, Text)]
    assert ["add"] == [each.tool_call_name for each in events if isinstance(each, ToolCallEnd)]


@pytest.mark.parametrize("failure", [Script((b'{"error":{"message":"busy"}}',), 429), Script((CUT,))])
async def test_the_first_reply_stands_if_the_prompt_fails(failure):
    replies, native = await complete([text_reply("No."), failure], tool_choice="required")

    assert ("No.", ()) == (replies[0].text, replies[0].tool_calls)
    assert [True, False] == native


async def test_a_call_that_violates_its_schema_is_asked_for_again_where_nothing_was_sent():
    wrong = BARE.replace('"a": 1', '"a": "one"')
    replies, native = await complete([text_reply(wrong), text_reply(TAGGED)])

    assert [ADDED] == list(map(calls_of, replies))
    assert [True, False] == native


async def test_native_tools_that_are_set_stay_verbatim():
    async with (
        llama_server_with_tools(text_reply(TAGGED), text_reply("No.")) as upstream,
        Client(upstream.url, model="m", tools="native") as client,
    ):
        left = await client.complete("1 + 2?", TOOLS)
        refused = await client.complete("1 + 2?", TOOLS, tool_choice="required")

    assert [(TAGGED, ()), ("No.", ())] == [(each.text, each.tool_calls) for each in (left, refused)]
    assert [True, True] == chats(upstream)


async def test_a_dialect_that_is_set_asks_for_the_prompt():
    async with (
        llama_server_with_tools(text_reply(TAGGED)) as upstream,
        Client(upstream.url, model="m", dialect="function_call") as client,
    ):
        assert ADDED == calls_of(await client.complete("1 + 2?", TOOLS))

    assert [False] == chats(upstream)


async def test_a_reply_that_was_cut_off_is_an_error_as_ever():
    broken = Script((ROLE, text_chunk("So"), CUT))
    async with llama_server_with_tools(broken) as upstream, Client(upstream.url, model="m") as client:
        events = [each async for each in client.stream("1 + 2?", TOOLS)]

    assert Text("So") == events[0]
    assert "error" == events[-1].__struct_config__.tag
