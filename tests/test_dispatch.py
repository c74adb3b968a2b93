"""Fallbacks and retries of a request, through a real connection."""

import contextlib
import logging

import pytest

from fcshim import Client
from fcshim.events import Stop, Text, ToolCallStart
from fcshim.reply import fold
from tests.pipeline.test_retries import GOOD, TWICE, UNKNOWN, UNREADABLE
from tests.scripted import CUT, ROLE, Script, event, model_list, scripted_upstream, text_chunk, text_reply
from tests.upstream.test_constraint_support import ADD, GRAMMAR_REFUSED, owned_model_list

NOBODY = model_list("m")
NOT_OFFERED = "The model called the tool 'subtract', which is not offered."


def client_of(upstream, **settings):
    return Client(upstream.url, model="m", **settings)


@contextlib.asynccontextmanager
async def mending(*scripts):
    async with scripted_upstream(*scripts, listing=NOBODY) as upstream, client_of(upstream) as client:
        yield client, upstream


@pytest.mark.parametrize("bad", [UNKNOWN, UNREADABLE, TWICE])
async def test_complete_returns_the_better_reply(bad):
    async with mending(text_reply(bad), text_reply(GOOD)) as (client, upstream):
        reply = await client.complete("Hi", [ADD])

    assert ("", ["add"]) == (reply.text, [call.tool_call_name for call in reply.tool_calls])
    assert (20, 10) == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert 2 == len(upstream.requests)


async def test_a_stream_gets_the_call_of_the_retry_and_the_log_has_its_reason(caplog):
    caplog.set_level(logging.INFO, "fcshim.retry")
    async with mending(text_reply("So. ", UNKNOWN), text_reply(GOOD)) as (client, _):
        events = [event async for event in client.stream("Hi", [ADD])]

    assert Text("So. ") == events[0]
    assert isinstance(events[1], ToolCallStart)
    assert Stop("tool_use") == events[-1]
    assert "m: asked once more: there is no tool 'subtract'" in caplog.text


async def test_without_retries_a_sentence_names_the_tool_that_is_not_offered():
    async with scripted_upstream(text_reply(UNKNOWN)) as upstream, client_of(upstream, max_retries=0) as client:
        assert NOT_OFFERED == (await client.complete("Hi", [ADD])).text


async def test_the_backend_is_detected_once_for_all_retries():
    scripts = text_reply(TWICE), owned_model_list("llamacpp"), text_reply(GOOD), text_reply(TWICE), text_reply(GOOD)
    async with scripted_upstream(*scripts) as upstream, client_of(upstream) as client:
        for _ in range(2):
            await client.complete("Hi", [ADD])

    assert ["POST", "GET", "POST", "POST", "POST"] == [received.method for received in upstream.requests]
    assert [False, True, False, True] == ["grammar" in received.body for received in upstream.requests if received.body]


async def test_a_refused_constraint_of_a_retry_is_left_out_at_once():
    scripts = (
        text_reply(TWICE),
        owned_model_list("llamacpp"),
        GRAMMAR_REFUSED,
        text_reply(GOOD),
        text_reply(TWICE),
        text_reply(GOOD),
    )
    async with scripted_upstream(*scripts) as upstream, client_of(upstream) as client:
        replies = [await client.complete("Hi", [ADD]) for _ in range(2)]

    sent = [received.body for received in upstream.requests if received.body]

    assert [["add"]] * 2 == [[call.tool_call_name for call in reply.tool_calls] for reply in replies]
    assert [False, True, False, False, False] == ["grammar" in body for body in sent]
    assert [0, 0, 2] == [len(body["messages"]) - len(sent[0]["messages"]) for body in sent[:3]]


@pytest.mark.parametrize(
    "second", [Script((b'{"error":{"message":"busy"}}',), 503), Script((ROLE, text_chunk("So"), CUT)), Script((CUT,))]
)
async def test_a_failing_retry_is_never_reported(second):
    async with mending(text_reply(UNKNOWN), second) as (client, _):
        reply = fold([event async for event in client.stream("Hi", [ADD])])

    assert (NOT_OFFERED, "complete", None) == (reply.text, reply.stop_reason, reply.error)


async def test_a_reply_that_is_cut_after_its_end_stands_with_its_defect():
    finish = event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    cut = Script((ROLE, text_chunk("So. "), text_chunk(UNKNOWN), finish, CUT))
    async with mending(cut) as (client, upstream):
        reply = fold([event async for event in client.stream("Hi", [ADD])])

    assert ("So. \n" + NOT_OFFERED, "complete", None) == (reply.text, reply.stop_reason, reply.error)
    assert 1 == len(upstream.requests)


async def test_a_prefill_replaces_a_refused_constraint_unless_it_is_refused_too():
    rest = text_reply(GOOD.removeprefix('<function_call>\n{"name": "add", "arguments":'))
    scripts = GRAMMAR_REFUSED, text_reply(GOOD), rest, GRAMMAR_REFUSED, text_reply(GOOD), text_reply(GOOD)
    async with scripted_upstream(*scripts) as upstream, client_of(upstream, constrain="vllm") as client:
        replies = [await client.complete("Hi", [ADD], tool_choice="required") for _ in range(4)]

    assert [["add"]] * 4 == [[call.tool_call_name for call in reply.tool_calls] for reply in replies]
    assert ["user", "user", "assistant", "assistant", "user", "user"] == [
        received.body["messages"][-1]["role"] for received in upstream.requests
    ]
    assert [True, False, False, False, False, False] == [
        "response_format" in received.body for received in upstream.requests
    ]
