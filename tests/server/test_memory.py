"""What a reply took is given back when it is over, whatever ended it; counted in objects and bytes."""

import asyncio
import contextlib
import gc
import sys
import tracemalloc

import pytest

from fcshim.codecs.framing import Framing
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.errors import UpstreamError, release_frames
from fcshim.events import Event, Reasoning, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.parse.sink import CallSink
from fcshim.pipeline.exchange import Exchange
from fcshim.pipeline.response import BufferedResponse, StreamedResponse
from fcshim.server.client_connection import ClientConnection
from fcshim.server.memory_trim import MemoryTrimmer
from fcshim.server.merged_reply import MergedReply
from fcshim.server.protocol import ClientProtocol
from tests.mcp.server_programs import eventually
from tests.scripted import ROLE, text_chunk
from tests.server.proxy import CHAT, QuickServer, chat_body, post_request, raw_connection, running_proxy, send_raw
from tests.server.raw_upstream import hang, raw_upstream, reset, stream_then
from tests.server.test_api_pairs import IDENTITY

pytestmark = pytest.mark.security

HELD = (BufferedResponse, StreamedResponse, Exchange, ClientConnection)
BODIES = {
    CHAT: chat_body(),
    CHAT + "?plain": chat_body(tools=False),
    "/v1/responses": {"model": "m", "input": "Hi"},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
}


def held() -> list[str]:
    """Name what is left of what a request made: while the collector is off, it stays in its generation 0."""
    return [type(each).__name__ for each in gc.get_objects(generation=0) if isinstance(each, HELD)]


async def refuse(peer):
    await peer.chunk(b'data: {"error": {"message": "overloaded"}}\n\n')


@pytest.fixture
def no_collection():
    """Run without the collector of cycles, which comes late where little else is allocated."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("end", [hang, reset, refuse], ids=["the client leaves", "a broken reply", "an error event"])
async def test_an_abandoned_reply_is_freed_at_once(stream, path, end, no_collection):
    play = stream_then(ROLE, *[text_chunk("abc")] * 50, then=end)
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        request = post_request(url, {**BODIES[path], "stream": stream}, path, "Connection: close")
        if end is hang:
            async with raw_connection(url) as (_, writer):
                writer.write(request)
                await asyncio.wait_for(upstream.request_received.wait(), 20)
                await eventually(held)
            await asyncio.wait_for(upstream.client_left.wait(), 20)
        else:
            await send_raw(url, request)
        async with asyncio.timeout(20):
            while held():  # noqa: ASYNC110 - what the interpreter frees sets no event
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "event",
    [Text("a"), Text("\u4e00"), Text("\U0001f600" * 3), Reasoning("b"), ToolCallEnd("c", "f", "{}", 0)],
    ids=["letters", "Chinese", "emoji", "reasoning", "calls"],
)
@pytest.mark.parametrize("kind", ["whole", "with server tools"])
def test_a_reply_is_bounded_by_the_memory_that_it_takes(event, kind):
    limit = 1_000_000
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),))
    buffer = BufferedResponse(request, IDENTITY, OPENAI_CHAT, max_reply=limit)
    merged = MergedReply(["ours"], max_reply=limit)
    if isinstance(event, ToolCallEnd):
        merged.feed([(0, ToolCallStart("c", "f", 0))])
    tracemalloc.start()
    try:
        with pytest.raises(UpstreamError, match="longer than the limit"):
            feed_forever(buffer if kind == "whole" else merged, event)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert limit / 4 < size < limit * 2


def feed_forever(response: BufferedResponse | MergedReply, event: Event) -> None:
    while True:
        response.feed([(0, fresh(event))])


def fresh(event: Event) -> Event:
    """Make an equal event with strings of its own, as each chunk has."""
    match event:
        case Text():
            return Text("".join(list(event.text + " ")))
        case Reasoning():
            return Reasoning("".join(list(event.text + " ")))
        case ToolCallEnd():
            return ToolCallEnd("c", "f", "".join(list(event.tool_call_arguments_complete)), 0)
    raise AssertionError(event)


def test_chunks_of_calls_are_not_kept_beside_the_call():
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),))
    response = BufferedResponse(request, IDENTITY, OPENAI_CHAT)
    chunks = [(0, ToolCallChunk("c", text, 0)) for text in ('{"a', '":1}')]
    response.feed([(0, ToolCallStart("c", "f", 0)), *chunks, (0, ToolCallEnd("c", "f", '{"a":1}', 0))])

    assert b'"arguments":"{\\"a\\":1}"' in response.close()


def test_a_sink_has_no_table_of_names_of_its_own():
    """Every live stream has one; with a table it would take 1.3 KB more."""
    assert not hasattr(CallSink(None, "stream", str, 1), "__dict__")


def test_a_chain_of_errors_is_released_also_where_it_has_gaps():
    caught, middle, first = UpstreamError("c"), ValueError("b"), KeyError("a")
    caught.__context__, middle.__cause__, first.__context__ = middle, first, caught
    for each in (caught, first):
        with contextlib.suppress(type(each)):
            raise each
    release_frames(caught)

    assert [None] * 3 == [each.__traceback__ for each in (caught, middle, first)]


def test_memory_is_returned_in_four_passes_after_each_load():
    trims = []
    trimmer = MemoryTrimmer(lambda: trims.append(1))
    load = [(0, 0), (5, 5), (9, 0), (9, 1), *[(9, 0)] * 6, *[(12, 0)] * 8]
    counts = []
    for total, running in load:
        trimmer.check(total=total, running=running)
        counts.append(len(trims))

    assert [0, 0, 0, 0, 0, 1, 2, 3, 4, 4, 4, 4, 5, 6, 7, 8, 8, 8] == counts


async def test_memory_is_returned_after_abandoned_streams(monkeypatch):
    """uvicorn counts only those that came to their end."""

    async def tick(server):
        server.ready.set()
        while not server.exit_requested.is_set():
            await server.on_tick(0)
            await asyncio.sleep(0.01)

    trimmed = asyncio.Event()
    monkeypatch.setattr("fcshim.server.run.trim_memory", trimmed.set)
    monkeypatch.setattr(QuickServer, "main_loop", tick)
    play = stream_then(ROLE, text_chunk("abc"), then=hang)
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        async with raw_connection(url) as (_, writer):
            writer.write(post_request(url, chat_body(), CHAT))
            await asyncio.wait_for(upstream.request_received.wait(), 20)
        await asyncio.wait_for(trimmed.wait(), 20)


async def test_a_live_stream_keeps_no_body_that_was_sent():
    """A coding agent sends 200 KB with each turn, and a reply takes minutes."""
    size = 200_000
    function = {"name": "f", "description": "y" * size, "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    body = {**chat_body(messages=[{"role": "user", "content": "x" * size}]), "tools": tools}
    play = stream_then(ROLE, text_chunk("abc"), then=hang)
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (reader, writer),
    ):
        request = post_request(url, body, CHAT)
        tracemalloc.start()
        try:
            writer.write(request)
            await asyncio.wait_for(reader.readuntil(b"abc"), 20)
            kept = [trace.size for trace in tracemalloc.take_snapshot().traces if trace.size > size / 2]
        finally:
            tracemalloc.stop()

    # what the upstream got, the client's body, both texts as they came and as they were written, the key of the tools
    assert sum(kept) < 10 * size


async def test_a_connection_has_no_table_of_names_of_its_own():
    """uvicorn's 28 attributes and ours would be too many for a shared one: 1.3 KB more."""
    play = stream_then(ROLE, text_chunk("abc"), then=hang)
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (reader, writer),
    ):
        writer.write(post_request(url, chat_body(), CHAT))
        await asyncio.wait_for(reader.readuntil(b"abc"), 20)
        sizes = [sys.getsizeof(vars(each)) for each in gc.get_objects() if isinstance(each, ClientProtocol)]

    assert sizes
    assert max(sizes) < 1_000


def test_the_start_of_a_stream_is_kept_as_far_as_an_error_shows_it():
    framing = Framing()
    for _ in range(100):
        framing.feed(b"data: " + b"x" * 100 + b"\n\n")

    assert len(framing.excerpt()) == 300
    assert sys.getsizeof(framing._body) < 1_000
