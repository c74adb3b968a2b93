"""One connection to a client, below ASGI: the limits that uvicorn's protocol does not have.

Rule: bytes of a head are counted and timed as they arrive, so that an endless or a slow head holds neither memory nor
a connection. An offer to change the protocol is ignored, as RFC 9110 (7.8) allows: Java's client sends `Upgrade: h2c`
with every request. A process that is about to run out of file descriptors says so and answers 503.
"""

import asyncio
import contextlib
import logging
from socket import SO_ERROR, SOL_SOCKET

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from fcshim.config import Config

logger = logging.getLogger("fcshim.server")

_MAX_HEADER_COUNT = 256
"""Headers of one request; browsers send 20. Each costs a call, and some libraries search them one after the other."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HALF_CLOSED_CHECK = 0.3
"""Seconds in which the system of a client that has left answers with a reset."""
_UNREAD_REQUEST_WAIT = 0.01
"""Seconds in which the event loop reads what has arrived on an idle connection before that is closed."""
_RESERVED_FILES = 64
"""File descriptors for everything but clients and their upstream connections: logs, sockets, pipes to MCP servers."""
_REFUSAL_FILES = 32
"""Of the reserved ones, those that may hold clients until they have got their 503."""


class _TooManyHeadersError(Exception):
    """A head has more than `_MAX_HEADER_COUNT` headers."""


class ConnectionBudget:
    """How many connections the process may hold: each request takes one of the client and one to the upstream."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._reported = False

    def is_spent(self, used: int) -> bool:
        """Return whether a new request must be refused; the first time, log why."""
        if used <= self.limit:
            return False
        if not self._reported:
            self._reported = True
            logger.error("the limit of open files is reached (ulimit -n): new requests get 503 until others have ended")
        return True


def process_budget() -> ConnectionBudget:
    """Return the budget that this process's limit of open files allows."""
    try:
        import resource  # noqa: PLC0415 - not on Windows, which has no such limit
    except ImportError:
        return ConnectionBudget(float("inf"))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ConnectionBudget(float("inf") if soft == resource.RLIM_INFINITY else max(soft - _RESERVED_FILES, 1))


class _Refusal(msgspec.Struct, frozen=True):
    """A response from below the application; its body is OpenAI's form, the API is not known yet."""

    status: str
    kind: str
    message: str

    def encode(self) -> bytes:
        body = msgspec.json.encode({"error": {"message": self.message, "type": self.kind, "param": None, "code": None}})
        lines = [
            f"HTTP/1.1 {self.status}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body


_HEAD_TOO_LARGE = _Refusal(
    "431 Request Header Fields Too Large", "headers_too_large", "the request's head is too large"
).encode()
_HEAD_TOO_SLOW = _Refusal("408 Request Timeout", "timeout", "the request's head did not come in time").encode()
_OVERLOADED = _Refusal(
    "503 Service Unavailable", "unavailable", "the proxy has no free file descriptors; try again later"
).encode()
_NO_TUNNELS = _Refusal("405 Method Not Allowed", "invalid_request_error", "this proxy makes no tunnels").encode()


def limited_protocol(config: Config, budget: ConnectionBudget) -> type[HttpToolsProtocol]:
    """Make the protocol class of a configuration."""

    class LimitedProtocol(ClientProtocol):
        """One connection."""

        max_headers = config.max_headers
        head_timeout = config.head_timeout
        connection_budget = budget

    return LimitedProtocol


class ClientProtocol(HttpToolsProtocol):
    """One connection, with the limits of the class attributes."""

    __slots__ = ("_expects_head", "_head_bytes", "_head_timer", "_header_count", "_in_head", "_running")
    # uvicorn's 28 attributes share their names among all connections; from 31 on, each would have a dict of 1.6 KB.

    max_headers: int
    head_timeout: float
    connection_budget: ConnectionBudget

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A client has connected: it gets `head_timeout` seconds to send a head."""
        self._head_bytes = self._header_count = 0
        self._in_head = True
        self._expects_head = True  # whether the next bytes belong to a head, or to what may come between requests
        self._head_timer: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None
        """The request that is being served; uvicorn's `cycle` is the last one that came."""
        super().connection_made(transport)
        self._start_head_timer()
        if self._used > self.connection_budget.limit + _REFUSAL_FILES:
            self.connection_budget.is_spent(self._used)
            self._refuse(_OVERLOADED)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self._stop_head_timer()
        self._stop_requests()
        super().connection_lost(exc)

    def cut(self) -> None:
        """Close the connection now, whatever its client has not read yet."""
        self._stop_requests()  # else a write that waits for the transport goes to the closed one
        self.transport.abort()

    def _stop_requests(self) -> None:
        """Report the lost connection to the request that is being served, and drop those behind it."""
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio documents it
        """Keep the connection for the reply of a client that has closed its side after a complete request.

        A client that has left looks the same until something is written to it. So an interim response is, which every
        client of HTTP/1.1 skips (RFC 9110, 15.2), and its system answers with a reset. Whoever closes its side after
        the response has started is taken for one that has left.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_started or cycle.more_body or self.pipeline:
            return False
        cycle.keep_alive = False
        if cycle.scope["http_version"] == "1.1":
            self.transport.write(_CONTINUE)
        self._check_half_closed(_HALF_CLOSED_CHECK)
        return True

    def _check_half_closed(self, wait: float) -> None:
        """Close the connection if the client has left; look again after `wait` seconds, then less and less often."""
        if self.transport.is_closing() or self.cycle.response_started:
            return
        if self.transport.get_extra_info("socket").getsockopt(SOL_SOCKET, SO_ERROR):
            self.transport.abort()
        else:
            self.loop.call_later(wait, self._check_half_closed, 2 * wait)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, count those of an incomplete head.

        A head that this read completes is checked by `RequestGuard`.
        """
        self._unset_keepalive_if_required()
        if self._expects_head:
            self._start_head_timer()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            if self._in_head and self._header_count > _MAX_HEADER_COUNT:
                self._refuse(_HEAD_TOO_LARGE)
            else:
                self.send_400_response("Invalid HTTP request received.")
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.max_headers:
                self._refuse(_HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request head starts."""
        self._in_head, self._head_bytes, self._header_count = True, 0, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, drop a trailer. Raises `_TooManyHeadersError`, which ends the parsing.

        A server in front of this one may have checked or replaced headers, and passes trailers on (RFC 9110, 6.5.1).
        """
        self._header_count += 1
        if self._header_count > _MAX_HEADER_COUNT:
            raise _TooManyHeadersError
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request head is complete: start the request, unless the head has to be read again without its upgrade."""
        if self.parser.should_upgrade():
            return
        self._in_head = self._expects_head = False
        self._stop_head_timer()
        if self.connection_budget.is_spent(self._used):
            self._refuse(_OVERLOADED)
            return
        begins = self.cycle is None or self.cycle.response_complete
        super().on_headers_complete()
        if begins:
            self._running = self.cycle

    def on_response_complete(self) -> None:
        """The response is complete: the next request begins if it came already."""
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, unless its next request has arrived.

        uvloop runs timers before it reads: a process that the machine held up would close the connection on a request.
        """
        self.timeout_keep_alive_task = self.loop.call_later(_UNREAD_REQUEST_WAIT, super().timeout_keep_alive_handler)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete; the next one may follow."""
        if self.parser.should_upgrade():
            return
        self._expects_head = True
        if not self.transport.is_closing():
            super().on_message_complete()

    @property
    def _used(self) -> int:
        return len(self.connections) + len(self.tasks)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse the head again without its offer to upgrade, then the rest; the parser would not read the body."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(_NO_TUNNELS)
            return
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        for name, value in self.headers:
            kept = value
            if name == b"connection":
                kept = b",".join(option for option in value.split(b",") if option.strip().lower() != b"upgrade")
            lines.append(name + b": " + kept)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_timeout, self._on_head_timeout)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._start_head_timer()  # a running response is not cut for the sake of the request behind it
        elif self._expects_head:
            self._refuse(_HEAD_TOO_SLOW)

    def _refuse(self, response: bytes) -> None:
        if not self.transport.is_closing():
            with contextlib.suppress(OSError, RuntimeError):  # the client has left
                self.transport.write(response)
            self.transport.close()
