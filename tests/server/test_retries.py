"""Retries through the proxy: the client reads one valid reply in every API, streamed or not."""

import json

import pytest

from fcshim.codecs.routes import CODECS
from fcshim.config import ModelOverrides
from fcshim.messages import Request, TextPart, ToolChoice, UserMessage
from tests.pipeline.driver import call
from tests.scripted import CUT, HANG, ROLE, Script, event, model_list, scripted_upstream, text_reply
from tests.scripted import text_chunk as piece
from tests.server.mcp_proxy import ADD, prompts, proxy_with_servers, stdio_server
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy, stream_documents, streamed_text
from tests.server.test_api_pairs import TOOLS, ask, summary

APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
HELLO = UserMessage((TextPart("Hi"),))
GOOD, UNKNOWN, TWICE = call(), call("subtract"), call(arguments='{"a": 1, "a": 2}')
CALLED = [("add", {"a": 1})]
NOBODY = model_list("m")
SENTENCE = "The model called the tool 'subtract', which is not offered."
FAILURES = {
    "no better": text_reply("x ", UNKNOWN),
    "lost": Script((ROLE, piece("So"), CUT)),
    "lost at once": Script((CUT,)),
    "failed": Script((b"{}",), 500),
    "told": Script((ROLE, piece("So"), event(error={"code": 500, "message": "out of memory"}))),
    "empty": Script(()),
    "no stream": Script((b"<html>504</html>",)),
}
"""What may come instead of a better reply."""


def request(**fields):
    return Request(model="m", messages=(HELLO,), tools=TOOLS, max_tokens=50, **fields)


@APIS
@STREAMS
@pytest.mark.parametrize("bad", [UNKNOWN, TWICE], ids=["unknown", "malformed"])
async def test_a_failed_call_is_replaced_before_the_client_sees_it(codec, stream, bad):
    async with (
        scripted_upstream(text_reply("Well. ", bad, " Done."), text_reply(GOOD), listing=NOBODY) as upstream,
        running_proxy(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)

    assert ("Well. ", CALLED, "tool_use") == summary(reply)
    assert (20, 10) == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert 2 == len(upstream.requests)


@pytest.mark.parametrize(
    "codec", [codec for name, codec in CODECS.items() if name != "ollama"]
)  # Ollama has no tool_choice
@STREAMS
async def test_a_missing_required_call_is_retried(codec, stream):
    async with (
        scripted_upstream(text_reply("No."), text_reply(GOOD), listing=NOBODY) as upstream,
        running_proxy(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(tool_choice=ToolChoice("required")), stream=stream)

    assert ("", CALLED, "tool_use") == summary(reply)


@APIS
@STREAMS
@pytest.mark.parametrize("second", FAILURES.values(), ids=FAILURES)
async def test_if_the_retry_fails_the_first_reply_stands(codec, stream, second):
    async with (
        scripted_upstream(text_reply("Well. ", UNKNOWN), second, listing=NOBODY) as upstream,
        running_proxy(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)

    assert ("Well. \n" + SENTENCE, [], "complete") == summary(reply)
    assert reply.error is None


@STREAMS
@pytest.mark.parametrize("second", [Script((HANG,)), Script((ROLE, piece("So"), HANG))], ids=["never begins", "stalls"])
async def test_a_retry_that_takes_too_long_is_abandoned(stream, second):
    async with (
        scripted_upstream(text_reply("Well. ", UNKNOWN), second, listing=NOBODY) as upstream,
        running_proxy(upstream.url, first_chunk_timeout=1, chunk_timeout=1) as url,
    ):
        reply = await ask(url, CODECS["openai_chat"], request(), stream=stream)
        await upstream.client_left.wait()

    assert ("Well. \n" + SENTENCE, [], "complete") == summary(reply)


@APIS
@STREAMS
@pytest.mark.parametrize("second", ["no better", "lost", "failed"])
async def test_valid_calls_are_kept_whatever_the_retry_gives(codec, stream, second):
    good = call("add", '{"a": 1}'), call("math.mul", '{"a": 2}')
    first = text_reply("Well. ", good[0], "\n", TWICE, "\n", good[1])
    async with (
        scripted_upstream(first, FAILURES[second], listing=NOBODY) as upstream,
        running_proxy(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)

    made = [(each.tool_call_name, each.tool_call_arguments_complete) for each in reply.tool_calls if not each.error]
    assert [("add", {"a": 1}), ("math.mul", {"a": 2})] == [(name, json.loads(text)) for name, text in made]
    assert ("tool_use", None) == (reply.stop_reason, reply.error)
    assert len({each.tool_call_id for each in reply.tool_calls}) == len(reply.tool_calls)


@APIS
@STREAMS
async def test_two_retries_are_one_reply_with_their_total_usage(codec, stream):
    tries = text_reply("Well. ", UNKNOWN), text_reply("Hm. ", TWICE), text_reply("So. ", GOOD, " Done.")
    async with (
        scripted_upstream(*tries, listing=NOBODY) as upstream,
        running_proxy(upstream.url, max_retries=2) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)

    assert ("Well. ", CALLED, "tool_use") == summary(reply)
    assert (30, 15) == (reply.usage.input_tokens, reply.usage.output_tokens)


AT = GOOD.index('a": 1')
CUT_OFF = text_reply(GOOD[:AT], reason="length")
REST = text_reply(GOOD[AT:])
NO_GRAMMAR = Script(
    (b'{"error":{"code":400,"message":"failed to parse grammar","type":"invalid_request_error"}}',), 400
)


@pytest.mark.parametrize(
    "codec", [codec for name, codec in CODECS.items() if name != "anthropic"]
)  # its requests always have a token limit
@STREAMS
@pytest.mark.parametrize("between", [(), (NO_GRAMMAR,)], ids=["at once", "without a grammar that is refused"])
async def test_a_truncated_call_is_resumed(codec, stream, between):
    async with (
        scripted_upstream(CUT_OFF, *between, REST, listing=NOBODY) as upstream,
        running_proxy(upstream.url, constrain="llama-server") as url,
    ):
        reply = await ask(url, codec, Request(model="m", messages=(HELLO,), tools=TOOLS), stream=stream)

    assert ("", CALLED, "tool_use") == summary(reply)
    assert [GOOD[:AT]] * (1 + len(between)) == [each.body["messages"][-1]["content"] for each in upstream.requests[1:]]


@STREAMS
@pytest.mark.parametrize("refusals", [1, 2])
async def test_if_the_resumption_is_refused_the_call_ends_truncated(stream, refusals):
    openai = CODECS["openai_chat"]
    async with (
        scripted_upstream(CUT_OFF, *[NO_GRAMMAR] * 2, listing=NOBODY) as upstream,
        running_proxy(upstream.url, constrain="llama-server" if refusals == 2 else "ollama") as url,
    ):
        reply = await ask(url, openai, Request(model="m", messages=(HELLO,), tools=TOOLS), stream=stream)

    assert ("max_tokens", None) == (reply.stop_reason, reply.error)
    assert 1 + refusals == len(upstream.requests)


async def test_retries_can_be_turned_off_for_one_model():
    async with (
        scripted_upstream(text_reply(UNKNOWN), text_reply(UNKNOWN), text_reply(GOOD), listing=NOBODY) as upstream,
        running_proxy(upstream.url, models={"m": ModelOverrides(settings={"max_retries": 0})}) as url,
        http_client(url) as client,
    ):
        for name in ("m", "n"):
            response = await client.post(CHAT, json={**chat_body(), "model": name})

    assert 3 == len(upstream.requests)
    assert "DONE" == stream_documents(response)[-1]


async def test_a_disconnect_during_a_retry_cancels_the_upstream_request():
    async with (
        scripted_upstream(text_reply("Well. ", UNKNOWN), Script((ROLE, HANG)), listing=NOBODY) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        async with client.stream("POST", CHAT, json=chat_body()):
            await upstream.hanging.wait()
        await upstream.client_left.wait()


async def test_every_round_of_the_tool_loop_has_its_own_retries(tmp_path):
    bad = call("mcp__f__subtract")
    said_by_model = ("Let me. " + bad, ADD, "It is " + bad, "It is 3.")
    async with (
        proxy_with_servers(tmp_path, {"f": stdio_server("friendly")}, *said_by_model, constrain="off") as (
            url,
            upstream,
        ),
        http_client(url) as client,
    ):
        response = await client.post(CHAT, json=chat_body(tools=False, stream=True))

    assert "Let me. It is It is 3." == streamed_text(stream_documents(response))
    assert "There is no function named" in prompts(upstream)[1]
