"""A client that leaves, lingers or asks too much, as the upstream sees it."""

import asyncio
import socket

import pytest

from fcshim.server.line import Line
from tests.scripted import ROLE, said
from tests.server.front import CALL, CHAT, asking, connected, events, exchange, fronting, http, posted
from tests.server.raw import SSE, begun, hang, raw_upstream, saying


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "play",
    [hang, begun(then=hang), begun(ROLE, said("Once upon"), then=hang), begun(ROLE, said(CALL[:60]), then=hang)],
    ids=["before the status", "before the first token", "in the text", "in a call"],
)
@pytest.mark.parametrize("half", [False, True], ids=["close", "half-close"])
async def test_a_client_that_leaves_ends_the_upstreams_work(play, stream, tools, half):
    async with raw_upstream(play) as upstream, fronting(upstream.url) as url, connected(url) as (_, writer):
        writer.write(posted(url, asking(stream=stream, tools=tools)))
        await upstream.asked.wait()
        await asyncio.sleep(0.05)

        assert not upstream.gone.is_set()
        if half:
            writer.write_eof()
        else:
            writer.close()
        await asyncio.wait_for(upstream.gone.wait(), 10)


async def test_a_client_that_leaves_while_it_sends_is_no_request():
    async with raw_upstream(saying("ok")) as upstream, fronting(upstream.url) as url:
        async with connected(url) as (_, writer):
            writer.write(posted(url, asking())[:-10])
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)
        async with http(url) as client:
            assert 200 == (await client.get("/health")).status_code

    assert not upstream.heard


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_a_slow_reader_stops_the_upstream_and_fills_no_memory(tools):
    sent = 0

    async def pouring(peer):
        nonlocal sent
        await peer.send(SSE)
        while True:
            await peer.chunk(said("x" * 60_000))
            sent += 60_000

    async with raw_upstream(pouring) as upstream, fronting(upstream.url) as url, connected(url) as (reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        writer.transport.pause_reading()
        writer.write(posted(url, asking(tools=tools)))
        stalled = await still(lambda: sent)
        writer.transport.resume_reading()
        for _ in range(200):
            await reader.readexactly(60_000)
        await asyncio.sleep(0)

        assert 0 < stalled < 32 * 2**20
        assert sent > stalled


async def still(value):
    """Wait until a value has not changed for a while, and give it."""
    seen = []
    while len(seen) < 2 or seen[-1] != seen[-2] or not seen[-1]:
        await asyncio.sleep(0.3)
        seen.append(value())
    return seen[-1]


async def test_a_body_that_is_too_large_is_refused_declared_or_not():
    body = asking(padding="x" * 5000)
    async with raw_upstream(saying("ok")) as upstream, fronting(upstream.url, max_body=2000) as url:
        declared = await exchange(url, posted(url, body))
        head = posted(url, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        undeclared = await exchange(url, head + b"1388\r\n" + b"x" * 5000 + b"\r\n")

    assert declared.startswith(b"HTTP/1.1 413 ")
    assert undeclared.startswith(b"HTTP/1.1 413 ")
    assert b"larger than 2000 bytes" in declared
    assert not upstream.heard


async def test_a_client_that_still_sends_its_large_body_gets_to_read_why_it_is_refused():
    async with fronting("http://127.0.0.1:9", max_body=2000) as url, http(url) as client:
        answers = [await client.post(CHAT, json=asking(padding="x" * 10_000_000)) for _ in range(3)]

    assert [413] * 3 == [answer.status_code for answer in answers]


async def test_requests_on_one_connection_are_served_one_after_the_other():
    async with raw_upstream(saying("ok")) as upstream, fronting(upstream.url) as url:
        last = posted(url, asking(), CHAT, "Connection: close")
        answers = await exchange(url, posted(url, asking()) + last)

    assert 2 == answers.count(b"data: [DONE]") == len(upstream.heard)


async def test_a_head_request_gets_no_body():
    async with fronting("http://127.0.0.1:9") as url:
        answer = await exchange(url, b"HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n")


async def test_bytes_that_are_not_http_leave_the_server_alive():
    async with raw_upstream(saying("ok")) as upstream, fronting(upstream.url) as url:
        for junk in (b"\x16\x03\x01\x02\x00\x01", b"\r\n\r\n\r\nGET", b"\xff" * 1000 + b"\r\n\r\n"):
            async with connected(url) as (_, writer):
                writer.write(junk)
                await asyncio.sleep(0.01)
        async with http(url) as client:
            response = await client.post(CHAT, json=asking())

    assert "DONE" == events(response)[-1]


class Sending:
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


def a_line(send):
    return Line({"method": "POST", "path": CHAT, "headers": []}, None, send)


async def test_what_is_pushed_is_sent_at_once_while_the_client_reads():
    send = Sending()
    line = a_line(send)
    begun = line.push(b"a")
    await line.settle()
    pushed = [line.push(each) for each in (b"b", b"", b"c")]

    assert not begun  # the status has to be sent first
    assert [True] * 3 == pushed
    assert [b"start", b"a", b"b", b"c"] == send.sent


async def test_a_push_that_has_to_wait_goes_on_where_it_is_settled():
    send = Sending()
    line = a_line(send)
    await line.start()
    send.gate.clear()
    pushed = line.push(b"a")
    settling = asyncio.create_task(line.settle())
    await asyncio.sleep(0.01)
    before = list(send.sent)
    send.gate.set()
    await settling
    await line.end(b"b")

    assert not pushed
    assert [b"start"] == before
    assert [b"start", b"a", b"b"] == send.sent


async def test_the_end_comes_after_what_was_pushed():
    send = Sending()
    line = a_line(send)
    line.push(b"a")
    await line.end(b"b")

    assert [b"start", b"a", b"b"] == send.sent


async def test_a_push_that_is_given_up_is_no_more_under_way():
    send = Sending()
    line = a_line(send)
    await line.start()
    send.gate.clear()
    line.push(b"a")
    settling = asyncio.create_task(line.settle())
    await asyncio.sleep(0.01)
    settling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await settling

    assert 0 == send.waiting
    assert [b"start"] == send.sent
