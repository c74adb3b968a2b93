"""The client, with a scripted upstream on a real connection."""

import asyncio
import json
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from fcshim.agent import Agent
from fcshim.client import Client
from fcshim.errors import ConfigError, ModelOutputError, RequestError, UpstreamError
from fcshim.events import Error, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import AssistantMessage, TextPart, Tool, ToolCall, ToolMessage, UserMessage
from fcshim.tools import Executor, FunctionTool, ToolResult
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
    assert "function add(" in system["content"]
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
        ({"max_tools": 1}, "parameters are given here:\\n\\nadd(a?, b?)\\nother()"),
        ({"prompt_budget": 100}, "\\nadd: Add.\\n- a?: integer"),
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
    # The choice of tools leaves nothing out, so nothing but the missing call is logged.
    lines = [record.getMessage() for record in caplog.records if "no call" not in record.getMessage()]
    assert ("max_tools" in limit) is not any(line.startswith("m: ") for line in lines)


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
        with pytest.raises(UpstreamError, match=r"name the model: Client\(..., model=...\)"):
            await client.complete("Hi")


async def test_a_refused_key_is_the_reason_why_no_model_is_known():
    async with scripted_upstream(Script((b"{}",), status=401)) as upstream, Client(upstream.url) as client:
        with pytest.raises(UpstreamError, match="refused fcshim's API key") as caught:
            await client.complete("Hi")

    assert caught.value.key_refused


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
        with pytest.raises(ModelOutputError, match="max_rounds allows 2"):
            await client.run("1 + 2?", [add], max_rounds=2)

    assert 2 == len(upstream.requests)


async def test_functions_can_be_offered_without_being_run():
    def subtract(a: int, b: int) -> int:
        raise AssertionError

    offered = [subtract, FunctionTool(add), {"name": "third", "parameters": {}}, Tool("fourth")]
    async with scripted_upstream(text_reply(CALL), text_reply("ok")) as upstream, client_of(upstream) as client:
        reply = await client.complete("1 + 2?", offered)
        await events_of(client, "1 + 2?", Executor([subtract]))
    first, second = (json.dumps(received.body) for received in upstream.requests)

    assert {"a": 1, "b": 2} == reply.tool_calls[0].arguments
    assert all(f"function {name}(" in first for name in ("subtract", "add", "third", "fourth"))
    assert "subtract" in second


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("temprature", "did you mean 'temperature'"),
        ("max_round", "did you mean 'max_rounds'"),
        ("n_ctx_of_my_server", r"extra_body=\{'n_ctx_of_my_server'"),
    ],
)
async def test_an_unknown_option_is_a_type_error(option, meant):
    async with Client("http://127.0.0.1:1") as client:
        with pytest.raises(TypeError, match=meant):
            client.stream("Hi", **{option: 1})
        with pytest.raises(TypeError, match=meant):
            await client.complete("Hi", **{option: 1})
        with pytest.raises(TypeError, match=meant):
            await client.run("Hi", [add], **{option: 1})


async def test_the_extra_body_is_sent():
    async with scripted_upstream(text_reply("ok")) as upstream, client_of(upstream) as client:
        await client.complete("Hi", extra_body={"dry_multiplier": 0.5}, top_k=3)

    assert {"dry_multiplier": 0.5, "top_k": 3}.items() <= upstream.requests[0].body.items()
    assert "extra_body" not in upstream.requests[0].body


async def test_the_messages_of_a_run_go_on():
    scripts = (text_reply(CALL), text_reply("It is 3."), text_reply("Yes."))
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, new_id=numbered()) as client:
        first = await client.run("1 + 2?", [add])
        second = await client.run([*first.messages, {"role": "user", "content": "Sure?"}], [add])

    assert ToolMessage("call_0", (TextPart("3"),), "add") == first.messages[-2]
    assert AssistantMessage((TextPart("It is 3."),)) == first.messages[-1]
    assert ("It is 3.", "Yes.") == (first.output, second.output)
    assert "Sure?" == upstream.requests[2].body["messages"][-1]["content"]


async def test_a_final_result_ends_a_run():
    def stop(a: int, b: int) -> ToolResult:
        return ToolResult((TextPart(f"enough: {a + b}"),), final=True)

    async with scripted_upstream(text_reply(CALL)) as upstream, client_of(upstream) as client:
        result = await client.run("1 + 2?", [FunctionTool(stop, name="add")])

    assert ("enough: 3", "enough: 3") == (result.text, result.output)
    assert 1 == len(upstream.requests)


class City(BaseModel):
    name: str
    days: int = Field(1, ge=1)

    @field_validator("name")
    @classmethod
    def is_known(cls, name: str) -> str:
        assert name in {"Oslo", "Paris"}, f"there is no city {name}"
        return name


@dataclass
class Stay:
    name: str
    days: int = 1


def answering(arguments: str) -> Script:
    return text_reply(f'<function_call>\n{{"name": "final_answer", "arguments": {arguments}}}\n</function_call>')


@pytest.mark.parametrize(
    ("output_type", "arguments", "expected"),
    [
        (City, '{"name": "Oslo", "days": "2"}', City(name="Oslo", days=2)),
        (Stay, '{"name": "Oslo"}', Stay("Oslo")),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[City], '{"value": [{"name": "Oslo"}]}', [City(name="Oslo")]),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (bool, '{"value": true}', True),
    ],
)
async def test_an_answer_has_the_wanted_type(output_type, arguments, expected):
    async with (
        scripted_upstream(text_reply(CALL), answering(arguments)) as upstream,
        client_of(upstream, constrain="off") as client,
    ):
        result = await client.run("Where?", [add], output_type=output_type)

    assert expected == result.output
    for received in upstream.requests:
        assert "must call" in received.body["messages"][0]["content"]


async def test_an_answer_that_has_not_its_type_is_mended_by_the_model():
    scripts = answering('{"name": "Atlantis"}'), answering('{"name": "Paris"}')
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, constrain="off") as client:
        result = await client.run("Where?", output_type=City, max_rounds=2)

    assert City(name="Paris") == result.output
    assert "there is no city Atlantis" in upstream.requests[1].body["messages"][-1]["content"]


async def test_of_two_answers_the_first_counts():
    both = "".join(
        f'<function_call>\n{{"name": "final_answer", "arguments": {{"name": "{name}"}}}}\n</function_call>'
        for name in ("Oslo", "Paris")
    )
    async with scripted_upstream(text_reply(both)) as upstream, client_of(upstream, constrain="off") as client:
        result = await client.run("Where?", output_type=Stay)

    assert Stay("Oslo") == result.output


async def test_an_answer_may_come_as_json_text():
    scripts = [text_reply('{"name": "Oslo", "days": 2}')] * 2
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, constrain="off") as client:
        result = await client.run("Where?", output_type=City)

    assert City(name="Oslo", days=2) == result.output


async def test_an_answer_of_another_kind_is_an_error_with_the_text():
    async with (
        scripted_upstream(*[text_reply("In Oslo.")] * 2) as upstream,
        client_of(upstream, constrain="off") as client,
    ):
        with pytest.raises(ModelOutputError, match="not of the wanted type") as caught:
            await client.run("Where?", output_type=City)

    assert ("invalid_output", "In Oslo.") == (caught.value.kind, caught.value.raw)


async def test_a_model_that_never_gives_the_answer_is_stopped():
    async with (
        scripted_upstream(*[answering('{"name": "Atlantis"}')] * 3) as upstream,
        client_of(upstream, constrain="off") as client,
    ):
        with pytest.raises(ModelOutputError) as caught:
            await client.run("Where?", output_type=City, max_rounds=3)

    assert "max_rounds" == caught.value.kind
    assert 3 == len(upstream.requests)


@pytest.mark.parametrize(
    "written",
    [
        '<function_call>\n{"name": "subtract", "arguments": {"a": 1}}\n</function_call>',
        'Let me see.\n<function_call>\n{"name": , "arguments": {"a": 1}}\n</function_call>',
    ],
)
async def test_a_call_that_stays_invalid_is_an_error_with_the_text(written):
    async with (
        scripted_upstream(*[text_reply(written)] * 2) as upstream,
        client_of(upstream, constrain="off") as client,
    ):
        with pytest.raises(ModelOutputError, match="cannot run, and retries did not help: ") as caught:
            await client.run("1 - 2?", [add])

    assert ("invalid_call", written) == (caught.value.kind, caught.value.raw)


async def test_an_invalid_call_that_a_retry_mends_is_no_error():
    invalid = text_reply('<function_call>\n{"name": "subtract", "arguments": {"a": 1}}\n</function_call>')
    async with (
        scripted_upstream(invalid, text_reply("It is 3.")) as upstream,
        client_of(upstream, constrain="off") as client,
    ):
        result = await client.run("1 + 2?", [add])

    assert "It is 3." == result.text


async def test_a_last_reply_that_breaks_off_in_a_call_is_an_error_with_the_text():
    cut = text_reply(CALL[:57], reason="length")
    async with scripted_upstream(cut) as upstream, client_of(upstream, constrain="off") as client:
        with pytest.raises(ModelOutputError, match="broke off") as caught:
            await client.run("1 + 2?", [add], max_tokens=9)

    assert "truncated" == caught.value.kind
    assert '"a": 1' in caught.value.raw


async def test_a_demanded_call_that_does_not_come_is_an_error_with_the_text():
    scripts = [text_reply("No.")] * 2
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, constrain="off") as client:
        with pytest.raises(ModelOutputError, match="no call came") as caught:
            await client.run("1 + 2?", [add], tool_choice="required")

    assert ("missing_call", "No.") == (caught.value.kind, caught.value.raw)


async def test_a_definition_alone_cannot_be_run():
    async with Client("http://127.0.0.1:1") as client:
        with pytest.raises(ConfigError, match="cannot be called"):
            await client.run("1 + 2?", [ADD])


async def test_an_agent_does_not_answer_with_a_call_that_stayed_invalid():
    invalid = '<function_call>\n{"name": "subtract", "arguments": {"a": 1}}\n</function_call>'
    scripts = [text_reply(invalid)] * 2
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, constrain="off") as client:
        with pytest.raises(ModelOutputError, match="cannot run, and retries did not help: ") as caught:
            await Agent(client.stream, [add]).answer("1 - 2?")

    assert ("invalid_call", invalid) == (caught.value.kind, caught.value.raw)
