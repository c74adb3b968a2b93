"""Upstreams with native tools: what is relayed, what falls back, and where keys are sent."""

import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.config import ModelOverrides, Secret
from fcshim.events import Stop, Text, Usage
from tests.scripted import Script, llama_server_with_tools, scripted_upstream, text_reply
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_proxy
from tests.server.test_api_pairs import native_events, reply_script
from tests.test_client_apis import native_call

ADD = {"name": "add", "input_schema": {"type": "object"}}
MESSAGES = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
REFUSAL = Script((b'{"error":{"message":"tools param requires --jinja flag"}}',), status=500)


async def test_an_upstream_that_allows_verbatim_is_relayed_to_clients_of_its_own_api():
    body = b'event: message_start\ndata: {"type":"message_start","of_the_future":true}\n\n'
    async with (
        scripted_upstream(Script((body,))) as upstream,
        running_proxy(upstream.url, upstream_api="anthropic", tools="native", upstream_key=Secret("ours")) as url,
        http_client(url) as client,
    ):
        sent = {**MESSAGES, "tools": [ADD], "stream": True, "of_the_future": 1}
        headers = {"x-api-key": "theirs", "anthropic-version": "2026-10-21", "anthropic-beta": "b"}
        response = await client.post("/v1/messages?beta=true", json=sent, headers=headers)

    (asked,) = upstream.requests

    assert body == response.content
    assert sent == asked.body
    assert ("/v1/messages?beta=true", "ours", "2026-10-21", "b") == (
        asked.path,
        *(asked.headers[name] for name in ("x-api-key", "anthropic-version", "anthropic-beta")),
    )


async def test_threads_are_relayed_to_an_upstream_that_supports_them():
    body = {**MESSAGES, "thread": {"type": "continue", "previous_message_id": "msg_1"}, "tools": [ADD]}
    async with (
        scripted_upstream(Script((b"{}",))) as upstream,
        running_proxy(upstream.url, upstream_api="anthropic", tools="native") as url,
        http_client(url) as client,
    ):
        assert 200 == (await client.post("/v1/messages", json=body)).status_code

    assert body == upstream.requests[0].body


async def test_metadata_requests_are_relayed_as_well():
    script = Script((b'{"totalTokens":8}',))
    async with (
        scripted_upstream(script, script) as upstream,
        running_proxy(upstream.url, upstream_api="gemini", tools="native") as url,
        http_client(url) as client,
    ):
        paths = ("/v1beta/models/m:countTokens?key=k", "/models/m:countTokens")
        answers = [await client.post(path, json={"contents": []}) for path in paths]

    assert [{"totalTokens": 8}] * 2 == [answer.json() for answer in answers]
    assert ["/v1beta/models/m:countTokens"] * 2 == [asked.path for asked in upstream.requests]


async def test_tokens_are_counted_by_the_proxy_if_tools_are_in_the_prompt():
    async with (
        scripted_upstream() as upstream,
        running_proxy(upstream.url, upstream_api="anthropic", tools="prompt") as url,
        http_client(url) as client,
    ):
        response = await client.post("/v1/messages/count_tokens", json={**MESSAGES, "tools": [ADD]})

    assert response.json()["input_tokens"] > 50
    assert "estimate" == response.headers["x-fcshim-count"]


@pytest.mark.parametrize("kind", ["anthropic", "gemini", "ollama"])
async def test_openai_clients_can_list_the_models_of_other_upstreams(kind):
    listed = {
        "anthropic": {"data": [{"id": "a/b"}]},
        "gemini": {"models": [{"name": "models/a/b"}]},
        "ollama": {"models": [{"name": "a/b", "model": "a/b"}]},
    }
    script = Script((json.dumps(listed[kind]).encode(),))
    async with (
        scripted_upstream(script, script, script) as upstream,
        running_proxy(upstream.url, upstream_api=kind) as url,
        http_client(url) as client,
    ):
        answers = [
            await client.get(path) for path in ("/v1/models", "/v1/models/a/b", "/v1/models/c", "/v1/embeddings")
        ]

    assert [200, 200, 404, 404] == [answer.status_code for answer in answers]
    assert ["a/b"] == [model["id"] for model in answers[0].json()["data"]]
    assert "a/b" == answers[1].json()["id"]


def with_tools(upstream):
    """Return whether each chat request had native tools."""
    return ["tools" in asked.body for asked in upstream.requests if asked.path == CHAT]


@pytest.mark.model_pages
async def test_by_default_tools_fall_back_to_the_prompt_when_the_upstream_refuses_them():
    async with (
        llama_server_with_tools(REFUSAL, text_reply(CALL), text_reply(CALL)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        replies = [(await client.post(CHAT, json=chat_body(stream=stream))) for stream in (True, False)]

    assert [200, 200] == [reply.status_code for reply in replies]
    assert all('"name":"add"' in reply.text for reply in replies)
    assert ["/v1/models", "/props?model=m", "/apply-template"] == upstream.page_paths
    assert [True, False, False] == with_tools(upstream)


@pytest.mark.model_pages
async def test_by_default_tools_stay_native_if_they_work_and_the_list_of_models_says_why():
    script = reply_script(UPSTREAMS["openai"].codec, native_call(), 9)
    async with (
        llama_server_with_tools(script, script) as upstream,
        running_proxy(upstream.url, models={"alias": ModelOverrides(upstream_model="m")}) as url,
        http_client(url) as client,
    ):
        replies = [(await client.post(CHAT, json=chat_body())) for _ in range(2)]
        listed = (await client.get("/v1/models")).json()["data"]

    assert all('"finish_reason":"tool_calls"' in reply.text for reply in replies)
    assert [True, True] == with_tools(upstream)
    assert [("native", "its replies: its server has read a call")] * 2 == [
        (each["fcshim"]["tools"], each["fcshim"]["tools_reason"]) for each in listed
    ]


@pytest.mark.model_pages
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_that_the_upstream_left_in_the_text_reaches_the_client(stream):
    async with (
        llama_server_with_tools(text_reply("Well. ", CALL), text_reply(CALL)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        replies = [(await client.post(CHAT, json=chat_body(stream=stream))) for _ in range(2)]

    assert [1, 1] == [reply.text.count('"name":"add"') for reply in replies]
    assert "Well. " in replies[0].text
    assert all('"finish_reason":"tool_calls"' in reply.text for reply in replies)
    assert [True, False] == with_tools(upstream)


@pytest.mark.model_pages
@pytest.mark.parametrize("stream", [True, False])
async def test_a_reply_without_the_demanded_call_gives_way_to_one_with_the_prompt(stream):
    async with (
        llama_server_with_tools(text_reply("I have no tools."), text_reply(CALL)) as upstream,
        running_proxy(upstream.url, constrain="off") as url,
        http_client(url) as client,
    ):
        reply = await client.post(CHAT, json=chat_body(stream=stream, tool_choice="required"))

    assert 1 == reply.text.count('"name":"add"')
    assert "I have no tools." not in reply.text
    assert '"total_tokens":30' in reply.text or stream
    assert [True, False] == with_tools(upstream)


@pytest.mark.model_pages
@pytest.mark.parametrize("stream", [True, False])
async def test_the_reply_without_the_demanded_call_stands_if_the_prompt_fails(stream):
    async with (
        llama_server_with_tools(text_reply("I have no tools."), Script((b"{}",), status=429)) as upstream,
        running_proxy(upstream.url, constrain="off", inspect=True) as url,
        http_client(url) as client,
    ):
        reply = await client.post(CHAT, json=chat_body(stream=stream, tool_choice="required"))

    assert (200, 1) == (reply.status_code, reply.text.count("I have no tools."))
    assert '"finish_reason":"stop"' in reply.text


@pytest.mark.model_pages
async def test_auto_reports_other_errors():
    busy = Script((b'{"error":{"message":"slow down"}}',), status=429)
    async with (
        llama_server_with_tools(busy) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        assert 429 == (await client.post(CHAT, json=chat_body())).status_code


async def test_tool_support_is_decided_per_model():
    overrides = {"able": ModelOverrides(settings={"tools": "native"}, upstream_model="there")}
    script = reply_script(UPSTREAMS["openai"].codec, native_events(UPSTREAMS["openai"]), 9)
    async with (
        scripted_upstream(script, text_reply(CALL)) as upstream,
        running_proxy(upstream.url, models=overrides) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(model="able"))
        await client.post(CHAT, json=chat_body(model="other"))

    assert [("there", True), ("other", False)] == [
        (asked.body["model"], "tools" in asked.body) for asked in upstream.requests
    ]


async def test_a_gemini_clients_model_is_renamed_in_the_path():
    script = reply_script(UPSTREAMS["gemini"].codec, [Text("Hello"), Usage(1, 1), Stop("complete")], 9)
    settings = {"upstream_api": "gemini", "tools": "native", "models": {"m": ModelOverrides(upstream_model="there")}}
    async with (
        scripted_upstream(script) as upstream,
        running_proxy(upstream.url, **settings) as url,
        http_client(url) as client,
    ):
        body = {"contents": [{"parts": [{"text": "Hi"}]}]}
        response = await client.post("/v1beta/models/m:generateContent", json=body)

    assert "Hello" == response.json()["candidates"][0]["content"]["parts"][0]["text"]
    assert "/v1beta/models/there:streamGenerateContent?alt=sse" == upstream.requests[0].path


@pytest.mark.parametrize("kind", UPSTREAMS.values(), ids=lambda kind: kind.name)
async def test_a_forwarded_client_key_is_sent_in_the_upstreams_header(kind):
    script = reply_script(kind.codec, [Text("Hello"), Usage(1, 1), Stop("complete")], 99)
    async with (
        scripted_upstream(script) as upstream,
        running_proxy(upstream.url, upstream_api=kind.name, forward_client_key=True) as url,
        http_client(url) as client,
    ):
        path, key = (
            ("/v1/messages", {"x-api-key": "k"}) if kind.name != "anthropic" else (CHAT, {"authorization": "Bearer k"})
        )
        response = await client.post(path, json=MESSAGES, headers=key)

    name, lead = (part.decode() for part in kind.key_header)

    assert 200 == response.status_code
    assert f"{lead}k" == upstream.requests[0].headers[name]
