"""Second tries through the proxy: whatever API its client speaks, it reads one good reply, streamed or whole."""

import pytest

from fcshim.codecs.table import CODECS
from fcshim.config import ModelOverrides
from fcshim.messages import Request, TextPart, ToolChoice, UserMessage
from tests.retry.driving import call
from tests.scripted import CUT, HANG, ROLE, Script, answering, models, scripted_upstream
from tests.scripted import said as piece
from tests.server.front import CHAT, asking, events, fronting, http, text_of
from tests.server.own import ADD, helping, program, prompts
from tests.server.test_pairs import TOOLS, ask, said

APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
HELLO = UserMessage((TextPart("Hi"),))
GOOD, UNKNOWN, TWICE = call(), call("subtract"), call(arguments='{"a": 1, "a": 2}')
CALLED = [("add", {"a": 1})]
NOBODY = models("m")


def request(**fields):
    return Request(model="m", messages=(HELLO,), tools=TOOLS, max_tokens=50, **fields)


@APIS
@STREAMS
@pytest.mark.parametrize("bad", [UNKNOWN, TWICE], ids=["unknown", "malformed"])
async def test_a_bad_call_is_mended_before_the_client_sees_it(codec, stream, bad):
    async with (
        scripted_upstream(answering("Well. ", bad, " Done."), answering(GOOD), listing=NOBODY) as upstream,
        fronting(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)

    assert ("Well. ", CALLED, "tool_use") == said(reply)
    assert (20, 10) == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert 2 == len(upstream.asked)


@pytest.mark.parametrize("codec", [codec for name, codec in CODECS.items() if name != "ollama"])  # it demands nothing
@STREAMS
async def test_a_call_that_is_demanded_is_asked_for(codec, stream):
    async with (
        scripted_upstream(answering("No."), answering(GOOD), listing=NOBODY) as upstream,
        fronting(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(tool_choice=ToolChoice("required")), stream=stream)

    assert ("", CALLED, "tool_use") == said(reply)


@APIS
@STREAMS
@pytest.mark.parametrize("second", [answering("x ", UNKNOWN), Script((ROLE, piece("So"), CUT)), Script((b"{}",), 500)])
async def test_what_cannot_be_mended_is_the_first_reply(codec, stream, second):
    async with (
        scripted_upstream(answering("Well. ", UNKNOWN), second, listing=NOBODY) as upstream,
        fronting(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)

    assert ("Well. " + UNKNOWN, [], "complete") == said(reply)
    assert reply.error is None


async def test_second_tries_can_be_turned_off_for_one_model():
    async with (
        scripted_upstream(answering(UNKNOWN), answering(UNKNOWN), answering(GOOD), listing=NOBODY) as upstream,
        fronting(upstream.url, models={"m": ModelOverrides(max_retries=0)}) as url,
        http(url) as client,
    ):
        for name in ("m", "n"):
            response = await client.post(CHAT, json={**asking(), "model": name})

    assert 3 == len(upstream.asked)
    assert "DONE" == events(response)[-1]


async def test_a_client_that_leaves_during_a_second_try_stops_the_upstream():
    async with (
        scripted_upstream(answering("Well. ", UNKNOWN), Script((ROLE, HANG)), listing=NOBODY) as upstream,
        fronting(upstream.url) as url,
        http(url) as client,
    ):
        async with client.stream("POST", CHAT, json=asking()):
            await upstream.hanging.wait()
        await upstream.left.wait()


async def test_a_round_with_tools_that_run_here_has_second_tries_of_its_own(tmp_path):
    bad = call("mcp__f__subtract")
    said_by_model = ("Let me. " + bad, ADD, "It is " + bad, "It is 3.")
    async with (
        helping(tmp_path, {"f": program("friendly")}, *said_by_model, constrain="off") as (url, upstream),
        http(url) as client,
    ):
        response = await client.post(CHAT, json=asking(tools=False, stream=True))

    assert "Let me. It is It is 3." == text_of(events(response))
    assert "There is no function named" in prompts(upstream)[1]
