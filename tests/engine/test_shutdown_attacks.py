"""Clients that hold up a shutdown: SIGTERM ends the process when its time to drain is over, whatever they do."""

import asyncio
import contextlib
import itertools
import signal
import socket
from urllib.parse import urlsplit

import pytest

from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.proxy import chat_body, post_request, raw_connection
from tests.server.raw_upstream import LAST_CHUNK, SSE_HEAD, raw_upstream
from tests.server.test_run import refused, serving

pytestmark = pytest.mark.security

DRAIN_SECONDS = "2"
GOOD, ENDLESS, LONG = "good", "endless", "long"
BLOCK = text_chunk("x" * 60_000)
LONG_BLOCKS = 200
"""12 MB: more than the buffers of the system and of the proxy hold."""


async def ask(url, text, writer, **fields):
    writer.write(post_request(url, chat_body(messages=[{"role": "user", "content": text}], **fields)))
    await writer.drain()


async def stall(url, stack, text, **fields):
    """Read the start of a reply, and nothing more of it."""
    client = socket.socket()
    client.setblocking(False)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    address = urlsplit(url)
    await asyncio.get_running_loop().sock_connect(client, (address.hostname, address.port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1)
    stack.push_async_callback(leave, writer)
    await ask(url, text, writer, **fields)
    if fields.get("stream", True):
        await reader.readexactly(1)
    writer.transport.pause_reading()
    return writer


async def leave(writer):
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def drip(writer, data):
    with contextlib.suppress(OSError):
        for byte in data:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.2)


async def stalls_an_endless_stream(url, stack):
    await stall(url, stack, ENDLESS)


async def stalls_a_relayed_stream(url, stack):
    await stall(url, stack, ENDLESS, tools=False)


async def stalls_a_stream_that_has_ended(url, stack):
    await stall(url, stack, LONG)


async def stalls_a_whole_reply(url, stack):
    await stall(url, stack, LONG, stream=False)


async def stalls_a_hundred_streams(url, stack):
    for _ in range(100):
        await stall(url, stack, ENDLESS)


async def stalls_and_closes_its_side(url, stack):
    (await stall(url, stack, ENDLESS)).write_eof()


async def stalls_behind_pipelined_requests(url, stack):
    writer = await stall(url, stack, ENDLESS)
    for _ in range(50):
        await ask(url, ENDLESS, writer)


async def reads_one_byte_at_a_time(url, stack):
    reader, writer = await stack.enter_async_context(raw_connection(url))
    await ask(url, ENDLESS, writer)

    async def read():
        with contextlib.suppress(OSError):
            while await reader.read(1):  # noqa: ASYNC110 - slowly
                await asyncio.sleep(0.01)

    stack.callback(asyncio.create_task(read()).cancel)


async def sends_no_request(url, stack):
    for _ in range(20):
        await stack.enter_async_context(raw_connection(url))


async def sends_a_head_byte_by_byte(url, stack):
    _, writer = await stack.enter_async_context(raw_connection(url))
    stack.callback(asyncio.create_task(drip(writer, b"POST /v1/chat/completions HTTP/1.1\r\n" * 9)).cancel)


async def sends_a_body_byte_by_byte(url, stack):
    _, writer = await stack.enter_async_context(raw_connection(url))
    request = post_request(url, chat_body())
    writer.write(request[:-20])
    stack.callback(asyncio.create_task(drip(writer, request[-20:-1])).cancel)


async def keeps_sending_requests_on_one_connection(url, stack):
    reader, writer = await stack.enter_async_context(raw_connection(url))

    async def send():
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                await ask(url, GOOD, writer)
                await reader.readuntil(LAST_CHUNK)

    stack.callback(asyncio.create_task(send()).cancel)


ATTACKS = [
    stalls_an_endless_stream,
    stalls_a_relayed_stream,
    stalls_a_stream_that_has_ended,
    stalls_a_whole_reply,
    stalls_a_hundred_streams,
    stalls_and_closes_its_side,
    stalls_behind_pipelined_requests,
    reads_one_byte_at_a_time,
    sends_no_request,
    sends_a_head_byte_by_byte,
    sends_a_body_byte_by_byte,
    keeps_sending_requests_on_one_connection,
]


@contextlib.asynccontextmanager
async def upstream_by_text(go_on):
    """Answer by the text of the request; the good reply waits for `go_on`."""
    served = []

    async def respond(peer):
        text = served[0].requests[-1].json_body["messages"][-1]["content"]
        await peer.send(SSE_HEAD)
        await peer.chunk(ROLE, text_chunk("Once"))
        if text == GOOD:
            await go_on.wait()
        else:
            for _ in range(LONG_BLOCKS) if text == LONG else itertools.count():
                await peer.chunk(BLOCK)
        await peer.chunk(text_chunk(" upon"), end_chunks())
        await peer.send(LAST_CHUNK)

    async with raw_upstream(respond, lists_models=False) as upstream:
        served.append(upstream)
        yield upstream


@pytest.mark.parametrize(
    ("attack", "signals"), [*((attack, 1) for attack in ATTACKS), *((attack, 2) for attack in ATTACKS[1:4])]
)
async def test_no_client_holds_up_a_shutdown_and_others_get_their_replies(attack, signals):
    go_on = asyncio.Event()
    async with (
        upstream_by_text(go_on) as upstream,
        serving(upstream.url, "--drain-timeout", DRAIN_SECONDS if signals == 1 else "600") as (process, url),
        contextlib.AsyncExitStack() as stack,
    ):
        reader, writer = await stack.enter_async_context(raw_connection(url))
        await ask(url, GOOD, writer)
        await reader.readuntil(b'"Once"')
        await attack(url, stack)
        process.send_signal(signal.SIGTERM)
        await refused(url)
        go_on.set()
        rest = await asyncio.wait_for(reader.read(), 60)
        if signals == 2:
            process.send_signal(signal.SIGTERM)
        log = await asyncio.wait_for(process.stderr.read(), 60)
        code = await asyncio.wait_for(process.wait(), 60)

    assert b"data: [DONE]\n\n" in rest
    assert rest.endswith(LAST_CHUNK)
    assert 0 == code
    assert b"Traceback" not in log, log.decode()
