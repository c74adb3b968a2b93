"""The HTTP client under the SDK's transports: a failure fails one request, and every body has a size limit.

Rule: a request that was never sent is distinguished from one that the server may have executed. Compressed bodies are
refused: a small one can decompress to gigabytes (CVE-2026-84382).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextvars import ContextVar

import httpx2
from mcp.types import INTERNAL_ERROR

from fcshim.codecs.value_counter import ValueCounter
from fcshim.events import JSON
from fcshim.mcp.flood_limits import RateLimit
from fcshim.mcp.line_splitter import DEFAULT_LINE_LIMIT, TOO_MANY_VALUES

UNREACHABLE = "fcshim: unreachable"
"""The data of errors that are made here, not by the server."""
_TIMEOUT = httpx2.Timeout(30.0, read=None)
"""Seconds to connect and write. Reading has no limit: a call has its own timeout, and a stream may be silent."""
_SESSION_HEADER = "mcp-session-id"
UNCOMPRESSED = ("", "identity")
_LINE_RATE = (200_000, 5_000)
"""Lines of an event stream that are read at once, then each second: an endless row of comments takes the SDK's time."""
_PIECE_SIZE = 4_096
_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r")
"""The ends of an event."""
_MAX_BLANK_LINE = 3


class SendStatus:
    """How far one request has got; `started` is true once its first byte may have been sent."""

    def __init__(self) -> None:
        self.started = False

    async def trace(self, event: str, _: JSON) -> None:
        """Handle a trace event of the HTTP library."""
        self.started = self.started or event.endswith("send_request_headers.started")


_CURRENT_SEND: ContextVar[SendStatus | None] = ContextVar("sending", default=None)
"""The SDK posts a request in the context of its call; this variable connects the two."""


@contextlib.contextmanager
def track_send() -> Iterator[SendStatus]:
    """Track the request that is sent in the block."""
    status = SendStatus()
    token = _CURRENT_SEND.set(status)
    try:
        yield status
    finally:
        _CURRENT_SEND.reset(token)


class PostOutcomes:
    """The answers of a server to POST requests: whether it took any, and the status of the last that it refused."""

    def __init__(self) -> None:
        self.accepted = False
        self.refused_with = 0

    def add(self, status: int) -> None:
        """Note one status."""
        self.accepted = self.accepted or status < 400
        self.refused_with = status if status >= 400 else self.refused_with


class McpHttpClient(httpx2.AsyncClient):
    """Turns a broken connection into an error response, where the SDK would end the whole session.

    `on_session_lost` is called when the server no longer knows our session.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        auth: httpx2.Auth | None,
        on_session_lost: Callable[[], None],
        outcomes: PostOutcomes,
    ) -> None:
        plain = {"Accept-Encoding": "identity"}
        super().__init__(headers=plain | dict(headers), auth=auth, timeout=_TIMEOUT)
        self._on_session_lost = on_session_lost
        self._outcomes = outcomes

    async def send(self, request: httpx2.Request, **options: JSON) -> httpx2.Response:
        """Send a request; a POST always gets a response."""
        status = _CURRENT_SEND.get()
        if status is not None:
            request.extensions["trace"] = status.trace
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            return _error_response(request, f"the server cannot be reached: {error}", data=UNREACHABLE)
        if request.method == "POST":
            self._outcomes.add(response.status_code)
        if response.headers.get("content-encoding", "").lower() not in UNCOMPRESSED:
            await response.aclose()
            return _error_response(request, "the answer is packed, which was not asked for")
        if response.status_code == 404 and _SESSION_HEADER in request.headers:
            self._on_session_lost()  # reconnect; hosts that ignore this 404 stay disconnected (claude-code #94273)
        if not response.is_stream_consumed:
            limited = _LimitedEventStream if _is_event_stream(response) else SizeLimitedStream
            response.stream = limited(response.stream)
        return response


class SizeLimitedStream(httpx2.AsyncByteStream):
    """A body that raises an error at the size limit."""

    def __init__(self, stream: httpx2.AsyncByteStream | httpx2.SyncByteStream, limit: int = DEFAULT_LINE_LIMIT) -> None:
        assert isinstance(stream, httpx2.AsyncByteStream)
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        values = ValueCounter()
        async for data in self._stream:
            size += len(data)
            if size > self._limit:
                raise httpx2.StreamError(f"the answer is longer than {self._limit} bytes")
            if values.feed(data):
                raise httpx2.StreamError(f"the answer is {TOO_MANY_VALUES}")
            yield data

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class _LimitedEventStream(SizeLimitedStream):
    """An event stream, which may last for days: what is limited is the values of each event, and the lines in a time.

    The SDK limits the bytes of an event.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines, values, before = RateLimit(*_LINE_RATE), ValueCounter(), b""
        async for data in self._stream:
            for piece in _pieces(data):
                await asyncio.sleep(lines.delay(piece.count(b"\n"), asyncio.get_running_loop().time()))
                end = max((before + piece).rfind(blank) + len(blank) for blank in _BLANK_LINES) - len(before)
                if end > 0:
                    values = ValueCounter()
                if values.feed(piece[max(end, 0) :]):
                    raise httpx2.StreamError(f"the answer is {TOO_MANY_VALUES}")
                before = piece[-_MAX_BLANK_LINE + 1 :]
                yield piece


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield the lines of some kilobytes at a time, so that other tasks run between them."""
    for start in range(0, len(data), _PIECE_SIZE):
        yield data[start : start + _PIECE_SIZE]


def _is_event_stream(response: httpx2.Response) -> bool:
    return bool(response.headers.get("content-type", "").lower().startswith("text/event-stream"))


def _error_response(request: httpx2.Request, message: str, *, data: str | None = None) -> httpx2.Response:
    """Return a response that fails one request."""
    error = {"code": INTERNAL_ERROR, "message": message, "data": data}
    return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error}, request=request)
