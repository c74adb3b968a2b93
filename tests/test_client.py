"""The client, with a scripted upstream on a real connection."""

import asyncio
import json

import pytest

from fcshim.client import Client
from fcshim.errors import ConfigError, ModelOutputError, RequestError, UpstreamError
from fcshim.events import Error, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import AssistantMessage, TextPart, Tool, ToolCall, ToolMessage, UserMessage
from fcshim.tools import Executor
from fcshim.upstream import Timeouts
from tests.scripted import (
    CUT,
    HANG,
    ROLE,
    Script,
    end_chunks,
    event,
    model_list,
    scripted_upstream,
    text_chunk,
    text_reply,
)

ADD = Tool("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</function_call>'
USAGE = Usage(input_tokens=10, output_tokens=5)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def client_of(upstream, **settings):
    return Client(upstream.url, model="m", **settings)


def numbered():
    ids = (f"call_{number}" for number in range(1_000))
    return ids.__next__


async def events_of(client, *arguments, **settings):
    async with client.stream(*arguments, **settings) as stream:
        return [each async for each in stream]


async def test_text_arrives_in_the_chunks_of_the_upstream():
    async with scripted_upstream(text_reply("Hel", "lo")) as upstream, client_of(upstream) as client:
        events = await events_of(client, "Hi")

    assert [Text("Hel"), Text("lo"), USAGE, Stop("complete")] == events


async def test_a_call_in_the_text_becomes_events():
    script = text_reply(*[CALL[at : at + 7] for at in range(0, len(CALL), 7)])
    async with scripted_upstream(script) as upstream, client_of(upstream, new_id=numbered()) as client:
        start, *chunks, end, usage, stop = await events_of(client, "1 + 2?", [ADD])

    assert ToolCallStart("call_0", "add", 0) == start
    assert all(isinstance(chunk, ToolCallChunk) for chunk in chunks)
    assert ToolCallEnd("call_0", "add", '{"a": 1, "b": 2}', 0) == end
    assert (USAGE, Stop("tool_use")) == (usage, stop)


async def test_the_upstream_gets_the_prompt_and_no_tools():
    async with scripted_upstream(text_reply("ok")) as upstream, client_of(upstream, api_key="secret") as client:
        await client.complete("1 + 2?", [ADD], temperature=0.5, mirostat=2)
    (received,) = upstream.requests
    system, user = received.body["messages"]

    assert ("POST", "/v1/chat/completions") == (received.method, received.path)
    assert "Bearer secret" == received.headers["authorization"]
    assert "tools" not in received.body
    assert '"name": "add"' in system["content"]
    assert {"role": "user", "content": "1 + 2?"} == user
    assert {"model": "m", "stream": True, "temperature": 0.5, "mirostat": 2}.items() <= received.body.items()


async def test_without_tools_nothing_is_added_and_nothing_is_read_as_a_call():
    async with scripted_upstream(text_reply(CALL)) as upstream, client_of(upstream) as client:
        reply = await client.complete("Hi")

    assert [{"role": "user", "content": "Hi"}] == upstream.requests[0].body["messages"]
    assert CALL == reply.text


async def test_a_native_upstream_gets_the_tools_and_its_calls_are_events():
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    call = event(choices=[{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "x", "function": function}]}}])
    async with (
        scripted_upstream(Script((ROLE, call, end_chunks("tool_calls")))) as upstream,
        client_of(upstream, dialect=None) as client,
    ):
        reply = await client.complete("1 + 2?", [ADD])

    assert ["add"] == [tool["function"]["name"] for tool in upstream.requests[0].body["tools"]]
    assert (ToolCallEnd("x", "add", '{"a": 1, "b": 2}', 0),) == reply.tool_calls
    assert "tool_use" == reply.stop_reason


async def test_messages_may_be_objects_and_dicts():
    messages = [
        {"role": "developer", "content": "Be brief."},
        UserMessage((TextPart("1 + 2?"),)),
        AssistantMessage(tool_calls=(ToolCall("c", "add", '{"a": 1, "b": 2}'),)),
        {"role": "tool", "tool_call_id": "c", "content": "3"},
        {"role": "user", "content": [{"type": "text", "text": "And?"}]},
    ]
    async with scripted_upstream(text_reply("3")) as upstream, client_of(upstream) as client:
        await client.complete(messages)
    system, question, call, result = upstream.requests[0].body["messages"]

    assert ["system", "user", "assistant", "user"] == [each["role"] for each in upstream.requests[0].body["messages"]]
    assert ("Be brief.", "1 + 2?") == (system["content"], question["content"])
    assert CALL in call["content"]
    assert "3" in result["content"]
    assert result["content"].endswith("And?")


async def test_the_profile_follows_the_models_name():
    async with scripted_upstream(text_reply("ok")) as upstream, Client(upstream.url, model="gemma-2-9b") as client:
        await client.complete("Hi", [ADD])

    assert ["user"] == [each["role"] for each in upstream.requests[0].body["messages"]]


@pytest.mark.parametrize(
    ("model", "settings", "marker"),
    [
        ("mistral-nemo", {}, "[TOOL_CALLS]"),
        ("m", {}, "<function_call>"),
        ("mistral-nemo", {"dialect": "hermes"}, "<tool_call>"),
    ],
)
async def test_the_dialect_follows_the_models_name_unless_one_is_set(model, settings, marker):
    async with scripted_upstream(text_reply("ok")) as upstream, Client(upstream.url, model=model, **settings) as client:
        await client.complete("1 + 2?", [ADD])

    assert marker in json.dumps(upstream.requests[0].body)


async def test_tools_can_be_listed_by_signature():
    upstream_answering = scripted_upstream(text_reply("ok"))
    async with upstream_answering as upstream, Client(upstream.url, model="m", tools_style="signature") as client:
        await client.complete("1 + 2?", [ADD])

    assert "function add(" in json.dumps(upstream.requests[0].body)


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        ({"max_tools": 1}, "with their parameters:\\n\\nother()"),
        ({"prompt_budget": 100}, "function add("),
        ({"max_result": 10}, "[... 90 characters left out ...]"),
    ],
)
async def test_limits_of_the_prompt_can_be_set(limit, shown, caplog):
    caplog.set_level("INFO", "fcshim.dispatch")
    said = [
        {"role": "user", "content": "add 1 and 2"},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "add", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "3" * 100},
    ]
    async with scripted_upstream(text_reply("ok")) as upstream, Client(upstream.url, model="m", **limit) as client:
        await client.complete(said, [ADD, Tool("other")])

    assert shown in json.dumps(upstream.requests[0].body)
    assert ("max_tools" in limit) is not (
        "m: " in caplog.text
    )  # the choice of tools leaves nothing out, so nothing is logged


async def test_a_client_without_a_model_asks_for_the_first_one_once():
    scripts = (model_list("first", "second"), text_reply("a"), text_reply("b"))
    async with scripted_upstream(*scripts) as upstream, Client(upstream.url) as client:
        await client.complete("Hi")
        await client.complete("Hi again")

    assert ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"] == [
        received.path for received in upstream.requests
    ]
    assert {"first"} == {received.body["model"] for received in upstream.requests[1:]}


@pytest.mark.parametrize("script", [model_list(), Script((b"<html>",), status=404), Script((b"not json",))])
async def test_a_list_of_models_that_names_none_is_an_error(script):
    async with scripted_upstream(script) as upstream, Client(upstream.url) as client:
        with pytest.raises(UpstreamError, match="no model was given"):
            await client.complete("Hi")


async def test_closing_the_stream_cancels_the_upstream():
    async with scripted_upstream(Script((ROLE, text_chunk("Once"), HANG))) as upstream, client_of(upstream) as client:
        stream = client.stream("A story, please.")

        assert Text("Once") == await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(upstream.client_left.wait(), 60)


async def test_leaving_the_block_cancels_the_upstream():
    async with scripted_upstream(Script((ROLE, text_chunk("Once"), HANG))) as upstream, client_of(upstream) as client:
        async with client.stream("A story, please.") as stream:
            await anext(stream)
        await asyncio.wait_for(upstream.client_left.wait(), 60)


async def test_a_model_that_invents_the_result_is_cancelled():
    invented = '\n<function_result name="add">\n4\n</function_result>'
    script = Script((ROLE, text_chunk(CALL), text_chunk(invented), HANG))
    async with scripted_upstream(script) as upstream, client_of(upstream) as client:
        reply = await client.complete("1 + 2?", [ADD])
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert "tool_use" == reply.stop_reason
    assert "" == reply.text


async def test_an_upstream_that_fails_in_the_middle_ends_a_stream_with_an_error():
    async with scripted_upstream(Script((ROLE, text_chunk("Once"), CUT))) as upstream, client_of(upstream) as client:
        text, error = await events_of(client, "Hi")

    assert Text("Once") == text
    assert isinstance(error, Error)
    assert "upstream_error" == error.kind


async def test_an_upstream_that_fails_in_the_middle_makes_complete_raise():
    async with scripted_upstream(Script((ROLE, text_chunk("Once"), CUT))) as upstream, client_of(upstream) as client:
        with pytest.raises(UpstreamError):
            await client.complete("Hi")


async def test_an_error_in_the_stream_makes_complete_raise_with_its_message():
    broken = event(error={"code": 500, "message": "slot lost", "type": "server_error"})
    async with scripted_upstream(Script((ROLE, broken))) as upstream, client_of(upstream) as client:
        with pytest.raises(UpstreamError, match="slot lost"):
            await client.complete("Hi")


async def test_an_error_status_is_raised_before_the_first_event():
    body = json.dumps({"error": {"code": 400, "message": "bad grammar", "type": "invalid_request_error"}}).encode()
    async with scripted_upstream(Script((body,), status=400)) as upstream, client_of(upstream) as client:
        with pytest.raises(UpstreamError, match="bad grammar") as caught:
            await anext(client.stream("Hi"))

    assert 400 == caught.value.status


async def test_an_unreachable_upstream_is_an_error():
    async with Client("http://127.0.0.1:1", model="m") as client:
        with pytest.raises(UpstreamError, match="cannot connect"):
            await client.complete("Hi")


async def test_a_silent_upstream_is_an_error():
    timeouts = Timeouts(first_chunk=0.05)
    async with scripted_upstream(Script((HANG,))) as upstream, client_of(upstream, timeouts=timeouts) as client:
        with pytest.raises(UpstreamError, match=r"nothing for 0\.05 s"):
            await client.complete("Hi")
        await asyncio.wait_for(upstream.client_left.wait(), 60)


@pytest.mark.parametrize(
    ("messages", "settings", "message"),
    [
        ([], {}, "at least one message"),
        ([{"role": "king", "content": "Hi"}], {}, r"messages\[0\]\.role"),
        ("Hi", {"temperature": "hot"}, "temperature: expected a number"),
        ("Hi", {"n": 2}, "n: the client reads one choice"),
        ("Hi", {"logit_bias": {1, object()}}, "cannot be written as JSON"),
        ("Hi", {"tools": [{"type": "function"}]}, r"tools\[0\]"),
        ("Hi", {"tools": [ADD], "tool_choice": "sometimes"}, "tool_choice"),
    ],
)
def test_an_invalid_request_is_refused_at_once(messages, settings, message):
    with pytest.raises(RequestError, match=message):
        Client("http://127.0.0.1:1", model="m").stream(messages, **settings)


@pytest.mark.parametrize("settings", [{"dialect": "nonsense"}, {"profile": "nonsense"}])
def test_unknown_names_are_refused(settings):
    with pytest.raises(ConfigError, match="nonsense"):
        Client("http://127.0.0.1:1", **settings)


async def test_run_calls_python_functions_until_the_model_answers():
    events = []
    async with scripted_upstream(text_reply(CALL), text_reply("It is 3.")) as upstream, client_of(upstream) as client:
        reply = await client.run("1 + 2?", [add], on_event=events.append)
    second = upstream.requests[1].body["messages"]

    assert "It is 3." == reply.text
    assert Usage(input_tokens=20, output_tokens=10) == reply.usage
    assert upstream.requests[0].body["messages"] == second[:2]
    assert CALL in second[2]["content"]
    assert "3" in second[3]["content"].splitlines()
    assert [Stop("tool_use"), Stop("complete")] == [each for each in events if isinstance(each, Stop)]


async def test_rounds_return_the_conversation_so_far():
    scripts = (text_reply(CALL), text_reply("It is 3."), text_reply("Always."))
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, new_id=numbered()) as client:
        steps = [each async for each in client.rounds("1 + 2?", Executor([add], timeout=5))]
        await client.complete([*steps[-1].messages, {"role": "user", "content": "Sure?"}])

    assert ToolMessage("call_0", (TextPart("3"),), "add") == steps[0].messages[-1]
    assert AssistantMessage((TextPart("It is 3."),)) == steps[-1].messages[-1]
    assert "Sure?" == upstream.requests[2].body["messages"][-1]["content"]


async def test_a_required_call_is_required_in_the_first_round_only():
    scripts = text_reply(CALL), text_reply("It is 3.")
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, constrain="off") as client:
        await client.run("1 + 2?", [add], tool_choice="required")
    first, second = (received.body["messages"][0]["content"] for received in upstream.requests)

    assert "Now you must call" in first
    assert "Now you must call" not in second


async def test_a_model_that_calls_for_ever_is_stopped():
    async with scripted_upstream(*[text_reply(CALL)] * 3) as upstream, client_of(upstream) as client:
        with pytest.raises(ModelOutputError, match="reply 2"):
            await client.run("1 + 2?", [add], max_rounds=2)

    assert 2 == len(upstream.requests)
