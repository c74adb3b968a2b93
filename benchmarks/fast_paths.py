"""What each way past the events gains: the CPU time of a stream with it and without it.

Rule: CPU time of this process for 20,000 chunks, best of interleaved rounds; the table is that of ARCHITECTURE.md.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from unittest.mock import patch

from benchmarks.report import Report, arguments
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_chat.decoder import ChunkPatternFinder
from fcshim.codecs.openai_chat.encoder import ChoiceWriter
from fcshim.events import Event, Text
from fcshim.messages import Request, TextPart, Tool, UserMessage
from fcshim.parse.machine.calls import CallStates
from fcshim.parse.machine.text import TextStates
from fcshim.pipeline.attempt import Batch
from fcshim.pipeline.exchange import DEFAULT_MAX_RETRIES, Exchange
from fcshim.pipeline.response import response_for
from fcshim.pipeline.shim import prepare_shim
from fcshim.pipeline.shim_stream import ShimStream
from fcshim.upstream import Upstream
from fcshim.upstream.reply import UpstreamReply
from tests.server.raw_upstream import LAST_CHUNK, SSE_HEAD, Peer, raw_upstream

CHUNKS, QUICK_CHUNKS = 20_000, 2_000
ROUNDS, QUICK_ROUNDS = 5, 2
WORDS = ("The", " weather", " in", " Paris", " is", " fine,", " 21", " degrees.", "\n")
"""Chunks of a reply in text."""
CALL = ("<function_call>\n", '{"name": "write", "arguments": {"text": "')
FRAGMENTS = ("def ", "f(a", "):", "\\n", "    re", "turn ", "a + 1", "\\n")
"""Chunks of the arguments of a call."""


def _chunk(text: str) -> bytes:
    delta = {"role": "assistant", "content": text}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    fields = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def _stream(before: tuple[str, ...], repeated: tuple[str, ...], count: int) -> list[bytes]:
    return [*map(_chunk, before), *(_chunk(repeated[at % len(repeated)]) for at in range(count))]


def _read(stream: list[bytes]) -> None:
    """Pass the bytes of a stream through decoder, shim and encoder."""
    tool = Tool("write", "Write a text.", {"type": "object", "properties": {"text": {"type": "string"}}})
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(tool,), stream=True)
    exchange = Exchange(max_retries=DEFAULT_MAX_RETRIES)
    exchange.begin(prepare_shim(request), OPENAI_CHAT)
    response = response_for(request, ReplyIdentity(id="r", created=1, model="m"), OPENAI_CHAT)
    for data in stream:
        response.feed(exchange.feed(data))


async def _receive(stream: list[bytes]) -> float:
    """Return the CPU time of reading a streamed reply from a socket, that of sending it in this process included."""

    async def send(peer: Peer) -> None:
        await peer.send(SSE_HEAD)
        for data in stream:
            await peer.chunk(data)
            await asyncio.sleep(0)  # so that each is a read of its own
        await peer.send(LAST_CHUNK)

    async with raw_upstream(send) as server, Upstream(server.url) as upstream:
        began = time.process_time()
        async with upstream.send("POST", "/chat/completions", content=b"{}") as reply:
            while not await reply.read_into(lambda _: True):
                pass
        return time.process_time() - began


async def _plain_read_into(self: UpstreamReply, sink: Callable[[bytes], bool]) -> bool:
    async for data in self:
        if not sink(data):
            return False
    return True


def _feed_events(self: Exchange, data: bytes) -> Batch:
    return self._read(self.attempt.feed(self.attempt.decoder.feed(data)))


def _feed_text(self: ShimStream, text: str) -> list[Event]:
    return self._transform(self._parser.feed(text))


def _write_delta(self: ChoiceWriter, event: Event) -> bytes | None:
    if self.stopped or type(event) is not Text:
        return None
    out: list[bytes] = []
    self._write_delta({"content": event.text}, out)
    return b"".join(out)


PATHS: dict[str, tuple[str, type, str, Callable[..., object]]] = {
    "`ChunkPatternFinder`": ("text", ChunkPatternFinder, "find", lambda *_: None),
    "`Exchange.feed` for one text": ("text", Exchange, "feed", _feed_events),
    "`ShimStream.feed_text`": ("text", ShimStream, "feed_text", _feed_text),
    "`find_plain_end`": ("text", TextStates, "find_plain_end", lambda *_: -1),
    "`try_write_chunk`": ("text", ChoiceWriter, "try_write_chunk", _write_delta),
    "`direct_reader`": ("arguments", CallStates, "direct_reader", lambda _: None),
    "`DirectReader`": ("socket", UpstreamReply, "read_into", _plain_read_into),
}
"""Each path, the stream that it is for, and what takes its place."""


def _seconds(kind: str, count: int) -> float:
    """Return the CPU time of a stream."""
    if kind == "socket":
        return asyncio.run(_receive(_stream((), WORDS, count)))
    stream = _stream((), WORDS, count) if kind == "text" else _stream(CALL, FRAGMENTS, count)
    began = time.process_time()
    _read(stream)
    return time.process_time() - began


def main() -> int:
    """Measure and report."""
    options = arguments("Measure each way past the events.").parse_args()
    count, rounds = (QUICK_CHUNKS, QUICK_ROUNDS) if options.quick else (CHUNKS, ROUNDS)
    report = Report("fast paths")
    rows: list[list[str | int | float]] = []
    for name, (kind, owner, function, other) in PATHS.items():
        with_it, without = [], []
        for _ in range(rounds):
            with_it.append(_seconds(kind, count))
            with patch.object(owner, function, other):
                without.append(_seconds(kind, count))
        fast, slow = (1e6 * min(times) / count for times in (with_it, without))
        rows.append([name, kind, f"{fast:.1f}", f"{slow:.1f}", f"{100 * (slow - fast) / slow:.0f} %"])
    report.table(
        f"microseconds of a chunk ({count} chunks, CPU time of the whole way)",
        ["path", "stream", "with it", "without it", "saved"],
        rows,
    )
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
