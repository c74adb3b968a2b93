"""A loopback upstream that sends raw bytes, hangs or breaks as the test specifies, and detects a disconnect.

Rule: HTTP is neither checked nor corrected; the bytes of a handler go over the wire unchanged.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from tests.scripted import ROLE, end_chunks, text_chunk

SSE_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
NO_MODELS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class RawRequest:
    """One request, byte for byte."""

    head: bytes
    body: bytes

    @property
    def request_line(self) -> str:
        return self.head.partition(b"\r\n")[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode().strip().split("\r\n")[1:]
        return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}

    @property
    def json_body(self) -> dict:
        return json.loads(self.body)


class Peer:
    """The client of the upstream, for one handler."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def chunk(self, *pieces: bytes) -> None:
        """Send each piece as one HTTP chunk, in one write."""
        await self.send(b"".join(map(http_chunk, pieces)))

    async def hang(self) -> None:
        """Send nothing more until the peer has disconnected."""
        with contextlib.suppress(ConnectionError):
            await self._reader.read()

    def reset(self) -> None:
        """Close the connection with a RST instead of a FIN."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def half_close(self) -> None:
        self._writer.write_eof()


Handler = Callable[[Peer], Awaitable[None]]


@dataclass
class RawUpstream:
    """What the test can observe: the URL, the requests, the first request and the first disconnect."""

    url: str = ""
    requests: list[RawRequest] = field(default_factory=list)
    request_received: asyncio.Event = field(default_factory=asyncio.Event)
    client_left: asyncio.Event = field(default_factory=asyncio.Event)


@contextlib.asynccontextmanager
async def raw_upstream(*handlers: Handler | bytes, lists_models: bool = True) -> AsyncIterator[RawUpstream]:
    """Run one handler per request, the last one repeatedly. Bytes are sent, and the connection is closed.

    Unless it `lists_models`, a request for its models gets 404 and is not recorded: fcshim in a process of its own
    asks for them.
    """
    upstream = RawUpstream()
    waiting = list(handlers)
    tasks: set[asyncio.Task] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            while (heard := await _read(reader)) is not None:
                if not lists_models and heard.request_line.startswith("GET /v1/models "):
                    writer.write(NO_MODELS)
                    continue
                upstream.requests.append(heard)
                upstream.request_received.set()
                play = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                if isinstance(play, bytes):
                    writer.write(play)
                    return
                await play(Peer(reader, writer))
        except ConnectionError:
            pass
        finally:
            upstream.client_left.set()
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield upstream
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> RawRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    heard = RawRequest(head, b"")
    return RawRequest(head, await reader.readexactly(int(heard.headers.get("content-length", 0))))


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream_chunks(*pieces: bytes, close: bool = False) -> Handler:
    """Respond with an event stream, one HTTP chunk and one write per piece."""

    async def play(peer: Peer) -> None:
        await peer.send(SSE_HEAD)
        for piece in pieces:
            await peer.chunk(piece)
            await asyncio.sleep(0)
        await peer.send(LAST_CHUNK)
        if close:
            peer.half_close()

    return play


def stream_texts(*texts: str, reason: str = "stop") -> Handler:
    return stream_chunks(ROLE, *map(text_chunk, texts), end_chunks(reason))


def fixed_reply(status: int, body: bytes, *headers: str, kind: str = "application/json") -> Handler:
    """Respond with a body of known length."""
    lines = [f"HTTP/1.1 {status} -", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]

    async def play(peer: Peer) -> None:
        await peer.send("\r\n".join([*lines, "", ""]).encode() + body)

    return play


def paused_stream(go_on: asyncio.Event) -> Handler:
    """Stream "Once", and " upon" and the end when `go_on` is set."""

    async def play(peer: Peer) -> None:
        await peer.send(SSE_HEAD)
        await peer.chunk(ROLE, text_chunk("Once"))
        await go_on.wait()
        await peer.chunk(text_chunk(" upon"), end_chunks())
        await peer.send(LAST_CHUNK)

    return play


def stream_then(*pieces: bytes, then: Handler) -> Handler:
    """Start an event stream with these pieces, and continue with `then`."""

    async def play(peer: Peer) -> None:
        await peer.send(SSE_HEAD)
        for piece in pieces:
            await peer.chunk(piece)
        await asyncio.sleep(0.02)  # otherwise one read could get this together with what follows, and lose it
        await then(peer)

    return play


async def hang(peer: Peer) -> None:
    await peer.hang()


async def reset(peer: Peer) -> None:
    peer.reset()


async def half_close(peer: Peer) -> None:
    peer.half_close()
    await peer.hang()


def raw_reply(data: bytes) -> Handler:
    """Send these bytes and close the connection."""

    async def play(peer: Peer) -> None:
        await peer.send(data)
        peer.half_close()

    return play
