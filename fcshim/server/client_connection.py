"""One request from a client, its path, and its response, on top of ASGI.

Rule: plain ASGI, without a framework or middleware. When the client disconnects, the task that serves it is cancelled
at once, and with it the upstream request. The path is normalised once, before anything is decided by it: what is
decided and what is relayed come from the same segments, each decoded once. A path that another server could read in two
ways is rejected: dot segments, however they are encoded, backslashes and control characters.
"""

import asyncio
import contextlib
import functools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, MutableMapping, Sequence
from typing import TypeAlias
from urllib.parse import quote, unquote, unquote_to_bytes

import msgspec

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.server.observation import RequestObservers

_SEGMENT_CHARACTERS = "~!$&'*+,=:@()"
"""Characters that stand for themselves in a segment (RFC 3986, 3.3); `;` starts parameters in some servers."""
_MAX_ENCODINGS = 3
"""Layers of percent-encoding that are looked through: gateways in front of an upstream may decode once more."""
_FORBIDDEN = re.compile(r"[\\\x00-\x1f\x7f]")
_SEGMENT_ENDS = re.compile("[;?#]")
_EXPECTED = "expected segments without '.', '..', backslashes and control characters"


class RequestPath(msgspec.Struct, frozen=True):
    """Decisions are made by `decoded`; `encoded` is the same path for the upstream.

    `problem`: why no request may have this path; empty if it may.
    """

    decoded: str
    encoded: str
    problem: str = ""


@functools.lru_cache(maxsize=32)  # a server has few paths, and a client may send long ones
def normalize_path(raw: bytes) -> RequestPath:
    """Normalise a path: no empty segments, one way of percent-encoding."""
    text = raw.decode("latin-1")
    segments = [segment for segment in text.split("/") if segment]
    if not text.startswith("/"):
        return RequestPath(text, quote(text), "expected a path that starts with '/'")
    if any(map(_is_ambiguous, segments)):
        return RequestPath(quote(text), quote(text), _EXPECTED)
    if segments and "/" in unquote(segments[0]):
        # Otherwise `/v1%2Fx` would be below /v1 for us, and beside it for the upstream.
        return RequestPath(text, text, "expected no encoded slash before the API's version")
    tail = "/" if segments and text.endswith("/") else ""
    decoded = [unquote(segment) for segment in segments]
    encoded = [quote(unquote_to_bytes(segment), safe=_SEGMENT_CHARACTERS) for segment in segments]
    return RequestPath("/" + "/".join(decoded) + tail, "/" + "/".join(encoded) + tail)


def _is_ambiguous(segment: str) -> bool:
    """Return whether a segment could be read as something else than a name, after up to `_MAX_ENCODINGS` decodings."""
    for _ in range(_MAX_ENCODINGS):
        if _FORBIDDEN.search(segment) or not all(map(_is_name, segment.split("/"))):
            return True
        segment = unquote(segment)
    return False


def _is_name(part: str) -> bool:
    """Return whether a part between slashes is a name.

    `..;x` is a dot segment with parameters (Tomcat, Spring), `..?` and `..#` are one before a query or a fragment.
    """
    return _SEGMENT_ENDS.split(part, maxsplit=1)[0].strip() not in {"", ".", ".."}


Scope: TypeAlias = MutableMapping[str, JSON]
Message: TypeAlias = MutableMapping[str, JSON]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

_MAX_BODY_WAIT = 1.0
"""Seconds for which the rest of a rejected request's body is read."""


def _path_below_root(scope: Scope) -> bytes:
    """Return the path without the one below which another server has mounted us (`root_path`), which ASGI includes."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    root: str = scope.get("root_path", "").rstrip("/")
    if not root:
        return raw
    segments, count = raw.split(b"/"), root.count("/") + 1
    above, below = b"/".join(segments[:count]), b"/".join(segments[count:])
    return b"/" + below if unquote_to_bytes(above) == root.encode() else raw


class ClientGone(Exception):  # noqa: N818 - not an error
    """The client has disconnected; no response can be delivered."""


class PingSchedule:
    """When to write a ping into a silent stream.

    Intervals are in seconds, 0 for no pings: `first_interval` until the response has started, `interval` after that.
    """

    __slots__ = ("first_interval", "interval", "make_ping")

    def __init__(self, make_ping: Callable[[], bytes], *, first_interval: float, interval: float) -> None:
        self.make_ping = make_ping
        self.first_interval = first_interval or float("inf")
        self.interval = interval or float("inf")


class _SuspendedSend:
    """The rest of an ASGI `send` whose first step ran outside of `await`.

    `first_yield` is the future that this step yielded, which the task must wait for first.
    """

    def __init__(self, steps: Generator[JSON, None, None], first_yield: JSON) -> None:
        self._steps = steps
        self._first_yield = first_yield

    def __await__(self) -> Generator[JSON, None, None]:
        with contextlib.closing(self._steps):
            yield self._first_yield
            yield from self._steps


class ClientConnection:
    """One request and its response. Read the body first, then serve the request inside `watch_disconnect`."""

    fallback_statuses: frozenset[int] = frozenset()
    """Statuses of the upstream that are not relayed, because another upstream can serve the request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, body_timeout: float = 60.0) -> None:
        self.method: str = scope["method"]
        target = normalize_path(_path_below_root(scope))
        self.path = target.decoded
        self.encoded_path = target.encoded
        self.path_problem = target.problem
        self.query: bytes = scope.get("query_string", b"")
        self.headers: Headers = scope["headers"]
        address, port = scope.get("server") or ("", None)
        self.own_address: str = address or ""
        """The address at which the client has reached us; empty if the server does not report it."""
        self.own_port: int | None = port
        """The port at which the client has reached us; None for a socket file, or if the server does not report it."""
        self.dialect: str = scope.get("fcshim.dialect", "")
        """The dialect that the inspector asks for in place of the model's own; no client can set it."""
        self.resent_from: str = scope.get("fcshim.resent_from", "")
        """The captured request that the inspector sends again by this one."""
        self.extra_headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        self._receive = receive
        self._send = self._send_read = send
        self._body_timeout = body_timeout
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._last_write = self._loop.time()
        self._write_lock = asyncio.Lock()
        self._head: tuple[int, Headers] = (200, ())
        self._interrupt_cause: Exception | None = None
        self._more_body = True
        self._body: bytes | None = None
        self.committed = False
        """Whether the request has had an effect that must not be repeated, such as a tool that ran."""
        self._unsent = b""
        self._suspended_send: _SuspendedSend | None = None
        self._ended = False
        self.upstream = ""
        """The name of the upstream that serves the request, where there are several."""
        self.observers: RequestObservers | None = None
        """The observers of the request; None without any."""

    def observe(self, observers: RequestObservers) -> None:
        """Report the request to `observers`, and the response except what `write_nowait` sends."""
        self.observers = observers
        self._send = observers.watch_response(self._send)

    @property
    def started(self) -> bool:
        """Whether the status has been sent. From then on, an error can only be reported in the body."""
        return self.status != 0

    @property
    def may_be_served_again(self) -> bool:
        """Whether another upstream can serve the request: its client has nothing yet, and nothing was done for it."""
        return not (self.started or self.committed or self._interrupt_cause is not None)

    def header(self, name: bytes) -> bytes:
        """Return the first value of a request header, by its lower-case name; empty if it is missing."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""

    async def body(self, limit: int) -> bytes:
        """Read the whole body, once. Raises `RequestError` (413 above `limit` bytes, 408 if it stops), `ClientGone`."""
        if self._body is None:
            self._body = b"".join([chunk async for chunk in self.body_chunks(limit)])
        return self._body

    async def body_chunks(self, limit: int) -> AsyncIterator[bytes]:
        """Read the body as it arrives. Raises what `body` raises."""
        declared = self.header(b"content-length")
        size = int(declared) if declared.isdigit() else 0
        while size <= limit:
            if not self._more_body:
                return
            try:
                async with asyncio.timeout(self._body_timeout):
                    message = await self._receive()
            except TimeoutError:
                problem = f"no part of the request's body came for {self._body_timeout:g} s"
                raise RequestError(problem, status=408, kind="timeout") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunk: bytes = message.get("body", b"")
            self._more_body = message.get("more_body", False)
            size = size if declared else size + len(chunk)
            if chunk and size <= limit:
                yield chunk
        raise RequestError(f"the request's body is larger than {limit} bytes", status=413, kind="request_too_large")

    @contextlib.asynccontextmanager
    async def watch_disconnect(self, pings: PingSchedule | None = None) -> AsyncIterator[None]:
        """Watch for a disconnect while the block runs, and send the pings.

        A disconnect cancels the block, which then raises `ClientGone`.
        """
        watcher = self._loop.create_task(self._watch_client(pings))
        try:
            with self.interruptible():
                yield
        finally:
            watcher.cancel()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise the cause of an interrupt in place of the cancellation by which it ends the block."""
        try:
            yield
        except asyncio.CancelledError:
            if self._interrupt_cause is None or self._task.uncancel() > 0:
                raise
            raise self._interrupt_cause from None

    def interrupt(self, cause: Exception) -> None:
        """Make the block inside `interruptible` or `watch_disconnect` raise `cause`."""
        if not self._ended and self._interrupt_cause is None:
            self._interrupt_cause = cause
            self._task.cancel()

    def prepare(self, status: int, headers: Headers) -> None:
        """Set the status and headers, which are sent with the first bytes of the body."""
        self._head = (status, headers)

    async def start(self) -> None:
        """Send the status and headers now."""
        async with self._write_lock:
            await self._send_head()

    async def write(self, data: bytes) -> None:
        """Send a chunk of the body; waits if the client reads slowly."""
        await self._write(data, self._send)

    async def _write(self, data: bytes, send: Send) -> None:
        if data and not self._ended:
            if not self.status:
                async with self._write_lock:
                    if not self.status:
                        await self._send_head()
            # A single send is atomic, so a concurrent ping cannot split it. Only head and end need the lock.
            await send({"type": "http.response.body", "body": data, "more_body": True})
            self._last_write = self._loop.time()

    def write_nowait(self, data: bytes) -> bool:
        """Send a chunk of the body without waiting.

        Returns whether it was sent. If not, await `drain` before the next write. Observers know it as a part of a read.
        """
        if not data or self._ended:
            return True
        if not self.status:
            self._unsent = data
            return False
        # uvicorn's `send` suspends only under backpressure. Running its first step here saves a task wakeup for each
        # chunk.
        steps = self._send_read({"type": "http.response.body", "body": data, "more_body": True}).__await__()
        try:
            waiting = next(steps)
        except StopIteration:
            self._last_write = self._loop.time()
            return True
        self._suspended_send = _SuspendedSend(steps, waiting)
        return False

    async def drain(self) -> None:
        """Wait until the data of the last `write_nowait` has been sent."""
        unsent, suspended_send = self._unsent, self._suspended_send
        self._unsent, self._suspended_send = b"", None
        if suspended_send is not None:
            await suspended_send
        await self._write(unsent, self._send_read)

    async def end(self, data: bytes = b"") -> None:
        """Send the last chunk of the body; if it is the only one, with a `content-length` header."""
        await self.drain()
        async with self._write_lock:
            self._ended = True
            if not self.status:
                status, headers = self._head
                self._head = (status, [*headers, (b"content-length", str(len(data)).encode())])
                await self._send_head()
            await self._send({"type": "http.response.body", "body": data, "more_body": False})

    async def respond(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        """Send a complete JSON response."""
        self.prepare(status, [(b"content-type", b"application/json"), *headers])
        await self.end(body)

    async def respond_before_body(self, status: int, body: bytes) -> None:
        """Send a complete JSON response while the request body is still arriving, then discard the body for a moment.

        Closing a connection with unread bytes resets it, and the client would lose the response.
        """
        size = (b"content-length", str(len(body)).encode())
        self.prepare(status, [(b"content-type", b"application/json"), (b"connection", b"close"), size])
        await self.write(body)
        self._ended = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_BODY_WAIT):
                while self._more_body:
                    message = await self._receive()
                    self._more_body = message.get("more_body", False)
        await self.end()

    async def _send_head(self) -> None:
        status, headers = self._head
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self.extra_headers]})

    async def _watch_client(self, pings: PingSchedule | None) -> None:
        while True:
            check_at = float("inf")
            if pings is not None:
                # The response may start in the meantime, which shortens the interval, so never later than `interval`
                # from now.
                check_at = min(self._ping_due(pings), max(self._last_write, self._loop.time()) + pings.interval)
            try:
                async with asyncio.timeout_at(None if check_at == float("inf") else check_at):
                    message = await self._receive()
            except TimeoutError:
                if pings is not None and self._loop.time() >= self._ping_due(pings):
                    await self.write(pings.make_ping())
                continue
            if message["type"] == "http.disconnect":
                self.interrupt(ClientGone())
                return

    def _ping_due(self, pings: PingSchedule) -> float:
        return self._last_write + (pings.interval if self.status else pings.first_interval)
