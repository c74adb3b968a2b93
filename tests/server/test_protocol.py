"""Offers to upgrade, slow heads and bodies, and the limit of open files; over real sockets."""

import asyncio
import json
import logging

import pytest

from fcshim.config import Config, Secret
from fcshim.errors import ConfigError
from fcshim.server.protocol import ConnectionBudget
from fcshim.server.run import listen
from tests.scripted import ROLE, scripted_upstream, text_chunk, text_reply
from tests.server import proxy
from tests.server.proxy import CHAT, chat_body, http_client, post_request, raw_connection, running_proxy, send_raw
from tests.server.raw_upstream import fixed_reply, hang, raw_upstream, stream_then

pytestmark = pytest.mark.security

H2C = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)
"""What Java's HttpClient sends with each request over cleartext."""


async def responses(url: str, *requests: bytes) -> list[bytes]:
    """Send requests on one connection, each in several pieces; return the responses."""
    found = []
    async with raw_connection(url) as (reader, writer):
        for request in requests:
            for start in range(0, len(request), 97):
                writer.write(request[start : start + 97])
                await asyncio.sleep(0)
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            found.append(head + await reader.readexactly(size))
    return found


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_a_client_that_leaves_with_requests_behind_the_running_one_is_noticed(tools):
    """uvicorn reports the lost connection only to the last of them."""
    play = stream_then(ROLE, text_chunk("Once"), then=hang)
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        async with raw_connection(url) as (reader, writer):
            writer.write(post_request(url, chat_body(tools=tools)) * 3)
            await reader.readuntil(b'"Once"')
        await asyncio.wait_for(upstream.client_left.wait(), 20)

    assert 1 == len(upstream.requests)


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
@pytest.mark.parametrize(
    "upgrade",
    [H2C, ("Connection: upgrade", "Upgrade: TLS/1.0"), ("Connection: keep-alive,Upgrade", "Upgrade: h2c, foo/2")],
    ids=["java", "tls", "several"],
)
async def test_an_offer_to_upgrade_is_ignored_and_the_body_is_read(tools, upgrade):
    answer = b'{"id":"1","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",'
    answer += b'"message":{"role":"assistant","content":"ok"}}]}'
    async with raw_upstream(fixed_reply(200, answer)) as upstream, running_proxy(upstream.url) as url:
        request = post_request(url, chat_body(stream=False, tools=tools), CHAT, *upgrade)
        found = await responses(url, request, request, request)

    assert [True] * 3 == [each.startswith(b"HTTP/1.1 200 ") and b'"ok"' in each for each in found]
    assert ["Hi"] * 3 == [each.json_body["messages"][-1]["content"] for each in upstream.requests]
    assert not [each for each in upstream.requests if b"upgrade" in each.head.lower()]
    assert not [each for each in upstream.requests if b"http2-settings" in each.head.lower()]


async def test_an_offer_with_a_chunked_body_and_a_pipelined_request_is_read():
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        lines = ["POST /v1/embeddings HTTP/1.1", "Host: localhost", "Content-Type: application/json", *H2C]
        chunked = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", "2\r\n{}\r\n0\r\n\r\n"]).encode()
        answer = await send_raw(url, chunked + post_request(url, b"[]", "/v1/embeddings", "Connection: close"))

    assert 2 == answer.count(b"HTTP/1.1 200 ")
    assert [b"{}", b"[]"] == [each.body for each in upstream.requests]


async def test_an_offer_does_not_hide_a_request_from_the_checks():
    async with running_proxy("http://127.0.0.1:9", api_keys=(Secret("first-key"),)) as url:
        no_key = await send_raw(url, post_request(url, {}, CHAT, *H2C, "Connection: close"))
        foreign = post_request(url, {}, CHAT, *H2C, "Connection: close").replace(b"Host: 127", b"Host: evil")
        forbidden = await send_raw(url, foreign)

    assert no_key.startswith(b"HTTP/1.1 401 ")
    assert forbidden.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("path", ["/v1/realtime", "/", CHAT, "/v1/responses"])
async def test_a_websocket_gets_a_clear_answer(path):
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: WebSocket"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        (answer,) = await responses(url, "\r\n".join(lines).encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert "WebSockets are not served" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert not upstream.requests


async def test_a_tunnel_is_refused():
    async with running_proxy("http://127.0.0.1:9") as url:
        answer = await send_raw(url, b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize("start", [b"", b"POST /v1/chat/comp", b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n"])
async def test_a_head_that_does_not_end_is_answered_and_cut(start):
    async with running_proxy("http://127.0.0.1:9", head_timeout=0.2) as url:
        answer = await asyncio.wait_for(send_raw(url, start), 20)

    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_head_that_drips_is_cut_on_a_kept_connection_too():
    async with running_proxy("http://127.0.0.1:9", head_timeout=1.0) as url, raw_connection(url) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b'{"status":"ok"}')
        rest = asyncio.create_task(reader.read(20))
        for _ in range(100):
            if not rest.done():
                writer.write(b"\r\n")
                await asyncio.sleep(0.02)

        assert (await asyncio.wait_for(rest, 20)).startswith(b"HTTP/1.1 408 ")


async def test_a_long_stream_is_not_cut_by_the_timeout_of_heads():
    async def slow(peer):
        await asyncio.sleep(1.5)
        await peer.chunk(text_chunk("end"))

    async with (
        raw_upstream(stream_then(ROLE, then=slow)) as upstream,
        running_proxy(upstream.url, head_timeout=1.0) as url,
        raw_connection(url) as (reader, writer),
    ):
        writer.write(post_request(url, chat_body()) + b"POST /v1")
        seen = await asyncio.wait_for(reader.readuntil(b'"end"'), 20)

    assert seen.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings", "/v1/responses", "/v1/messages", "/api/show"])
async def test_a_body_that_stops_is_answered_and_cut(path):
    async with running_proxy("http://127.0.0.1:9", body_timeout=0.2) as url:
        request = post_request(url, chat_body(), path)
        answer = await asyncio.wait_for(send_raw(url, request[:-20]), 20)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"no part of the request's body came for 0.2 s" in answer


async def test_a_slow_body_that_goes_on_is_read():
    async with scripted_upstream(text_reply("ok")) as upstream, running_proxy(upstream.url, body_timeout=2.0) as url:
        request = post_request(url, chat_body(stream=False), CHAT, "Connection: close")
        async with raw_connection(url) as (reader, writer):
            for start in range(0, len(request), 40):
                writer.write(request[start : start + 40])
                await asyncio.sleep(0.3)
            answer = await asyncio.wait_for(reader.read(), 20)

    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_at_the_limit_of_open_files_requests_get_503_and_the_log_says_why_once(monkeypatch, caplog):
    monkeypatch.setattr("fcshim.server.run.process_budget", lambda: ConnectionBudget(6))
    caplog.set_level(logging.ERROR, "fcshim.server")
    async with running_proxy("http://127.0.0.1:9") as url:
        held = [await asyncio.open_connection(*url.removeprefix("http://").split(":")) for _ in range(60)]
        answers = [await send_raw(url, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(5)]
        for _, writer in held:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in held), return_exceptions=True)
        async with http_client(url) as client:
            recovered = [(await client.get("/health")).status_code for _ in range(20)]

    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
    assert 200 == recovered[-1]
    assert 1 == sum("the limit of open files is reached" in record.message for record in caplog.records)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "shim.example", ""])
def test_an_address_that_others_reach_needs_a_key(host):
    with pytest.raises(ConfigError, match="can be reached from outside: expected --api-key"):
        listen(Config(host=host, port=0))


def test_with_a_key_every_address_is_served():
    with listen(Config(host="0.0.0.0", port=0, api_keys=(Secret("first-key"),))) as listener:
        assert listener.getsockname()[1]


@pytest.mark.parametrize("path", ["/metrics", "/ready/", "/", "/v1/models", "/fcshim/models", "/nothing", "/api/tags"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
async def test_on_an_address_that_others_reach_every_path_needs_the_key(path, method):
    settings = {"host": "0.0.0.0", "api_keys": (Secret("first-key"),)}
    async with (
        running_proxy("http://127.0.0.1:9", **settings) as url,
        http_client(url.replace("0.0.0.0", "127.0.0.1")) as client,
    ):
        refused = await client.request(method, path)
        health = await client.get("/health")

    assert (401, 200) == (refused.status_code, health.status_code)


@pytest.mark.parametrize(("path", "status"), [("/metrics", 404), ("/ready", 503), ("/", 200)])
async def test_on_loopback_the_paths_about_the_process_need_no_key(path, status):
    async with running_proxy("http://127.0.0.1:9", api_keys=(Secret("first-key"),)) as url, http_client(url) as client:
        assert status == (await client.get(path)).status_code


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/metrics", "/ready", CHAT, "/v1/x", "/nothing", "/health/", "/HEALTH", "*"])
async def test_the_host_is_checked_for_every_method_and_path_but_health(method, path):
    async with running_proxy("http://127.0.0.1:9") as url:
        head = f"{method} {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        answer = await send_raw(url, head.encode())

    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))


@pytest.mark.parametrize(
    "hosts",
    [("localhost", "evil.example"), ("evil.example", "localhost"), ("localhost:80@evil.example",), ("localhost:x",)],
)
async def test_a_host_that_can_be_read_in_two_ways_is_forbidden(hosts):
    async with running_proxy("http://127.0.0.1:9") as url:
        lines = [f"Host: {host}" for host in hosts]
        head = "\r\n".join(["GET /v1/models HTTP/1.1", *lines, "Connection: close", "", ""])
        answer = await send_raw(url, head.encode())

    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))


async def test_health_is_answered_for_an_address_that_is_not_a_known_name():
    async with running_proxy("http://127.0.0.1:9") as url, proxy.http_client(url) as client:
        assert 200 == (await client.get("/health", headers={"Host": "10.0.0.7:8181"})).status_code


@pytest.mark.parametrize(
    ("trailer", "status"), [("Authorization: Bearer right", b"401"), ("Host: evil", b"401"), ("X-Checksum: 1", b"401")]
)
async def test_a_trailer_does_not_count_as_a_header(trailer, status):
    key = {"api_keys": (Secret("right"),)}
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url, **key) as url:
        lines = ["POST /v1/embeddings HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        chunked = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", "2", "{}", "0", trailer, "", ""])
        answer = await send_raw(url, chunked.encode() + post_request(url, b"[]", "/v1/x", "Connection: close"))

    assert answer.startswith(b"HTTP/1.1 " + status)
    assert not upstream.requests


async def test_trailers_without_end_are_cut():
    async with running_proxy("http://127.0.0.1:9") as url:
        lines = ["POST /v1/embeddings HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "", "0"]
        answer = await send_raw(url, "\r\n".join([*lines, *["X: y"] * 300]).encode())

    assert answer.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_a_client_that_closes_its_side_after_its_request_gets_its_reply(tools, stream, version):
    closed = asyncio.Event()
    answer = b'{"id":"1","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",'
    answer += b'"message":{"role":"assistant","content":"here it is"}}]}'

    async def late(peer):
        await closed.wait()
        await asyncio.sleep(0.7)  # longer than the proxy waits before it looks whether the client has left
        await fixed_reply(200, answer)(peer)

    async with (
        raw_upstream(late) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (reader, writer),
    ):
        request = post_request(url, chat_body(stream=stream, tools=tools))
        writer.write(request.replace(b"HTTP/1.1", b"HTTP/" + version.encode()))
        writer.write_eof()
        await upstream.request_received.wait()
        closed.set()
        received = await asyncio.wait_for(reader.read(), 60)
    interim, final = received.startswith(b"HTTP/1.1 100 Continue\r\n\r\n"), received.rpartition(b"HTTP/1.1 200 OK")[2]

    assert (version == "1.1") == interim
    assert b"here it is" in final
    assert 1 == received.count(b"200 OK")


async def test_a_client_that_closes_its_side_within_its_request_is_answered_by_the_end_of_the_connection():
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (reader, writer),
    ):
        writer.write(post_request(url, chat_body())[:-5])
        writer.write_eof()
        received = await asyncio.wait_for(reader.read(), 60)

    assert b"" == received
    assert [] == upstream.requests
