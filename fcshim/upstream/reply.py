"""One reply while it is read: limits on waiting, and two ways to read the body.

Theory of operation. One timer serves a whole reply instead of one per read: a read only moves the expiry, which the
timer checks when it fires. While a body is read, a `DirectReader` is the protocol of the connection's transport and
passes every callback on to aiohttp's protocol. The result of a read (body bytes, the end, an error) is then taken from
aiohttp's stream reader in the same call. Waking a task for each read, through its chain of coroutines, would take
longer than all other work on that read.

Rule: the bytes arrive as they were sent. Every failure is an `UpstreamError` whose message says what happened and
with which endpoint. Every wait has a limit, and each kind of wait its own. Only public interfaces of aiohttp. Bytes
that the sink does not want stay in the stream reader, which pauses the transport.
"""

import asyncio
import contextlib
import contextvars
import errno
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Self, cast

import aiohttp
import httpx
import msgspec

from fcshim.config import host_and_port
from fcshim.config.secret import KeyMask, StreamMask
from fcshim.errors import UpstreamError

TRANSPORT_ERRORS = (httpx.HTTPError, aiohttp.ClientError, OSError)
"""The exceptions that the transport raises."""
_NO_FILES = {errno.EMFILE, errno.ENFILE}
MALFORMED_FRAMING = "its framing is malformed"
"""The message for a body whose end cannot be determined."""

current_response: contextvars.ContextVar[aiohttp.ClientResponse] = contextvars.ContextVar("answer")
"""The response to this task's request."""


def _address(cause: aiohttp.ClientConnectorError) -> str:
    return host_and_port(cause.host, cause.port or 0)


def to_upstream_error(error: Exception, connect: float, mask: KeyMask) -> UpstreamError:
    """Translate a transport error; `connect` is the connect timeout in seconds, and what `mask` masks is not shown.

    The aiohttp exception is used if there is one: httpx derives its own from it and loses details.
    """
    cause = error.__cause__ if isinstance(error, httpx.HTTPError) and error.__cause__ else error
    match cause:
        case aiohttp.ServerTimeoutError():
            wait = f"the upstream accepted no connection within {connect:g} s"
            return UpstreamError(wait, status=504, kind="timeout")
        case aiohttp.ClientConnectorCertificateError():
            # TLS errors carry an `errno` that is no error of the system.
            reason = _tls_reason(cause.certificate_error)
            message = f"the certificate of the upstream at {_address(cause)} is not accepted: {reason}"
        case aiohttp.ClientConnectorSSLError():
            message = f"no TLS connection to the upstream at {_address(cause)}: {_tls_reason(cause.os_error)}"
        case aiohttp.ClientConnectorError():
            if cause.os_error.errno in _NO_FILES:
                return UpstreamError("the proxy has no free file descriptors", status=503, kind="unavailable")
            message = f"cannot connect to the upstream at {_address(cause)}: {os_error_reason(cause.os_error)}"
        case aiohttp.ClientHttpProxyError():
            message = f"the egress proxy refused the connection with status {cause.status}"
        case aiohttp.ClientResponseError():
            message = f"the upstream's answer is not HTTP: {mask.mask_text(cause.message)!r:.200}"
        case aiohttp.ServerDisconnectedError() | OSError():
            message = "the upstream closed the connection"
        case aiohttp.ClientPayloadError() if str(cause) != MALFORMED_FRAMING:
            message = "the upstream's reply broke off: the connection was closed before its end"
        case _:
            message = f"the upstream's reply broke off: {mask.mask_text(str(cause)) or type(cause).__name__:.200}"
    return UpstreamError(message, lost=True)


def _tls_reason(error: Exception) -> str:
    """Return what is wrong with a certificate or a handshake, as OpenSSL names it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).replace("_", " ").lower() if isinstance(error, ssl.SSLError) else str(error)


def os_error_reason(error: OSError) -> str:
    """Return the system's message for an error, without the address that asyncio adds."""
    number = error.errno or 0  # an unresolved host name has a negative number, of getaddrinfo
    return os.strerror(number) if number > 0 else error.strerror or str(error)


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds: to connect, until the first byte of the body, and between two reads of it.

    `page` is for the whole of a small reply, such as the list of models, which needs no inference.
    """

    connect: float = 10.0
    first_chunk: float = 600.0
    chunk: float = 300.0
    page: float = 30.0


class Deadline:
    """Cancels the task that created it when the time is up; its handler calls `raise_if_expired`.

    Time counts from the start to the first `pause`, and after that only between `resume` and `pause`: time in which the
    client reads slowly is not the upstream's. Code with many waits in a row may move `expires_at` directly.
    """

    __slots__ = ("_expired", "_loop", "_task", "_timer", "expires_at", "limit")

    def __init__(self, limit: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.limit = limit
        self._task = task
        self._loop = asyncio.get_running_loop()
        self.expires_at: float | None = self._loop.time() + limit
        self._expired = False
        self._timer = self._loop.call_at(self.expires_at, self._on_timer)

    def pause(self, limit: float) -> None:
        """The wait has ended; the next one may take `limit` seconds."""
        self.expires_at = None
        if limit != self.limit:
            self.limit = limit
            self._timer.cancel()
            self._timer = self._loop.call_at(self._loop.time() + limit, self._on_timer)

    def resume(self) -> None:
        """A wait starts, unless one is running."""
        if self.expires_at is None:
            self.expires_at = self._loop.time() + self.limit

    def raise_if_expired(self) -> None:
        """Turn the cancellation into an `UpstreamError` if this deadline caused it."""
        if self._expired and self._task.uncancel() == 0:
            raise UpstreamError(f"the upstream sent nothing for {self.limit:g} s", status=504, kind="timeout")

    def close(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _on_timer(self) -> None:
        now = self._loop.time()
        if self.expires_at is not None and self.expires_at <= now:
            self._expired = True
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(self.expires_at or now + self.limit, self._on_timer)


Sink = Callable[[bytes], bool]
"""Takes the bytes of one read; returns whether it wants more now. The event loop calls it, so it must not block."""


class DirectReader(asyncio.Protocol):
    """Reads one body; each read extends `deadline` to `limit` seconds from now."""

    __slots__ = ("_aiohttp_protocol", "_content", "_deadline", "_done", "_limit", "_now", "_sink", "_transport")

    def __init__(
        self, content: aiohttp.StreamReader, transport: asyncio.Transport, deadline: Deadline, limit: float
    ) -> None:
        self._content = content
        self._deadline = deadline
        self._limit = limit
        self._now = asyncio.get_running_loop().time
        self._transport = transport
        self._aiohttp_protocol = cast("asyncio.Protocol", transport.get_protocol())

    async def read_into(self, sink: Sink) -> bool:
        """Pass the body to `sink` as it arrives; return true at its end, false if the sink wants no more.

        Raises the error that ends the body, and what the sink raises.
        """
        self._sink = sink
        self._done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._transport.set_protocol(self)
        try:
            self._deliver()
            return await self._done
        finally:
            self._transport.set_protocol(self._aiohttp_protocol)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to aiohttp and deliver what it makes of them."""
        self._aiohttp_protocol.data_received(data)
        self._deliver()

    def eof_received(self) -> bool | None:
        """The peer has closed its side."""
        keep_open = self._aiohttp_protocol.eof_received()
        self._deliver()
        return keep_open

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed: the body is complete, or stays incomplete."""
        self._aiohttp_protocol.connection_lost(error)
        self._deliver()
        if not self._done.done():
            # After malformed framing, aiohttp neither ends the body nor sets an exception.
            self._done.set_exception(aiohttp.ClientPayloadError(MALFORMED_FRAMING))

    def pause_writing(self) -> None:
        """The write buffer is full."""
        self._aiohttp_protocol.pause_writing()

    def resume_writing(self) -> None:
        """The write buffer has space again."""
        self._aiohttp_protocol.resume_writing()

    def _deliver(self) -> None:
        """Pass on what has been read. More may be read in the meantime, if the transport was paused."""
        done, content = self._done, self._content
        try:
            while not done.done():
                data = content.read_nowait()
                if not data:
                    if content.at_eof():
                        done.set_result(True)
                    return
                self._deadline.expires_at = self._now() + self._limit
                if not self._sink(data) and not done.done():
                    done.set_result(False)
        except Exception as error:  # noqa: BLE001 - `read_into` raises it
            if not done.done():
                done.set_exception(error)


Headers = Sequence[tuple[bytes, bytes]]

_MAX_END_WAIT = 0.02
"""Seconds to wait for the end of a body after the last event, so that the connection can be reused."""
_MAX_ERROR_BODY = 64 * 2**10
"""Bytes that are read of an error body, which only people read."""
_FIRST_STATUS, _LAST_STATUS = 200, 599
_REDIRECT_STATUSES = {301, 302, 303, 307, 308}
_READ_SIZE = 2**16
"""Bytes of a body per read."""


def _masking_sink(mask: StreamMask, sink: Sink) -> Sink:
    """Return a sink that masks keys in what it passes on."""

    def take(data: bytes) -> bool:
        masked = mask.feed(data)
        return sink(masked) if masked else True

    return take


class UpstreamReply:
    """A reply that is being read. Iterate over it for the chunks of its body. Raises `UpstreamError`.

    The key that was sent is masked in everything that is read.
    """

    def __init__(self, response: httpx.Response, deadline: Deadline, timeouts: Timeouts, mask: KeyMask) -> None:
        self.status = response.status_code
        self.headers: Headers = [(mask.mask(name), mask.mask(value)) for name, value in response.headers.raw]
        self.prefix = b""
        """Bytes to put in front of the body."""
        self._httpx_response = response
        # aiohttp's own response: httpx's two layers around it cost as much as reading the body.
        self._aiohttp_response = current_response.get()
        self._deadline = deadline
        self._timeouts = timeouts
        self._key_mask = mask
        self._mask = mask.stream_mask()
        self._ended = False
        self.broke_off = False
        """Whether the body of an error stopped before its end."""

    def header(self, name: str) -> str:
        """Return a header's value; empty if it is missing."""
        values = [value for each, value in self.headers if each.lower() == name.lower().encode()]
        return b", ".join(values).decode("latin-1")

    def validate(self) -> None:
        """Reject a reply that must not be read. Raises `UpstreamError`."""
        if not _FIRST_STATUS <= self.status <= _LAST_STATUS:  # 101 would hand the connection over to another protocol
            raise UpstreamError(f"the upstream answered with HTTP {self.status}, which is no status of a reply")
        # A redirect could send the key to another host; a compressed body could be a decompression bomb.
        if self.status in _REDIRECT_STATUSES:
            raise UpstreamError(f"the upstream redirects (HTTP {self.status}), which is not followed")
        if self.header("content-encoding").strip().lower() not in {"", "identity"}:
            raise UpstreamError("the upstream compressed its reply although it was asked not to")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        data = b""
        while not data:
            if self._ended:
                raise StopAsyncIteration
            with self._timed_wait():
                try:
                    data = await self._aiohttp_response.content.read(_READ_SIZE)
                except RuntimeError:  # the connection was lost in this turn of the loop; `_fail_body` runs in the next
                    raise aiohttp.ClientPayloadError(MALFORMED_FRAMING) from None
            self._ended = not data
            if self._mask is not None:  # all that came may be the beginning of a key
                data = self._mask.feed(data) if data else self._mask.close()
        if self.prefix:
            data, self.prefix = self.prefix + data, b""
        return data

    async def read(self, limit: int) -> bytes:
        """Read the body, or the start of one that is longer than `limit` bytes. Raises `UpstreamError`."""
        body = bytearray()
        async for data in self:
            body += data
            if len(body) > limit:
                break
        return bytes(body)

    async def read_into(self, sink: Sink) -> bool:
        """Pass the body to `sink` as it arrives; return true at its end, false if the sink wants no more for now.

        Raises `UpstreamError`, and what the sink raises.
        """
        # The first read of all waits for the model, with another timeout than `DirectReader` renews between chunks. The
        # first read of every call is a plain one: for a sink that stops after each, a `DirectReader` does not pay off.
        async for data in self:
            if not sink(data):
                return False
            break
        connection = self._aiohttp_response.connection
        transport = None if connection is None else connection.transport
        if transport is None:  # aiohttp has released the connection: the body is complete
            async for data in self:
                if not sink(data):
                    return False
            return True
        reader = DirectReader(self._aiohttp_response.content, transport, self._deadline, self._timeouts.chunk)
        with self._timed_wait():
            self._ended = await reader.read_into(sink if self._mask is None else _masking_sink(self._mask, sink))
        rest = self._mask.close() if self._mask is not None and self._ended else b""
        return sink(rest) or True if rest else self._ended

    @contextlib.contextmanager
    def _timed_wait(self) -> Iterator[None]:
        """Limit one wait for the upstream, and translate transport errors."""
        self._deadline.resume()
        try:
            yield
        except asyncio.CancelledError:
            self._deadline.raise_if_expired()
            raise
        except TRANSPORT_ERRORS as error:
            raise to_upstream_error(error, self._timeouts.connect, self._key_mask) from error
        self._deadline.pause(self._timeouts.chunk)

    async def read_error(self) -> bytes:
        """Read an error body, or the start of a very long one, or of one that breaks off."""
        body = bytearray()
        try:
            async for data in self:
                body += data
                if len(body) >= _MAX_ERROR_BODY:
                    break
        except UpstreamError:
            self.broke_off = True
        return bytes(body)

    async def wait_for_end(self) -> None:
        """Wait a moment for the end of a body whose last event has been read."""
        if not self._ended:
            with contextlib.suppress(TimeoutError, UpstreamError):
                async with asyncio.timeout(_MAX_END_WAIT):
                    async for _ in self:
                        pass

    async def aclose(self) -> None:
        """Close the connection, or release it for reuse if the body was read to its end."""
        with contextlib.suppress(*TRANSPORT_ERRORS):
            await self._httpx_response.aclose()
