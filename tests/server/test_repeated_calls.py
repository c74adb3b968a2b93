"""Through the proxy: a model that repeats a call for ever ends, in every API, with retries and without."""

import contextlib

import pytest

from fcshim.client import Client
from fcshim.codecs.routes import CODECS
from fcshim.errors import ModelOutputError
from fcshim.messages import AssistantMessage, Request, TextPart, ToolCall, ToolMessage, UserMessage
from tests.pipeline.driver import call
from tests.scripted import ROLE, ReceivedRequest, Script, end_chunks, event, model_list, scripted_upstream, text_reply
from tests.server.proxy import running_proxy
from tests.server.test_api_pairs import TOOLS, ask, summary

REPEATED, OTHER = call(), call(arguments='{"a": 2}')
APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def conversation(count: int) -> tuple:
    turns = [UserMessage((TextPart("Add it."),))]
    for number in range(count):
        turns.append(AssistantMessage((), (ToolCall(f"c{number}", "add", '{"a": 1}'),)))
        turns.append(ToolMessage(f"c{number}", (TextPart("1"),), "add"))
    return tuple(turns)


@pytest.mark.parametrize(("excepted", "runs"), [((), 4), (("add",), 8)])
async def test_a_run_of_the_client_ends_by_the_same_code(excepted, runs):
    made: list[int] = []

    def add(a: int) -> int:
        """Add."""
        made.append(a)
        return 1

    async with (
        scripted_upstream(respond=lambda _: text_reply(REPEATED), listing=model_list("m")) as upstream,
        Client(upstream.url, model="m", tools="prompt", repeatable_tools=excepted) as client,
    ):
        with pytest.raises(ModelOutputError) if excepted else contextlib.nullcontext():
            result = await client.run("Add it.", [add], max_rounds=9)
            assert "[A call of add was left out: it was made 4 times" in result.text

    assert [1] * runs == made


def native_reply(*arguments: str) -> Script:
    """Make a reply with calls that the upstream has parsed itself, each in two chunks."""
    chunks = [ROLE]
    for index, text in enumerate(arguments):
        head = {"index": index, "id": f"n{index}", "type": "function", "function": {"name": "add", "arguments": ""}}
        parts = [head, *({"index": index, "function": {"arguments": part}} for part in (text[:3], text[3:]))]
        chunks += [event(choices=[{"index": 0, "delta": {"tool_calls": [part]}}]) for part in parts]
    return Script((*chunks, end_chunks("tool_calls")))


async def test_a_run_with_native_tools_ends_too():
    made: list[int] = []

    def add(a: int) -> int:
        """Add."""
        made.append(a)
        return 1

    reply = native_reply('{"a": 1}')
    async with (
        scripted_upstream(respond=lambda _: reply, listing=model_list("m")) as upstream,
        Client(upstream.url, model="m", tools="native") as client,
    ):
        result = await client.run("Add it.", [add], max_rounds=9)

    assert [1, 1, 1, 1] == made
    assert "[A call of add was left out: it was made 4 times" in result.text
    assert "complete" == result.stop_reason


@STREAMS
@pytest.mark.parametrize("count", [2, 4])
async def test_another_call_with_native_tools_runs(stream, count):
    reply = native_reply('{"a": 1}', '{"a": 2}')
    async with (
        scripted_upstream(reply, listing=model_list("m")) as upstream,
        running_proxy(upstream.url, tools="native") as url,
    ):
        answer = await ask(url, CODECS["anthropic"], request(count), stream=stream)

    assert [("add", {"a": number}) for number in ([1, 2] if count == 2 else [2])] == summary(answer)[1]
    assert "tool_use" == summary(answer)[2]
    assert ("was left out" in summary(answer)[0]) is (count == 4)


@STREAMS
async def test_a_call_beside_the_repeated_one_runs(stream):
    async with (
        scripted_upstream(text_reply(REPEATED, "\n", OTHER), listing=model_list("m")) as upstream,
        running_proxy(upstream.url) as url,
    ):
        reply = await ask(url, CODECS["openai_chat"], request(4), stream=stream)

    assert [("add", {"a": 2})] == summary(reply)[1]
    assert "tool_use" == summary(reply)[2]
    assert 1 == len(upstream.requests)


def prompt_of(asked: ReceivedRequest) -> str:
    """Return the text of a prompt without white space."""
    return "".join("".join(message["content"] for message in asked.body["messages"]).split())


def request(count: int) -> Request:
    return Request(model="m", messages=conversation(count), tools=TOOLS, max_tokens=50)


@APIS
@STREAMS
async def test_the_fifth_call_is_refused_and_the_model_answers(codec, stream):
    async with (
        scripted_upstream(text_reply(REPEATED), text_reply("It is 1."), listing=model_list("m")) as upstream,
        running_proxy(upstream.url) as url,
    ):
        reply = await ask(url, codec, request(4), stream=stream)
    first, second = map(prompt_of, upstream.requests)

    assert ("It is 1.", [], "complete") == summary(reply)
    assert 1 == first.count('{"a":1}')
    assert "Donotmakethesecallsagain" in first
    assert "Answerinplaintextnow" in second


@STREAMS
@pytest.mark.parametrize("retries", [0, 1])
async def test_a_sentence_stands_for_the_call_where_no_retry_is_left(stream, retries):
    replies = [text_reply("Again. ", REPEATED) for _ in range(retries + 1)]
    async with (
        scripted_upstream(*replies, listing=model_list("m")) as upstream,
        running_proxy(upstream.url, max_retries=retries) as url,
    ):
        reply = await ask(url, CODECS["openai_chat"], request(4), stream=stream)

    sentence = "[A call of add was left out: it was made 4 times, each time with the same result.]"
    assert (f"Again. {sentence}", [], "complete") == summary(reply)
    assert retries + 1 == len(upstream.requests)


@STREAMS
@pytest.mark.parametrize("retries", [0, 1])
async def test_another_call_runs(stream, retries):
    async with (
        scripted_upstream(text_reply(OTHER), listing=model_list("m")) as upstream,
        running_proxy(upstream.url, max_retries=retries) as url,
    ):
        reply = await ask(url, CODECS["anthropic"], request(4), stream=stream)

    assert ("", [("add", {"a": 2})], "tool_use") == summary(reply)


@pytest.mark.parametrize(("count", "settings"), [(3, {}), (9, {"repeatable_tools": ("add",)})])
async def test_the_call_runs_before_and_where_the_settings_say_so(count, settings):
    async with (
        scripted_upstream(text_reply(REPEATED), listing=model_list("m")) as upstream,
        running_proxy(upstream.url, **settings) as url,
    ):
        reply = await ask(url, CODECS["openai_chat"], request(count), stream=True)

    assert ("", [("add", {"a": 1})], "tool_use") == summary(reply)
