"""Clients that disconnect, read slowly or send too much, as the upstream sees them."""

import asyncio
import socket

import pytest

from fcshim.server.client_connection import ClientConnection, PingSchedule
from tests.scripted import ROLE, text_chunk
from tests.server.proxy import (
    CALL,
    CHAT,
    chat_body,
    http_client,
    post_request,
    raw_connection,
    running_proxy,
    send_raw,
    stream_documents,
)
from tests.server.raw_upstream import SSE_HEAD, hang, raw_upstream, stream_texts, stream_then
from tests.virtual_time import in_virtual_time


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "play",
    [
        hang,
        stream_then(then=hang),
        stream_then(ROLE, text_chunk("Once upon"), then=hang),
        stream_then(ROLE, text_chunk(CALL[:60]), then=hang),
    ],
    ids=["before the status", "before the first token", "in the text", "in a call"],
)
async def test_a_disconnect_cancels_the_upstream_request(play, stream, tools):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url, raw_connection(url) as (_, writer):
        writer.write(post_request(url, chat_body(stream=stream, tools=tools)))
        await upstream.request_received.wait()
        await asyncio.sleep(0.05)

        assert not upstream.client_left.is_set()
        writer.close()
        await asyncio.wait_for(upstream.client_left.wait(), 60)


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_a_client_that_closes_its_side_during_the_stream_is_taken_for_one_that_has_left(tools):
    play = stream_then(ROLE, text_chunk("Once upon"), then=hang)
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (reader, writer),
    ):
        writer.write(post_request(url, chat_body(tools=tools)))
        await reader.readuntil(b"Once upon")
        writer.write_eof()
        await asyncio.wait_for(upstream.client_left.wait(), 60)


async def test_a_disconnect_during_the_request_body_sends_nothing_upstream():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        async with raw_connection(url) as (_, writer):
            writer.write(post_request(url, chat_body())[:-10])
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        async with http_client(url) as client:
            assert 200 == (await client.get("/health")).status_code

    assert not upstream.requests


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_a_slow_reader_pauses_the_upstream_without_buffering(tools):
    sent = 0

    async def pouring(peer):
        nonlocal sent
        await peer.send(SSE_HEAD)
        while True:
            await peer.chunk(text_chunk("x" * 60_000))
            sent += 60_000

    async with (
        raw_upstream(pouring) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (reader, writer),
    ):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        writer.transport.pause_reading()
        writer.write(post_request(url, chat_body(tools=tools)))
        stalled = await settled_value(lambda: sent)
        writer.transport.resume_reading()
        for _ in range(200):
            await reader.readexactly(60_000)
        await asyncio.sleep(0)

        assert 0 < stalled < 32 * 2**20
        assert sent > stalled


async def settled_value(value):
    """Wait until a value stops changing, and return it."""
    seen = []
    while len(seen) < 2 or seen[-1] != seen[-2] or not seen[-1]:
        await asyncio.sleep(0.3)
        seen.append(value())
    return seen[-1]


async def test_a_too_large_body_is_rejected_with_or_without_a_content_length():
    body = chat_body(padding="x" * 5000)
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url, max_body=2000) as url:
        declared = await send_raw(url, post_request(url, body))
        head = post_request(url, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        undeclared = await send_raw(url, head + b"1388\r\n" + b"x" * 5000 + b"\r\n")

    assert declared.startswith(b"HTTP/1.1 413 ")
    assert undeclared.startswith(b"HTTP/1.1 413 ")
    assert b"larger than 2000 bytes" in declared
    assert not upstream.requests


async def test_a_client_that_is_still_sending_a_large_body_receives_the_rejection():
    async with running_proxy("http://127.0.0.1:9", max_body=2000) as url, http_client(url) as client:
        answers = [await client.post(CHAT, json=chat_body(padding="x" * 10_000_000)) for _ in range(3)]

    assert [413] * 3 == [answer.status_code for answer in answers]


async def test_pipelined_requests_are_served_in_order():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        last = post_request(url, chat_body(), CHAT, "Connection: close")
        answers = await send_raw(url, post_request(url, chat_body()) + last)

    assert 2 == answers.count(b"data: [DONE]") == len(upstream.requests)


async def test_a_head_response_has_no_body():
    async with running_proxy("http://127.0.0.1:9") as url:
        answer = await send_raw(url, b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n")


async def test_the_server_survives_bytes_that_are_not_http():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        for junk in (b"\x16\x03\x01\x02\x00\x01", b"\r\n\r\n\r\nGET", b"\xff" * 1000 + b"\r\n\r\n"):
            async with raw_connection(url) as (_, writer):
                writer.write(junk)
                await asyncio.sleep(0.01)
        async with http_client(url) as client:
            response = await client.post(CHAT, json=chat_body())

    assert "DONE" == stream_documents(response)[-1]


class GatedSend:
    """An ASGI `send` whose client reads only while the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0
        self.sent: list[bytes] = []

    async def __call__(self, message):
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        self.sent.append(message.get("body", b"start"))


def new_connection(send):
    return ClientConnection({"method": "POST", "path": CHAT, "headers": []}, None, send)


async def test_write_nowait_sends_at_once_while_the_client_reads():
    send = GatedSend()
    line = new_connection(send)
    begun = line.write_nowait(b"a")
    await line.drain()
    pushed = [line.write_nowait(each) for each in (b"b", b"", b"c")]

    assert not begun  # the status must be sent first
    assert [True] * 3 == pushed
    assert [b"start", b"a", b"b", b"c"] == send.sent


async def test_drain_completes_a_suspended_write_nowait():
    send = GatedSend()
    line = new_connection(send)
    await line.start()
    send.gate.clear()
    pushed = line.write_nowait(b"a")
    settling = asyncio.create_task(line.drain())
    await asyncio.sleep(0.01)
    before = list(send.sent)
    send.gate.set()
    await settling
    await line.end(b"b")

    assert not pushed
    assert [b"start"] == before
    assert [b"start", b"a", b"b"] == send.sent


@in_virtual_time
async def test_pings_are_written_where_nothing_else_is():
    send = GatedSend()
    line = ClientConnection({"method": "POST", "path": CHAT, "headers": []}, asyncio.Event().wait, send)
    await line.start()
    async with line.watch_disconnect(PingSchedule(lambda: b"ping", first_interval=0.1, interval=0.1)):
        await asyncio.sleep(0.35)
        await line.write(b"a")
        await asyncio.sleep(0.05)

    assert [b"start", b"ping", b"ping", b"ping", b"a"] == send.sent


async def test_end_first_sends_what_write_nowait_left():
    send = GatedSend()
    line = new_connection(send)
    line.write_nowait(b"a")
    await line.end(b"b")

    assert [b"start", b"a", b"b"] == send.sent


async def test_cancelling_drain_abandons_the_suspended_send():
    send = GatedSend()
    line = new_connection(send)
    await line.start()
    send.gate.clear()
    line.write_nowait(b"a")
    settling = asyncio.create_task(line.drain())
    await asyncio.sleep(0.01)
    settling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settling

    assert 0 == send.waiting
    assert [b"start"] == send.sent
