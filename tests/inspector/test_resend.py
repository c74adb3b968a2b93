"""A captured request that is sent again: as it was, in another dialect, to another model; who may do it."""

import asyncio
import json

import pytest

from fcshim.config import Secret
from tests.server.proxy import CALL, CHAT, chat_body, http_client, running_inspector, running_proxy
from tests.server.raw_upstream import hang, raw_upstream, stream_texts

REQUESTS = "/fcshim/api/requests"
HERMES = CALL.replace("function_call", "tool_call")


async def ended(client, number: str) -> dict:
    """Wait for the end of a request, and return everything about it."""
    while True:
        shown = (await client.get(f"{REQUESTS}/{number}")).json()
        if shown["summary"]["duration"] is not None:
            return shown
        await asyncio.sleep(0.01)


async def resend(client, number: str = "1", **fields: str):
    return await client.post(f"{REQUESTS}/{number}/resend", json=fields)


async def test_a_request_is_sent_again_as_it_was_and_captured_as_another():
    async with (
        raw_upstream(stream_texts("No."), stream_texts(CALL)) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        answer = await resend(client)
        shown = await ended(client, answer.json()["id"])

    first, second = upstream.requests
    assert first.json_body == second.json_body
    assert ("2", "1", ["calls"]) == tuple(shown["summary"][key] for key in ("id", "resent_from", "outcome"))
    assert "Hi" in shown["request"]["body"]["text"]


async def test_another_dialect_and_model_hold_for_that_request_alone():
    async with (
        raw_upstream(stream_texts("No."), stream_texts(HERMES), stream_texts("No.")) as upstream,
        running_proxy(upstream.url, inspect=True, tools="native") as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        answer = await resend(client, dialect="hermes", model="other")
        shown = await ended(client, answer.json()["id"])
        await client.post(CHAT, json=chat_body())
    summary = shown["summary"]

    assert ("hermes", "the settings", "prompt", "other") == tuple(
        summary[key] for key in ("dialect", "dialect_reason", "tool_calling", "model")
    )
    assert ["m", "other", "m"] == [each.json_body["model"] for each in upstream.requests]
    assert ["tools" in each.json_body for each in upstream.requests] == [True, False, True]


APIS = {
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"input": "Hi"},
    "/api/chat": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1beta/models/m:streamGenerateContent?alt=sse": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


@pytest.mark.parametrize("path", APIS)
async def test_requests_of_every_api_are_sent_again_to_another_model(path):
    async with (
        raw_upstream(stream_texts("One"), stream_texts("Two")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(path, json={"model": "m", "stream": True, **APIS[path]})
        answer = await resend(client, model="other/model")
        shown = await ended(client, answer.json()["id"])

    assert ["m", "other/model"] == [each.json_body["model"] for each in upstream.requests]
    assert "Two" == shown["response"]["messages"][0]["text"]["text"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"dialect": "../../etc"}, 400),
        ({"dialect": "/tmp"}, 400),
        ({"tools": "native"}, 400),
        ({"model": "x" * 501}, 400),
    ],
)
async def test_what_is_not_known_is_refused(fields, status):
    async with (
        raw_upstream(stream_texts("No.")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        answer = await resend(client, **fields)
        missing = await resend(client, "99")
        read = await client.get(f"{REQUESTS}/1/resend")

    assert (status, 404, 405) == (answer.status_code, missing.status_code, read.status_code)
    assert 1 == len(upstream.requests)


@pytest.mark.security
async def test_only_who_may_send_requests_sends_one_again_and_no_other_page_does():
    async with (
        raw_upstream(stream_texts("Hi")) as upstream,
        running_inspector(upstream.url, api_keys=(Secret("secret-key"),), allow_origins=("*",)) as (url, inspector_url),
        http_client(url) as client,
        http_client(inspector_url) as page,
    ):
        key = {"authorization": "Bearer secret-key"}
        await client.post(CHAT, json=chat_body(), headers=key)
        path, content = f"{REQUESTS}/1/resend", b"{}"
        json_type = {"content-type": "application/json"}
        refused = [
            (await page.post(path, content=content, headers=headers)).status_code
            for headers in (
                json_type,
                {**json_type, "authorization": "Bearer wrong"},
                {**json_type, **key, "origin": "https://evil.example"},
                {**json_type, **key, "origin": url},
                {**json_type, **key, "sec-fetch-site": "cross-site"},
                {**key, "content-type": "text/plain", "sec-fetch-site": "same-site"},
                {**json_type, **key, "host": "evil.example"},
            )
        ]
        elsewhere = await client.post(path, json={}, headers=key)
        before = len(upstream.requests)
        sent = await page.post(path, json={}, headers=key)
        again = await page.get(f"{REQUESTS}/{sent.json()['id']}", headers=key)

    assert [401, 401, 403, 403, 403, 403, 403] == refused
    assert 404 == elsewhere.status_code
    assert 1 == before
    assert (200, 200) == (sent.status_code, again.status_code)


@pytest.mark.security
async def test_the_clients_key_is_not_sent_again_and_the_operators_is():
    async with (
        raw_upstream(stream_texts("Hi")) as upstream,
        running_proxy(upstream.url, inspect=True, upstream_key=Secret("operators-key")) as url,
        http_client(url) as client,
    ):
        headers = {"authorization": "Bearer clients-key", "x-api-key": "clients-other-key", "cookie": "s=1"}
        await client.post(CHAT, json=chat_body(), headers=headers)
        answer = await resend(client)
        shown = await ended(client, answer.json()["id"])
    sent = upstream.requests[1]

    assert "Bearer operators-key" == sent.headers["authorization"]
    assert "clients" not in json.dumps(shown) + sent.head.decode()
    assert "cookie" not in sent.headers


@pytest.mark.security
async def test_a_client_cannot_choose_a_dialect_by_its_head():
    async with (
        raw_upstream(stream_texts("Hi")) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        headers = {"fcshim.dialect": "hermes", "x-fcshim-dialect": "hermes", "fcshim.resent_from": "7"}
        await client.post(CHAT, json=chat_body(), headers=headers)
        shown = await ended(client, "1")

    assert ("function_call", "") == (shown["summary"]["dialect"], shown["summary"]["resent_from"])


async def test_requests_that_are_sent_again_are_limited_and_end_with_the_server():
    async with (
        raw_upstream(stream_texts("Hi"), hang) as upstream,
        running_proxy(upstream.url, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        statuses = [(await resend(client)).status_code for _ in range(5)]

    assert [200, 200, 200, 200, 429] == statuses
