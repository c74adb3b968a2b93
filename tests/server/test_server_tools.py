"""`fcshim serve --mcp FILE`: clients without tools get an agent, and clients with tools keep theirs."""

import asyncio
import json
import os
from pathlib import Path

import openai
import pytest

from fcshim.config import Config, ModelOverrides, UpstreamConfig
from fcshim.errors import ConfigError
from fcshim.server.app import create_app
from fcshim.server.server_tools import ServerSelection, parse_server_selection
from tests.mcp.server_programs import eventually, serve_over_http
from tests.scripted import CUT, HANG, ROLE, Script, end_chunks, event, scripted_upstream, text_chunk, text_reply
from tests.server.mcp_proxy import ADD, WEATHER, call_text, prompts, proxy_with_servers, stdio_server
from tests.server.proxy import (
    CHAT,
    chat_body,
    http_client,
    post_chat,
    post_request,
    raw_connection,
    running_proxy,
    stream_documents,
    streamed_text,
)

STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
QUESTION = [{"role": "user", "content": "How much is 1 + 2?"}]
FAIL = call_text("mcp__f__fail", message="no")
PARIS = call_text("weather", city="Paris")


@pytest.fixture(scope="module")
def friendly():
    """One server for the module, over streamable HTTP."""
    with serve_over_http("http") as endpoint:
        yield {"f": {"url": endpoint.url}}


async def ask(url, *, stream=False, headers=None, path=CHAT, **fields):
    body = {"model": "m", "messages": QUESTION, "stream": stream, **fields}
    async with http_client(url) as client:
        return await client.post(path, json=body, headers=headers)


def text(response):
    return response.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("way", ["stdio", "http"])
@STREAMS
async def test_a_client_without_tools_gets_an_agent(way, stream, friendly, tmp_path):
    servers = friendly if way == "http" else {"f": stdio_server("friendly")}
    async with (
        proxy_with_servers(tmp_path, servers, "Let me see. " + ADD, "It is 3.") as (url, upstream),
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        if stream:
            options = {"stream": True, "stream_options": {"include_usage": True}}
            chunks = [each async for each in await sdk.chat.completions.create(model="m", messages=QUESTION, **options)]
            said_ = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
            usage, reasons = chunks[-1].usage, [each.choices[0].finish_reason for each in chunks if each.choices]
        else:
            reply = await sdk.chat.completions.create(model="m", messages=QUESTION)
            said_, usage, reasons = reply.choices[0].message.content, reply.usage, [reply.choices[0].finish_reason]
            assert reply.choices[0].message.tool_calls is None

    first, second = prompts(upstream)

    assert "Let me see. It is 3." == said_
    assert (20, 10) == (usage.prompt_tokens, usage.completion_tokens)
    assert ["stop"] == [each for each in reasons if each]
    assert "mcp__f__add" in first
    assert second.startswith(first)
    assert '"result": 3' in second.rpartition(ADD)[2] or "\n3\n" in second.rpartition(ADD)[2]


async def test_rounds_without_white_space_between_them_are_separated(friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, "First" + ADD, ADD, "Second" + ADD, "Third") as (url, upstream):
        response = await ask(url)

    assert "First\n\nSecond\n\nThird" == text(response)
    assert 4 == len(upstream.requests)


async def test_the_text_of_a_round_streams_before_its_tools_run(tmp_path):
    trace = tmp_path / "trace"
    call = call_text("mcp__w__wait", trace=str(trace))
    servers = {"w": {**stdio_server("watched"), "allow": ["*"]}}
    async with (
        proxy_with_servers(tmp_path, servers, "Wait. " + call, ping=0.05) as (url, _),
        raw_connection(url) as (reader, writer),
    ):
        writer.write(post_request(url, chat_body(tools=False)))
        begin = await reader.readuntil(b'"Wait. "')
        await eventually(trace.exists)
        pings = await reader.readuntil(b": ping")

    assert b" 200 " in begin
    assert b"[DONE]" not in pings


async def test_a_disconnect_cancels_the_tool(tmp_path):
    trace = tmp_path / "trace"
    call = call_text("mcp__w__wait", trace=str(trace))
    servers = {"w": {**stdio_server("watched"), "allow": ["wait"]}}
    async with proxy_with_servers(tmp_path, servers, call) as (url, upstream):
        async with raw_connection(url) as (_, writer):
            writer.write(post_request(url, chat_body(tools=False)))
            await eventually(lambda: trace.exists() and trace.read_text())

            assert "began" == trace.read_text()
        await eventually(lambda: trace.read_text() == "cancelled")

    assert 1 == len(upstream.requests)


@STREAMS
async def test_in_a_mixed_turn_the_client_gets_its_calls_and_the_next_request_continues(stream, friendly, tmp_path):
    replies = (f"Both. {ADD}\n{PARIS}", "3 and rain.")
    async with (
        proxy_with_servers(tmp_path, friendly, *replies) as (url, upstream),
        openai.AsyncOpenAI(base_url=url + "/v1", api_key="x", max_retries=0) as sdk,
    ):
        fields = {"model": "m", "messages": QUESTION, "tools": [WEATHER]}
        if stream:
            async with sdk.chat.completions.stream(**fields) as stream_:
                reply = await stream_.get_final_completion()
        else:
            reply = await sdk.chat.completions.create(**fields)
        (choice,) = reply.choices
        (call,) = choice.message.tool_calls
        spoken = {"role": "assistant", "content": choice.message.content, "tool_calls": [call.model_dump()]}
        result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
        last = await sdk.chat.completions.create(**{**fields, "messages": [*QUESTION, spoken, result]})

    first, second = prompts(upstream)

    assert ("tool_calls", "weather", '{"city": "Paris"}') == (
        choice.finish_reason,
        call.function.name,
        call.function.arguments,
    )
    assert "3 and rain." == last.choices[0].message.content
    assert second.startswith(first)
    shown = second.removeprefix(first)
    places = [shown.index(each) for each in ("Both.", ADD, PARIS, "rain")]
    assert sorted(places) == places


async def test_a_client_whose_calls_have_no_ids_continues_as_well(friendly, tmp_path):
    function = WEATHER["function"]
    tools = [{"type": "function", "function": function}]
    async with proxy_with_servers(tmp_path, friendly, f"{ADD}\n{PARIS}", "3 and rain.") as (url, upstream):
        fields = {"tools": tools, "path": "/api/chat"}
        first = (await ask(url, **fields)).json()["message"]
        (call,) = first["tool_calls"]
        spoken = {"role": "assistant", "content": first["content"], "tool_calls": [{"function": call["function"]}]}
        messages = [*QUESTION, spoken, {"role": "tool", "tool_name": "weather", "content": "rain"}]
        last = (await ask(url, messages=messages, **fields)).json()["message"]

    assert "3 and rain." == last["content"]
    assert ADD in prompts(upstream)[1]


async def test_server_calls_are_restored_in_the_next_turn(friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, ADD, "It is 3.", "Yes.", "Who?") as (url, upstream):
        answer = text(await ask(url))
        messages = [*QUESTION, {"role": "assistant", "content": answer}, {"role": "user", "content": "Sure?"}]
        again = await ask(url, messages=messages)
        stranger = await ask(url, messages=messages, headers={"authorization": "Bearer other"})

    _, _, mine, theirs = prompts(upstream)

    assert ("Yes.", "Who?") == (text(again), text(stranger))
    assert ADD in mine
    assert ADD not in theirs


@pytest.mark.parametrize(
    ("settings", "allow", "runs"),
    [
        ({}, [], False),
        ({"allow": ("f:fail",)}, [], True),
        ({"allow": ("f:*",)}, [], True),
        ({"allow": ("mcp__f__fail",)}, [], True),
        ({"allow": ("other:*", "fail")}, [], False),
        ({}, ["fa*"], True),
    ],
)
async def test_only_allowed_tools_run_of_those_that_do_not_only_read(settings, allow, runs, friendly, tmp_path):
    servers = {"f": {**friendly["f"], "allow": allow}}
    async with proxy_with_servers(tmp_path, servers, FAIL, "Well.", **settings) as (url, upstream):
        answer = text(await ask(url))
    learned = prompts(upstream)[1].rpartition(FAIL)[2]

    assert "Well." == answer
    assert runs == ("ValueError" in learned or "Error executing tool fail" in learned)
    assert runs != ("was not executed. It may not run here; the operator can allow it." in learned)


@pytest.mark.security
@pytest.mark.parametrize(
    ("trust", "settings", "runs"), [("", {}, False), ("annotations", {}, True), ("", {"allow": ("f:add",)}, True)]
)
async def test_a_server_s_own_word_that_a_tool_only_reads_counts_only_if_it_is_trusted(
    trust, settings, runs, friendly, tmp_path, caplog
):
    servers = {"f": {**friendly["f"], "trust": trust}}
    async with proxy_with_servers(tmp_path, servers, ADD, "Well.", **settings) as (url, upstream):
        await ask(url)
    learned = prompts(upstream)[1].rpartition(ADD)[2]

    assert runs != ("was not executed" in learned)
    assert runs != any("mcp__f__add: refused here" in record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        (b"", ServerSelection()),
        (b"auto", ServerSelection()),
        (b"off", ServerSelection(enabled=False)),
        (b"a, b", ServerSelection(mode="manual", selected=("a", "b"))),
    ],
)
def test_the_selection_header_is_parsed(header, chosen):
    """Requirement 15."""
    assert chosen == parse_server_selection(header)


async def test_a_request_can_turn_server_tools_off_or_select_servers(friendly, tmp_path):
    """Requirements 15 and 16. Without any tool, the request is relayed unchanged."""
    servers = {**friendly, "g": friendly["f"]}
    async with proxy_with_servers(tmp_path, servers, "a", "b", "c") as (url, upstream):
        await ask(url)
        await ask(url, headers={"x-fcshim-mcp": "g"})
        await ask(url, headers={"x-fcshim-mcp": "off"})
        unknown = await ask(url, headers={"x-fcshim-mcp": "h"})
    both, one, none = prompts(upstream)

    assert "mcp__f__add" in both
    assert "mcp__g__add" in both
    assert "mcp__f__add" not in one
    assert "mcp__g__add" in one
    assert "user: How much is 1 + 2?" == none
    assert "x-fcshim-mcp" not in upstream.requests[2].headers
    assert 400 == unknown.status_code
    assert "there is no MCP server named 'h' (configured: f, g)" == unknown.json()["error"]["message"]


async def test_tool_choice_none_adds_no_server_tools(friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, "Hm.") as (url, upstream):
        await ask(url, tools=[WEATHER], tool_choice="none")

    assert "mcp__f__add" not in prompts(upstream)[0]


async def test_a_client_tool_replaces_a_server_tool_of_the_same_name(friendly, tmp_path):
    mine = {"type": "function", "function": {"name": "mcp__f__add", "parameters": {"type": "object"}}}
    async with proxy_with_servers(tmp_path, friendly, ADD) as (url, _):
        (choice,) = (await ask(url, tools=[mine])).json()["choices"]

    assert "mcp__f__add" == choice["message"]["tool_calls"][0]["function"]["name"]


async def test_several_choices_are_rejected(friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly) as (url, _):
        response = await ask(url, n=2)

    assert (400, "n") == (response.status_code, response.json()["error"]["param"])


@STREAMS
async def test_a_model_that_keeps_calling_is_stopped(stream, friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, "So. " + ADD, ADD, max_rounds=2) as (url, upstream):
        response = await ask(url, stream=stream)
    error = stream_documents(response)[-1]["error"] if stream else response.json()["error"]

    assert (200 if stream else 502) == response.status_code
    assert "the model did not answer: it called tools in every reply, and max_rounds allows 2" == error["message"]
    assert 2 == len(upstream.requests)


@STREAMS
@pytest.mark.parametrize(
    "second", [Script((b"{}",), status=500), Script((ROLE, text_chunk("It "), CUT))], ids=["500", "cut"]
)
async def test_an_upstream_failure_in_a_later_round_is_an_error(second, stream, friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, "So. " + ADD, second) as (url, _):
        response = await ask(url, stream=stream)

    if stream:
        *before, last = stream_documents(response)
        assert "DONE" not in before
        assert streamed_text(before).startswith("So. ")
        assert "upstream" in last["error"]["message"]
    else:
        assert 502 == response.status_code


async def test_native_calls_run_server_tools_as_well(friendly, tmp_path):
    function = {"name": "mcp__f__add", "arguments": '{"a": 1, "b": 2}'}
    call = event(choices=[{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_0", "function": function}]}}])
    native = Script((ROLE, call, end_chunks("tool_calls")))
    async with proxy_with_servers(tmp_path, friendly, native, native, "It is 3.", tools="native") as (url, upstream):
        answer = text(await ask(url))
    *_, spoken, result = upstream.requests[2].body["messages"]

    assert "It is 3." == answer
    assert "mcp__f__add" in [each["function"]["name"] for each in upstream.requests[0].body["tools"]]
    assert ("assistant", "call_0") == (spoken["role"], spoken["tool_calls"][0]["id"])
    assert ("tool", "call_0") == (result["role"], result["tool_call_id"])


async def test_a_malformed_call_is_reported_to_the_model(friendly, tmp_path):
    bad = '<function_call>\n{"name": "mcp__f__add", "arguments": {"a": 1, "a": 2}}\n</function_call>'
    async with proxy_with_servers(tmp_path, friendly, bad, "Sorry.", max_retries=0) as (url, upstream):
        answer = text(await ask(url))

    assert "Sorry." == answer
    assert "The call was not executed (malformed)" in prompts(upstream)[1]


async def test_calls_of_a_truncated_reply_are_not_executed(friendly, tmp_path):
    async with proxy_with_servers(tmp_path, friendly, text_reply("So. " + ADD, reason="length")) as (url, upstream):
        (choice,) = (await ask(url)).json()["choices"]

    assert "length" == choice["finish_reason"]
    assert 1 == len(upstream.requests)


async def test_an_unreachable_server_costs_only_its_own_tools(friendly, tmp_path):
    servers = {"bad": {"command": "/there/is/no/such/program"}, **friendly}
    async with proxy_with_servers(tmp_path, servers, ADD, "It is 3.") as (url, _):
        assert "It is 3." == text(await ask(url))


async def test_a_server_that_dies_gives_an_error_result_and_the_reply_continues(tmp_path):
    servers = {"f": {**stdio_server("friendly"), "allow": ["*"]}}
    replies = (call_text("mcp__f__die"), call_text("mcp__f__add", a=1, b=2), "It is 3.")
    async with proxy_with_servers(tmp_path, servers, *replies) as (url, upstream):
        answer = text(await ask(url))
    _, second, third = prompts(upstream)

    assert "It is 3." == answer
    assert "f was lost during the call, which may have been done" in second
    assert "was lost" not in third.removeprefix(second)


@pytest.mark.parametrize(("tool", "offered"), [("learn", True), ("turn", False)])
async def test_changed_tool_lists_apply_to_the_next_request(tool, offered, tmp_path):
    """New tools are offered; a server that changes the description of a tool is quarantined."""
    servers = {"f": {**stdio_server("friendly"), "allow": ["*"]}}
    arguments = {"name": "brand_new"} if tool == "learn" else {}
    call = call_text(f"mcp__f__{tool}", **arguments)
    async with proxy_with_servers(tmp_path, servers, call, "Ok.", *["Again."] * 100) as (url, upstream):
        await ask(url)

        async with asyncio.timeout(60):
            while True:
                await ask(url)
                latest = prompts(upstream)[-1]
                if ("mcp__f__brand_new" in latest) if offered else ("mcp__f__add" not in latest):
                    break
                await asyncio.sleep(0.1)

    assert offered == ("mcp__f__add" in latest)


async def test_tokens_are_counted_with_the_tools_of_the_servers(friendly, tmp_path):
    async def count(url, switch):
        headers = {"anthropic-version": "2023-06-01", "x-fcshim-mcp": switch}
        response = await ask(url, path="/v1/messages/count_tokens", headers=headers)
        return response.json()["input_tokens"]

    missing = [Script((b"{}",), status=404)] * 8
    async with proxy_with_servers(tmp_path, friendly, *missing) as (url, _):
        with_tools, without = await count(url, "auto"), await count(url, "off")

    assert with_tools > without + 100


def children():
    """Return the child processes of this process."""
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()


async def test_no_request_can_start_a_process(friendly, tmp_path):
    """Only servers from the operator's file are ever started, whatever a request contains."""
    touched = tmp_path / "touched"
    command = {"command": "touch", "args": [str(touched)]}
    entry = {"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:9/", **command}
    bodies = [
        ("/v1/responses", {"input": "Hi", "tools": [entry]}),
        ("/v1/messages", {"max_tokens": 9, "mcp_servers": [{"type": "url", "name": "x", **command}]}),
        (CHAT, {"mcpServers": {"x": command}, "mcp": json.dumps({"mcpServers": {"x": command}})}),
        ("/v1/mcp", {"mcpServers": {"x": command}}),
        ("/mcp", {"method": "tools/call", "params": {"name": "x"}}),
    ]
    switches = ["auto", "touch", f"touch {touched}", "../x", "f"]
    async with proxy_with_servers(tmp_path, friendly, *["Hm."] * 25) as (url, _):
        before = children()
        for path, fields in bodies:
            for switch in switches:
                await ask(url, path=path, headers={"x-fcshim-mcp": switch}, **fields)
        after = children()

    assert before == after
    assert not touched.exists()


def test_an_invalid_servers_file_is_a_config_error(tmp_path):
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"a": {}}}')
    with pytest.raises(ConfigError, match=r"servers\.json: mcpServers\.a\.type: expected one of"):
        create_app(Config(mcp=str(file)))


async def test_shutdown_ends_a_reply_whose_tool_is_running(tmp_path):
    trace = tmp_path / "trace"
    servers = {"w": {**stdio_server("watched"), "allow": ["*"]}}
    call = call_text("mcp__w__wait", trace=str(trace))
    async with proxy_with_servers(tmp_path, servers, "So. " + call, Script((HANG,))) as (url, _):
        asked = asyncio.create_task(ask(url, stream=True))
        await eventually(trace.exists)
    last = stream_documents(await asked)[-1]

    assert "the proxy is shutting down" == last["error"]["message"]


async def test_the_model_reads_the_resources_of_servers(friendly, tmp_path):
    """A request that selects servers gets the resources of these, and of no others."""
    read, refused = (call_text("ReadMcpResource", server=name, uri="book://one") for name in "lm")
    servers = {"l": stdio_server("library"), "m": stdio_server("library"), **friendly}
    replies = (read, "Read.", read + "\n" + refused + "\n" + call_text("ListMcpResources"), "Read.", "Hello.")
    async with proxy_with_servers(tmp_path, servers, *replies) as (url, upstream):
        for headers in ({}, {"x-fcshim-mcp": "l, f"}, {"x-fcshim-mcp": "f"}):
            await post_chat(url, stream=False, tools=False, headers=headers)
    _, all_servers, _, two_servers, none = prompts(upstream)
    results = two_servers.rpartition("</function_call>")[2]

    assert "Once upon a time" in all_servers
    assert 1 == results.count("Once upon a time")
    assert "There is no MCP server m. There are: l, f." in results
    assert "l book://one" in results
    assert "m book://one" not in results
    assert "ReadMcpResource" not in none


async def test_a_tool_that_ran_is_not_run_again_by_another_upstream(friendly, tmp_path):
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"f": {**friendly["f"], "allow": ["add"]}}}))
    own = {"mcp": str(file), "pins": str(tmp_path / "pins.json")}
    async with (
        scripted_upstream(text_reply(ADD), Script((CUT,))) as first,
        scripted_upstream(text_reply("from second")) as second,
    ):
        upstreams = {"first": UpstreamConfig(url=first.url), "second": UpstreamConfig(url=second.url)}
        models = {"m": ModelOverrides(upstream=["first", "second"])}
        async with running_proxy("http://unused", upstreams=upstreams, models=models, **own) as url:
            response = await ask(url)

    assert 2 == len(first.requests)
    assert not second.requests
    assert 502 == response.status_code
