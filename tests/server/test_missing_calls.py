"""Why a request got no call, and calls that violate their schema: the log, the metrics, the client's reply."""

import pytest

from fcshim.codecs.routes import CODECS
from tests.pipeline.driver import call
from tests.scripted import model_list, scripted_upstream, text_reply
from tests.server.proxy import CHAT, chat_body, http_client, running_proxy
from tests.server.test_api_pairs import ask, summary
from tests.server.test_metrics import figures
from tests.server.test_retries import request

UNKNOWN, WRONG, QUOTED = call("subtract"), call(arguments='{"b": 1}'), f"Like this:\n```\n{call()}\n```\nDone."
RESULT = "<tool_result>\n3\n</tool_result>"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}  # fmt: skip
APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.mark.parametrize(
    ("said", "reason", "kind", "phrase"),
    [
        ("Paris.", "stop", "answer", "the model answered"),
        ("", "stop", "empty", "the reply is empty"),
        ("Well, I", "length", "token_limit", "the token limit ended the reply"),
        (UNKNOWN, "stop", "unoffered", "there is no tool 'subtract'"),
        ('{"name": "subtract", "arguments": {}}', "stop", "unoffered", "there is no tool 'subtract'"),
        (call(arguments='{"a": 1, "a": 2}'), "stop", "invalid", "a call of 'add': "),
        ('<function_result>\n{"name": "add", "content": 3}\n</function_result>', "stop", "result", "was invented"),
        ('{"name": "<function name>", "arguments": {}}', "stop", "copied", "the instructions were repeated"),
        (f"<think>I call it. {call()}", "stop", "reasoning", "--reasoning recover"),
        (QUOTED, "stop", "quoted", "the call is quoted"),
    ],
)
async def test_a_line_says_why_no_call_came_and_a_counter_counts_the_kind(caplog, said, reason, kind, phrase):
    caplog.set_level("INFO", logger="fcshim.dispatch")
    script = text_reply(said, reason=reason)
    async with (
        scripted_upstream(*[script] * 2, listing=model_list("m")) as upstream,
        running_proxy(upstream.url, metrics=True) as url,
    ):
        async with http_client(url) as client:
            await client.post(CHAT, json=chat_body(tools=[TOOL]))
        _, found = await figures(url)
    lines = [record.getMessage() for record in caplog.records if "no call: " in record.getMessage()]

    assert 1 == len(lines)
    assert lines[0].startswith("m: 1 tool offered, no call: ")
    assert phrase in lines[0]
    assert lines[0].endswith("; dialect function_call, by default: nothing else is known of it")
    assert 1 == found["fcshim_no_calls_total", "function_call", kind]


@pytest.mark.parametrize("fields", [{"tools": []}, {"tools": [TOOL], "tool_choice": "none"}])
async def test_without_tools_and_after_a_call_nothing_is_logged(caplog, fields):
    caplog.set_level("INFO", logger="fcshim.dispatch")
    async with (
        scripted_upstream(text_reply("Hi."), text_reply(call()), listing=model_list("m")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(**fields))
        await client.post(CHAT, json=chat_body(tools=[TOOL]))

    assert 2 == len(upstream.requests)
    assert [] == [record for record in caplog.records if "no call: " in record.getMessage()]


@APIS
@STREAMS
async def test_a_call_that_stays_invalid_is_delivered_with_a_line_in_the_log(caplog, codec, stream):
    async with (
        scripted_upstream(*[text_reply(WRONG)] * 2, listing=model_list("m")) as upstream,
        running_proxy(upstream.url, constrain="off", metrics=True) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)
        _, found = await figures(url)
    lines = [record.getMessage() for record in caplog.records if "--invalid-calls" in record.getMessage()]

    assert [("add", {"b": 1})] == summary(reply)[1]
    assert 1 == len(lines)
    assert lines[0].startswith("m: delivered a call of 'add': ")
    assert 1 == found["fcshim_calls_total", "function_call", "invalid"]


@APIS
@STREAMS
@pytest.mark.parametrize("max_retries", [0, 1, 2])
async def test_a_call_that_stays_invalid_is_an_error_where_the_settings_say_so(codec, stream, max_retries):
    settings = {"constrain": "off", "invalid_calls": "error", "max_retries": max_retries}
    async with (
        scripted_upstream(*[text_reply(*WRONG)] * (max_retries + 1), listing=model_list("m")) as upstream,
        running_proxy(upstream.url, **settings) as url,
    ):
        reply = await ask(url, codec, request(), stream=stream)
    said = reply.text if reply.error is None else reply.error.message

    assert [] == [made for made in reply.tool_calls if made.error is None]
    assert stream or not reply.tool_calls
    assert "cannot be used" in said or codec.name == "gemini"
    assert reply.stop_reason != "tool_use"
