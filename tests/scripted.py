"""A scripted upstream on loopback: it answers with the bytes that a test gives it, in the form of llama-server's."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

HANG = object()
"""In a script: send nothing more until the client has disconnected."""
CUT = object()
"""In a script: drop the connection in the middle of the body."""


@dataclass(frozen=True)
class ReceivedRequest:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict


@dataclass(frozen=True)
class Script:
    """One response: its status, and its body in the pieces in which it is sent."""

    pieces: tuple
    status: int = 200
    content_type: str = "text/event-stream"


MODEL_QUESTIONS = frozenset({"/api/show", "/apply-template"})
"""Paths to which fcshim posts a question about a model."""
MISSING = Script((b"<html><body>404 page not found</body></html>",), 404)


@dataclass
class ScriptedUpstream:
    """The address, the recorded requests, and events for a hanging response and a client that disconnected."""

    url: str = ""
    requests: list[ReceivedRequest] = field(default_factory=list)
    page_paths: list[str] = field(default_factory=list)
    """The paths of the pages that were requested."""
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    client_left: asyncio.Event = field(default_factory=asyncio.Event)


@contextlib.asynccontextmanager
async def scripted_upstream(
    *scripts: Script,
    listing: Script | None = None,
    pages: Mapping[str, Script] | None = None,
    respond: Callable[[ReceivedRequest], Script] | None = None,
) -> AsyncIterator[ScriptedUpstream]:
    """Serve the scripts in order, one per request, or what `respond` says; a request after the last script gets 404.

    `listing` answers every GET, and questions about a model get 404; neither is recorded. `pages` answer GETs and
    questions about a model by path, other paths get 404; only the paths are recorded.
    """
    upstream = ScriptedUpstream()
    waiting = iter(scripts)
    handlers: set[asyncio.Task] = set()

    async def handle(reader, writer):
        handlers.add(asyncio.current_task())
        try:
            while asked := await _read_request(reader):
                if listing is not None and (asked.method == "GET" or asked.path in MODEL_QUESTIONS):
                    await _play(listing if asked.method == "GET" else MISSING, reader, writer, upstream)
                    continue
                if pages is not None and (asked.method == "GET" or asked.path in MODEL_QUESTIONS):
                    upstream.page_paths.append(asked.path)
                    await _play(pages.get(asked.path, MISSING), reader, writer, upstream)
                    continue
                upstream.requests.append(asked)
                await _play(respond(asked) if respond else next(waiting, MISSING), reader, writer, upstream)
        except asyncio.CancelledError:  # asyncio logs a traceback for a handler that ends so
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield upstream
    finally:
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


async def _read_request(reader):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, path, _ = first.split(" ")
    return ReceivedRequest(method, path, headers, json.loads(body) if body else {})


async def _play(script, reader, writer, upstream):
    fields = f"Content-Type: {script.content_type}\r\nTransfer-Encoding: chunked"
    writer.write(f"HTTP/1.1 {script.status} -\r\n{fields}\r\n\r\n".encode())
    for piece in script.pieces:
        if piece is CUT:
            writer.transport.abort()
            return
        if piece is HANG:
            upstream.hanging.set()
            await reader.read()
            upstream.client_left.set()
            return
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
        await asyncio.sleep(0)
    writer.write(b"0\r\n\r\n")


def event(**fields) -> bytes:
    """Write one SSE event of the Chat API."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def text_chunk(text: str) -> bytes:
    """Write a chunk with text."""
    return event(choices=[{"index": 0, "delta": {"content": text}}])


def end_chunks(reason: str = "stop") -> bytes:
    """Write the last chunks: the finish reason, the usage, the end of the stream."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    finish = event(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
    return finish + event(choices=[], usage=usage) + b"data: [DONE]\n\n"


ROLE = event(choices=[{"index": 0, "delta": {"role": "assistant", "content": None}}])


def text_reply(*texts: str, reason: str = "stop") -> Script:
    """Make the script of a reply with these texts, one chunk each."""
    return Script((ROLE, *map(text_chunk, texts), end_chunks(reason)))


def model_list(*names: str) -> Script:
    """Make the script of a list of models."""
    return Script((json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode(),))


@contextlib.asynccontextmanager
async def llama_server_with_tools(*replies: Script) -> AsyncIterator[ScriptedUpstream]:
    """Serve the replies as a llama-server whose model `m` has a template that writes tools, in no known dialect."""
    pages = {
        "/v1/models": Script((b'{"data":[{"id":"m","owned_by":"llamacpp"}]}',)),
        "/props?model=m": Script((b'{"default_generation_settings":{},"chat_template":"{% if tools %}"}',)),
    }
    async with scripted_upstream(*replies, pages=pages) as upstream:
        yield upstream
