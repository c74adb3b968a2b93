"""The whole application: routing, settings per model, logging, and secrets that must not appear."""

import json
import logging

import httpx
import pytest

from fcshim.config import Config, ModelOverrides, Secret
from fcshim.server.app import create_app
from tests.scripted import ROLE, event, text_chunk
from tests.server.proxy import CALL, CHAT, chat_body, http_client, post_chat, running_proxy, stream_documents
from tests.server.raw_upstream import fixed_reply, hang, raw_reply, raw_upstream, stream_texts, stream_then

CANARIES = ("canary-upstream", "canary-client", "canary-proxy")


@pytest.mark.parametrize("path", ["/v1", "/v2/chat/completions", "/slots", "/V1/models"])
async def test_a_path_outside_v1_is_not_found(path):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.get(path)

    assert 404 == response.status_code
    assert "the API is at /v1" in response.json()["error"]["message"]
    assert not upstream.requests


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "/v1/v1/messages",
            "there is nothing at '/v1/v1/messages', but at '/v1/messages': remove /v1 from the base URL",
        ),
        ("/v1/api/chat", "there is nothing at '/v1/api/chat', but at '/api/chat': remove /v1 from the base URL"),
        ("/messages", "there is nothing at '/messages', but at '/v1/messages': add /v1 to the base URL"),
    ],
)
async def test_a_wrong_base_url_of_the_client_is_explained(path, message):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.post(path, json={})

    assert 404 == response.status_code
    error = response.json()["error"]
    assert message in (error if isinstance(error, str) else error["message"])
    assert not upstream.requests


@pytest.mark.parametrize(
    ("root", "path", "status"),
    [
        ("", "/health", 200),
        ("", "/shim/health", 404),
        ("/shim", "/shim/health", 200),
        ("/shim/", "/shim/health", 200),
        ("/shim", "/shim", 200),
        ("/shim", "/shim/", 200),
        ("/a b", "/a%20b/health", 200),
        ("/shim", "/health", 200),  # some servers leave the root out
        ("/shim", "/shimmy/health", 404),
        ("/shim", "/shim/shim/health", 404),
    ],
)
async def test_below_the_path_at_which_another_server_mounts_it_everything_is_served(root, path, status):
    app = create_app(Config(upstream="http://127.0.0.1:1"))
    transport = httpx.ASGITransport(app, root_path=root)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get(path)
    await app.aclose()

    assert status == response.status_code


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_chat_completions_rejects_methods_other_than_post(method):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.request(method, CHAT)

    assert (405, "invalid_request_error") == (response.status_code, response.json()["error"]["type"])
    assert not upstream.requests


async def test_model_settings_apply_to_that_model_only():
    own = {"profile": "no-system", "rescue": False, "tools_style": "schema"}
    overrides = ModelOverrides(settings=own, upstream_model="real-name")
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, models={"tuned*": overrides}) as url,
        http_client(url) as client,
    ):
        tuned = await client.post(CHAT, json=chat_body(stream=False, model="tuned-1"))
        await client.post(CHAT, json=chat_body(stream=False, tools=False, model="tuned-1"))
        other = await client.post(CHAT, json=chat_body(stream=False, model="other"))
    first, relayed, last = (heard.json_body for heard in upstream.requests)

    assert ["real-name", "real-name", "other"] == [first["model"], relayed["model"], last["model"]]
    assert ["user"] == [message["role"] for message in first["messages"]]
    assert ["system", "user"] == [message["role"] for message in last["messages"]]
    assert [False, True] == ["): any\n" in heard["messages"][0]["content"] for heard in (first, last)]
    assert ("tuned-1", "other") == (tuned.json()["model"], other.json()["model"])


async def test_content_dropped_from_the_prompt_is_logged(caplog):
    caplog.set_level("INFO", "fcshim.dispatch")
    settings = {"prompt_budget": 100, "prompt_style": "own"}
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url, **settings) as url:
        await post_chat(url, model="m")

    assert "m: the prompt's budget has room for " in caplog.text


@pytest.mark.parametrize(
    ("model", "settings", "marker"),
    [
        ("mistral-nemo", {}, "[TOOL_CALLS]"),
        ("gpt-4o", {"models": {"gpt*": ModelOverrides(upstream_model="qwen2.5:7b")}}, "<tool_call>"),
        ("mistral-nemo", {"dialect": "function_call"}, "<function_call>"),
    ],
)
async def test_the_dialect_follows_the_upstream_model_name_unless_configured(model, settings, marker):
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url, **settings) as url:
        await post_chat(url, model=model)
    (heard,) = upstream.requests

    assert marker in json.dumps(heard.json_body["messages"])


async def test_calls_in_reasoning_can_be_promoted_for_one_model():
    async with (
        raw_upstream(stream_texts(f"<think>\n{CALL}\n</think>\nDone.")) as upstream,
        running_proxy(upstream.url, models={"thinker": ModelOverrides(settings={"reasoning": "promote"})}) as url,
        http_client(url) as client,
    ):
        replies = [
            (await client.post(CHAT, json=chat_body(stream=False, model=name))).json()["choices"][0]
            for name in ("thinker", "other")
        ]

    assert ["tool_calls", "stop"] == [reply["finish_reason"] for reply in replies]


def echoing(status):
    """Respond as a careless upstream does, with the key that it got."""
    return fixed_reply(status, json.dumps({"error": {"message": "Incorrect API key: canary-upstream"}}).encode())


@pytest.mark.parametrize(
    "play",
    [
        echoing(401),
        echoing(403),
        raw_reply(b""),
        raw_reply(b"junk\r\n\r\n"),
        hang,
        fixed_reply(302, b"", "Location: http://127.0.0.1:9/"),
        fixed_reply(200, b"<html>"),
        fixed_reply(500, b""),
        stream_then(ROLE, text_chunk("Once"), then=raw_reply(b"")),
        stream_then(ROLE, text_chunk("Once"), event(error={"message": "lost"}), then=raw_reply(b"")),
    ],
    ids=["401", "403", "closed", "junk", "silent", "redirect", "HTML", "500", "FIN", "error"],
)
async def test_no_key_appears_in_logs_or_errors(play, caplog):
    caplog.set_level(logging.DEBUG)
    settings = {
        "upstream_key": Secret("canary-upstream"),
        "api_keys": (Secret("canary-proxy"),),
        "first_chunk_timeout": 0.1,
        "chunk_timeout": 0.1,
    }
    said_to_clients = []
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url, **settings) as url,
        http_client(url) as client,
    ):
        for key in ("canary-proxy", "canary-client"):
            for stream in (True, False):
                headers = {"Authorization": f"Bearer {key}", "X-Api-Key": key}
                response = await client.post(CHAT, json=chat_body(stream=stream), headers=headers)
                said_to_clients.append(response.text + str(response.headers))
    shown = "\n".join([*said_to_clients, *(record.getMessage() for record in caplog.records), caplog.text])

    assert "canary" in upstream.requests[0].head.decode()
    assert any(record.name == "fcshim.server" for record in caplog.records)
    assert not [canary for canary in CANARIES if canary in shown]


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer canary-client"}, {"x-goog-api-key": "canary-client"}])
async def test_a_forwarded_key_that_the_upstream_quotes_is_not_logged(headers, caplog):
    caplog.set_level(logging.DEBUG, "fcshim")
    body = json.dumps({"error": {"message": "Incorrect API key: canary-client"}}).encode()
    async with (
        raw_upstream(fixed_reply(400, body)) as upstream,
        running_proxy(upstream.url, forward_client_key=True) as url,
        http_client(url) as client,
    ):
        for stream in (True, False):
            answer = await client.post(CHAT, json=chat_body(stream=stream), headers=headers)

    assert 400 == answer.status_code
    assert "canary-client" in answer.text
    assert "Incorrect API key" in caplog.text
    assert "canary-client" not in caplog.text


@pytest.mark.parametrize("status", [401, 403])
async def test_a_rejected_upstream_key_is_not_reported_as_the_clients(status):
    async with (
        raw_upstream(echoing(status)) as upstream,
        running_proxy(upstream.url, upstream_key=Secret("canary-upstream")) as url,
        http_client(url) as client,
    ):
        answers = [await client.post(CHAT, json=chat_body(tools=False)), await client.get("/v1/models")]

    assert {502} == {answer.status_code for answer in answers}
    assert not any("canary" in answer.text for answer in answers)


async def test_a_forwarded_client_key_that_is_rejected_is_reported():
    async with (
        raw_upstream(fixed_reply(401, b'{"error":{"message":"bad key"}}')) as upstream,
        running_proxy(upstream.url, forward_client_key=True) as url,
        http_client(url) as client,
    ):
        answer = await client.get("/v1/models", headers={"Authorization": "Bearer mine"})

    assert (401, "bad key") == (answer.status_code, answer.json()["error"]["message"])


async def test_a_request_is_logged_with_its_outcome_but_not_its_content(caplog):
    caplog.set_level(logging.INFO, "fcshim.server")
    async with (
        raw_upstream(stream_texts("the reply"), raw_reply(b"")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        ok, broken = [await client.post(CHAT + "?secret=1", json=chat_body()) for _ in range(2)]
    first, second = [record.getMessage() for record in caplog.records if record.name == "fcshim.server"]

    assert (200, 502) == (ok.status_code, broken.status_code)
    assert "DONE" == stream_documents(ok)[-1]
    assert f"POST {CHAT} 200 in" in first
    assert "closed the connection" in second
    assert not [text for text in ("the reply", "secret", "Hi") if text in first + second]
