"""The official client of the Responses API with a running fcshim in front of an upstream that supports text only."""

import asyncio
import contextlib
import json
import logging

import openai
import pydantic
import pytest

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_responses import OPENAI_RESPONSES
from fcshim.demo.serving import serve_model
from fcshim.events import Stop, Text, Usage
from fcshim.messages import Request
from tests.scripted import ROLE, event, text_chunk
from tests.server.proxy import CALL, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_reply, raw_upstream, stream_chunks, stream_texts, stream_then

ADD = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}
NUMBERS = {"type": "object", "properties": {"first": {}, "second": {}}}
PATCH = {
    "type": "custom",
    "name": "patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
SPACE = {"type": "namespace", "name": "mcp__calc", "description": "Sums.", "tools": [ADD]}
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def called(name, **arguments):
    return f"<function_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</function_call>"


@contextlib.asynccontextmanager
async def talking(*plays, **settings):
    """Yield a client of a fcshim in front of an upstream that plays these scripts."""
    async with (
        raw_upstream(*plays) as upstream,
        running_proxy(upstream.url, **settings) as url,
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        yield sdk, upstream


async def create(sdk, *, stream, **fields):
    """Send a request; return the final response, streamed through the client's own accumulator or not."""
    fields = {"model": "m", "input": "What is 1 + 2?", **fields}
    if not stream:
        return await sdk.responses.create(**fields)
    async with sdk.responses.stream(**fields) as events:
        return await events.get_final_response()


async def kinds(sdk, **fields):
    return [each async for each in await sdk.responses.create(model="m", input="Hi", stream=True, **fields)]


def sent(request):
    """Return the messages of a request; it must hold nothing that an endpoint without tools would refuse."""
    fields = request.json_body

    assert not {"tools", "tool_choice", "input", "store"} & set(fields)
    assert all({"role", "content"} == set(message) for message in fields["messages"])
    return [(message["role"], message["content"]) for message in fields["messages"]]


@STREAMS
async def test_a_text_is_a_message(stream):
    async with talking(stream_texts("Hel", "lo")) as (sdk, upstream):
        response = await create(sdk, stream=stream, instructions="Be brief.", max_output_tokens=50)
    (request,) = upstream.requests

    assert "Hello" == response.output_text
    assert ("completed", "Be brief.", 50) == (response.status, response.instructions, response.max_output_tokens)
    assert (10, 5, 15) == (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens)
    assert [("system", "Be brief."), ("user", "What is 1 + 2?")] == sent(request)
    assert 50 == request.json_body["max_tokens"]


@STREAMS
async def test_calls_are_executed_and_their_results_go_back_with_the_whole_history(stream):
    async with talking(stream_texts("Let me. " + CALL + "\n" + CALL), stream_texts("It is 3.")) as (sdk, upstream):
        first = await create(sdk, stream=stream, tools=[ADD])
        calls = [item for item in first.output if item.type == "function_call"]
        results = [{"type": "function_call_output", "call_id": call.call_id, "output": "3"} for call in calls]
        history = [{"role": "user", "content": "What is 1 + 2?"}, *first.output, *results]
        second = await create(sdk, stream=stream, tools=[ADD], input=history)
    roles = [role for role, _ in sent(upstream.requests[1])]

    assert "Let me. " == first.output_text
    assert [{"a": 1, "b": 2}] * 2 == [json.loads(call.arguments) for call in calls]
    assert 2 == len({call.call_id for call in calls} - {call.id for call in calls})
    assert "It is 3." == second.output_text
    assert ["system", "user", "assistant", "user"] == roles
    assert 2 == sent(upstream.requests[1])[-2][1].count('"a": 1')


@STREAMS
async def test_a_previous_response_stands_for_the_history(stream):
    async with talking(stream_texts(CALL), stream_texts("It is 3."), stream_texts("Bye.")) as (sdk, upstream):
        first = await create(sdk, stream=stream, tools=[ADD], instructions="Be brief.")
        (call,) = first.output
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "3"}
        second = await create(sdk, stream=stream, tools=[ADD], previous_response_id=first.id, input=[output])
        await create(sdk, stream=stream, previous_response_id=second.id, input="Thanks.")
    last = sent(upstream.requests[2])

    assert ["user", "assistant", "user", "assistant", "user"] == [role for role, _ in last][-5:]
    assert [("assistant", "It is 3."), ("user", "Thanks.")] == last[-2:]
    assert "Be brief." not in str(last)
    assert first.id == second.previous_response_id


async def test_an_item_reference_stands_for_what_was_said():
    async with talking(stream_texts("It is 3."), stream_texts("Bye.")) as (sdk, upstream):
        first = await create(sdk, stream=True)
        references = [{"type": "item_reference", "id": item_id} for item_id in (first.output[0].id, "msg_unknown")]
        await create(
            sdk,
            stream=True,
            input=[{"role": "user", "content": "Hi"}, *references, {"role": "user", "content": "Thanks."}],
        )

    assert [("user", "Hi"), ("assistant", "It is 3."), ("user", "Thanks.")] == sent(upstream.requests[1])


@STREAMS
async def test_what_is_kept_can_be_read_and_forgotten(stream):
    async with talking(stream_texts("It is 3.")) as (sdk, _):
        first = await create(sdk, stream=stream)
        again = await sdk.responses.retrieve(first.id)
        items = await sdk.responses.input_items.list(first.id)
        await sdk.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError) as caught:
            await create(sdk, stream=False, previous_response_id=first.id)

    assert first.output_text == again.output_text
    assert ["What is 1 + 2?"] == [part.text for part in items.data[0].content]
    assert ("previous_response_not_found", "previous_response_id") == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(("fields", "settings"), [({"store": False}, {}), ({}, {"memory_entries": 0})])
async def test_what_is_not_to_be_kept_is_not(fields, settings):
    async with talking(stream_texts("It is 3."), **settings) as (sdk, _):
        first = await create(sdk, stream=False, **fields)
        with pytest.raises(openai.NotFoundError):
            await sdk.responses.retrieve(first.id)


@STREAMS
async def test_a_custom_tool_is_called_with_its_text(stream):
    text = '*** "Begin"\n\\o/ é'
    async with talking(stream_texts(called("patch", input=text)), stream_texts("Done.")) as (sdk, upstream):
        first = await create(sdk, stream=stream, tools=[PATCH])
        (call,) = first.output
        output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "ok"}
        await create(sdk, stream=stream, tools=[PATCH], previous_response_id=first.id, input=[output])

    assert ("custom_tool_call", "patch", text) == (call.type, call.name, call.input)
    assert "start: /.+/" in sent(upstream.requests[0])[0][1]
    assert "ok" in sent(upstream.requests[1])[-1][1]


@STREAMS
async def test_a_tool_in_a_namespace_comes_back_under_its_own_name(stream):
    async with talking(stream_texts(called("mcp__calc__add", a=1)), stream_texts("Done.")) as (sdk, upstream):
        first = await create(sdk, stream=stream, tools=[SPACE])
        (call,) = first.output
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "1"}
        await create(sdk, stream=stream, tools=[SPACE], input=[*first.output, output])

    assert ("add", "mcp__calc") == (call.name, call.namespace)
    assert "mcp__calc__add" in sent(upstream.requests[0])[0][1]
    assert "mcp__calc__add" in str(sent(upstream.requests[1]))


async def test_hosted_tools_are_left_out_with_a_note(caplog):
    caplog.set_level(logging.INFO, "fcshim.server")
    async with talking(stream_texts("ok")) as (sdk, upstream):
        await create(sdk, stream=False, tools=[{"type": "web_search"}, ADD, {"type": "image_generation"}])

    system = sent(upstream.requests[0])[0][1]
    logged = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]

    assert 1 == system.count("Not available here, whatever is said elsewhere: web_search, image_generation.")
    assert "function add(" in system
    assert ["'web_search'", "'image_generation'"] == [message.split()[2] for message in logged]


async def test_the_stream_has_every_event_in_its_order():
    async with talking(stream_texts("Hi ", "you" + CALL)) as (sdk, _):
        events = await kinds(sdk, tools=[ADD])
    deltas = [each for each in events if each.type == "response.function_call_arguments.delta"]

    assert list(range(len(events))) == [each.sequence_number for each in events]
    assert [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 2,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        *["response.function_call_arguments.delta"] * len(deltas),
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ] == [each.type for each in events]
    assert len(deltas) > 1


@STREAMS
async def test_a_reply_that_was_cut_off_is_incomplete_and_so_is_its_call(stream):
    async with talking(stream_texts("Ok. " + CALL[:60], reason="length")) as (sdk, _):
        if stream:
            response = (await kinds(sdk, tools=[ADD]))[-1].response
        else:
            response = await create(sdk, stream=False, tools=[ADD])

    assert ("incomplete", "max_output_tokens") == (response.status, response.incomplete_details.reason)
    assert ["message", *(["function_call"] if stream else [])] == [item.type for item in response.output]
    assert "incomplete" == response.output[-1].status or not stream


@STREAMS
async def test_a_reply_that_is_nothing_but_a_call_cut_off_has_an_incomplete_item(stream):
    async with talking(stream_texts(CALL[:60], reason="length")) as (sdk, _):
        if stream:
            events = await kinds(sdk, tools=[ADD])
            (item,) = [each.item for each in events if each.type == "response.output_item.done"]
        else:
            (item,) = (await create(sdk, stream=False, tools=[ADD])).output

    assert ("function_call" if stream else "message", "incomplete") == (item.type, item.status)
    if stream:
        with pytest.raises(json.JSONDecodeError):
            json.loads(item.arguments)
        assert ("response.incomplete", [item]) == (events[-1].type, events[-1].response.output)


async def test_an_error_in_the_stream_is_its_last_event():
    play = stream_then(ROLE, text_chunk("Once"), event(error={"message": "slot lost"}), then=raw_reply(b""))
    seen = []

    async def collect(stream):
        async for each in stream:
            seen.append(each)  # noqa: PERF401  # what came before the error counts

    async with talking(play) as (sdk, _):
        await collect(await sdk.responses.create(model="m", input="Hi", stream=True, tools=[ADD]))

    assert ["response.failed", "error"] == [each.type for each in seen[-2:]]
    assert "slot lost" in seen[-1].message
    assert "failed" == seen[-2].response.status
    assert "Once" == "".join(each.delta for each in seen if each.type == "response.output_text.delta")


@STREAMS
async def test_an_error_before_the_first_word_has_its_status(stream):
    async with talking(fixed_reply(404, b'{"error":{"message":"no such model"}}')) as (sdk, _):
        with pytest.raises(openai.NotFoundError, match="no such model"):
            await create(sdk, stream=stream, tools=[ADD])


class Sum(pydantic.BaseModel):
    total: int


async def test_structured_output_is_parsed_and_asked_for():
    async with talking(stream_texts('{"total": 3}'), constrain="off") as (sdk, upstream):
        response = await sdk.responses.parse(model="m", input="1 + 2?", text_format=Sum)

    assert Sum(total=3) == response.output_parsed
    assert "total" in upstream.requests[0].json_body["response_format"]["json_schema"]["schema"]["properties"]


async def test_the_synchronous_client_gets_the_same():
    async with raw_upstream(stream_texts(CALL)) as upstream, running_proxy(upstream.url) as url:

        def talk():
            with (
                openai.OpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
                sdk.responses.stream(model="m", input="Hi", tools=[ADD]) as stream,
            ):
                return stream.get_final_response()

        response = await asyncio.to_thread(talk)

    assert ["function_call"] == [item.type for item in response.output]


async def test_tokens_are_counted():
    async with talking(fixed_reply(404, b"{}")) as (sdk, _):
        counted = await sdk.responses.input_tokens.count(model="m", input="Hi", tools=[ADD])

    assert counted.input_tokens > 10


def spoken(text):
    """Answer as an upstream that speaks this API itself."""
    asked = Request(model="m", messages=(), stream=True)
    encoder = OPENAI_RESPONSES.encoder(asked, ReplyIdentity("resp_there", 1700000000, "m"))
    return stream_chunks(encoder.encode(0, [Text(text), Usage(10, 5), Stop("complete")]) + encoder.close())


async def test_an_upstream_that_remembers_by_itself_is_told_what_the_client_refers_to():
    async with talking(spoken("Hi."), upstream_api="responses", tools="native") as (sdk, upstream):
        response = await create(sdk, stream=True, input=[], previous_response_id="resp_there", tools=[ADD])
    (request,) = upstream.requests

    assert "Hi." == response.output_text
    assert ("resp_there", []) == (request.json_body["previous_response_id"], request.json_body["input"])
    assert "store" not in request.json_body


async def test_where_tools_go_by_the_prompt_every_reply_is_remembered_here():
    replies = spoken("One."), spoken(CALL), spoken("Three.")
    async with talking(*replies, upstream_api="responses", tools="prompt") as (sdk, upstream):
        first = await create(sdk, stream=True)
        second = await create(sdk, stream=True, previous_response_id=first.id, tools=[ADD], input="Add.")
        output = {"type": "function_call_output", "call_id": second.output[0].call_id, "output": "3"}
        third = await create(sdk, stream=True, previous_response_id=second.id, tools=[ADD], input=[output])
    said_ = [item["role"] for item in upstream.requests[2].json_body["input"]]

    assert "Three." == third.output_text
    assert ["system", "user", "assistant", "user", "assistant", "user"] == said_
    assert all(request.json_body["store"] is False for request in upstream.requests)
    assert not any("previous_response_id" in request.json_body for request in upstream.requests)


@pytest.mark.engine
@pytest.mark.model_pages
@STREAMS
async def test_a_real_model_is_called_and_answered(stream):
    tool = {"type": "function", "name": "add_numbers", "parameters": NUMBERS, "strict": False}
    async with (
        serve_model("numpy") as model,
        running_proxy(model.url) as url,
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        asked = await create(sdk, stream=stream, input="call add_numbers with first=19, second=23", tools=[tool])
        (call,) = asked.output
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
        answer = await create(sdk, stream=stream, previous_response_id=asked.id, input=[output], tools=[tool])

    assert {"first": 19, "second": 23} == json.loads(call.arguments)
    assert "add_numbers returned 42" == answer.output_text


async def test_nobody_can_guess_the_replies_of_others():
    async with talking(stream_texts("One.")) as (sdk, _):
        first, second = [await create(sdk, stream=False) for _ in range(2)]

    assert first.id[:16] != second.id[:16]
    assert first.output[0].id[:16] != second.output[0].id[:16]
