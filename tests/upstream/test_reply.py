"""Limits on waiting, and reading a body directly from the transport."""

import asyncio
import contextlib

import pytest

from fcshim.errors import UpstreamError
from fcshim.upstream import Timeouts, Upstream
from fcshim.upstream.reply import Deadline
from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.raw_upstream import (
    SSE_HEAD,
    fixed_reply,
    half_close,
    hang,
    http_chunk,
    raw_reply,
    raw_upstream,
    reset,
    stream_chunks,
    stream_then,
)
from tests.virtual_time import in_virtual_time


async def waiting(deadline, seconds):
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        deadline.raise_if_expired()
        raise


@in_virtual_time
async def test_a_too_long_first_wait_is_an_error():
    deadline = Deadline(0.02)

    with pytest.raises(UpstreamError, match=r"sent nothing for 0\.02 s") as caught:
        await waiting(deadline, 5)
    assert (504, "timeout") == (caught.value.status, caught.value.kind)
    assert 0 == asyncio.current_task().cancelling()
    deadline.close()


@in_virtual_time
async def test_a_later_wait_has_the_latest_limit():
    deadline = Deadline(5)
    deadline.pause(0.02)
    deadline.resume()

    with pytest.raises(UpstreamError, match=r"0\.02 s"):
        await waiting(deadline, 5)
    deadline.close()


@in_virtual_time
async def test_short_waits_do_not_add_up():
    deadline = Deadline(0.1)
    for _ in range(8):
        deadline.pause(0.1)
        deadline.resume()
        await waiting(deadline, 0.03)
    deadline.close()


@in_virtual_time
async def test_time_between_the_waits_does_not_count():
    deadline = Deadline(0.05)
    deadline.pause(0.05)
    await asyncio.sleep(0.15)
    deadline.resume()
    await waiting(deadline, 0.01)
    deadline.close()


@in_virtual_time
async def test_a_cancellation_from_outside_stays_a_cancellation():
    deadline = Deadline(5)
    task = asyncio.current_task()
    asyncio.get_running_loop().call_later(0.02, task.cancel)

    with pytest.raises(asyncio.CancelledError):
        await waiting(deadline, 5)
    assert 1 == task.cancelling()
    task.uncancel()
    deadline.close()


@in_virtual_time
async def test_after_close_nothing_is_cancelled():
    deadline = Deadline(0.02)
    deadline.close()

    await asyncio.sleep(0.05)


PIECES = [ROLE, *(text_chunk(f"word {number} ") for number in range(50)), end_chunks()]


@contextlib.asynccontextmanager
async def replying(play, **timeouts):
    async with (
        raw_upstream(play) as server,
        Upstream(server.url, timeouts=Timeouts(**timeouts)) as upstream,
        upstream.send("GET", "/stream") as reply,
        asyncio.timeout(60),
    ):
        yield server, upstream, reply


class CountingSink:
    """A sink that wants no more for now after every `size` reads."""

    def __init__(self, size: int = 10**6) -> None:
        self.size = size
        self.stops = 0
        self.reads: list[bytes] = []

    def take(self, data: bytes) -> bool:
        self.reads.append(data)
        return len(self.reads) % self.size != 0

    @property
    def content(self) -> bytes:
        return b"".join(self.reads)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("play", "content"),
    [
        (stream_chunks(*PIECES), b"".join(PIECES)),
        (fixed_reply(200, b"x" * 1_000_000), b"x" * 1_000_000),
        (fixed_reply(200, b""), b""),
        (raw_reply(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"), b"until the end"),
    ],
    ids=["chunked", "whole", "empty", "to the end of the connection"],
)
async def test_a_body_is_complete_however_often_the_sink_pauses(play, content, size):
    bucket = CountingSink(size)
    async with replying(play) as (_, _, reply):
        while not await reply.read_into(bucket.take):
            bucket.stops += 1

    assert content == bucket.content
    assert len(bucket.reads) // size == bucket.stops


async def test_a_read_is_delivered_before_any_other_task_runs():
    order = []

    async def play(peer):
        await peer.send(SSE_HEAD + http_chunk(ROLE))
        await asyncio.sleep(0.05)
        await peer.chunk(text_chunk("a"))
        await peer.hang()

    def take(data):
        order.append((data, asyncio.current_task()))
        return b'"a"' not in data

    async with replying(play) as (_, _, reply):
        await reply.read_into(take)

    assert [ROLE, text_chunk("a")] == [data for data, _ in order]
    assert order[-1][1] is None


async def test_all_bytes_of_one_read_are_delivered_at_once():
    bucket = CountingSink()

    async def play(peer):
        await peer.send(SSE_HEAD + http_chunk(ROLE))
        await asyncio.sleep(0.05)
        await peer.chunk(text_chunk("a"), text_chunk("b"), text_chunk("c"))
        await peer.send(b"0\r\n\r\n")

    async with replying(play) as (_, _, reply):
        assert await reply.read_into(bucket.take)

    assert [ROLE, text_chunk("a") + text_chunk("b") + text_chunk("c")] == bucket.reads


async def test_a_paused_sink_pauses_the_upstream():
    sent = 0

    async def play(peer):
        nonlocal sent
        await peer.send(SSE_HEAD)
        while True:
            await peer.chunk(b"x" * 60_000)
            sent += 60_000

    async with replying(play) as (_, _, reply):
        assert not await reply.read_into(CountingSink(1).take)
        stalled = -1
        while stalled != sent < 32 * 2**20:
            stalled = sent
            await asyncio.sleep(0.3)

        assert sent < 32 * 2**20


async def test_the_connection_is_reused_after_the_end():
    ports = set()

    async def noting(peer):
        ports.add(peer._writer.get_extra_info("peername"))
        await stream_chunks(*PIECES)(peer)

    async with replying(noting) as (server, upstream, reply):
        await reply.read_into(CountingSink().take)
        for _ in range(2):
            async with upstream.send("GET", "/stream") as again:
                await again.read_into(CountingSink().take)

    assert 3 == len(server.requests)
    assert 1 == len(ports)


async def test_read_into_raises_what_the_sink_raises():
    def refuse(data):
        if data != ROLE:
            raise UpstreamError("no more")
        return True

    async with replying(stream_then(ROLE, text_chunk("a"), then=hang)) as (_, _, reply):
        with pytest.raises(UpstreamError, match="no more"):
            await reply.read_into(refuse)


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (raw_reply(b""), "broke off"),
        (half_close, "broke off"),
        (reset, "broke off"),
        (raw_reply(b"zz\r\n"), "framing is malformed"),
        (raw_reply(b"5\r\nhello, world\r\n"), "framing is malformed"),
    ],
    ids=["closed", "half-closed", "reset", "no size", "wrong size"],
)
async def test_a_body_that_breaks_off_raises_after_its_bytes_are_delivered(then, message):
    bucket = CountingSink()
    async with replying(stream_then(ROLE, text_chunk("a"), then=then)) as (_, _, reply):
        with pytest.raises(UpstreamError, match=message):
            await reply.read_into(bucket.take)

    assert bucket.content.startswith(ROLE + text_chunk("a"))


async def test_every_read_renews_the_limit_on_silence():
    async def play(peer):
        await peer.send(SSE_HEAD)
        for _ in range(6):
            await peer.chunk(text_chunk("a"))
            await asyncio.sleep(0.4)
        await peer.hang()

    bucket = CountingSink()
    async with replying(play, chunk=2.0) as (_, _, reply):
        with pytest.raises(UpstreamError, match=r"sent nothing for 2 s"):
            await reply.read_into(bucket.take)

    assert text_chunk("a") * 6 == bucket.content


async def test_cancelling_read_into_closes_the_connection():
    async with replying(stream_then(ROLE, then=hang)) as (server, upstream, _):
        async with upstream.send("GET", "/stream") as reply:
            pouring = asyncio.create_task(reply.read_into(CountingSink().take))
            await asyncio.sleep(0.05)
            pouring.cancel()
        await asyncio.wait_for(server.client_left.wait(), 60)
