"""One reply while it is read.

Rule: the bytes arrive as they were sent. Every failure is an `UpstreamError`.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Self

import httpx

from fcshim.config import Secret
from fcshim.errors import UpstreamError
from fcshim.upstream.deadline import Deadline, Timeouts
from fcshim.upstream.direct_reader import DirectReader, Sink
from fcshim.upstream.session import current_response
from fcshim.upstream.transport_errors import TRANSPORT_ERRORS, to_upstream_error

Headers = Sequence[tuple[bytes, bytes]]

_MAX_END_WAIT = 0.02
"""Seconds to wait for the end of a body after the last event, so that the connection can be reused."""
_MAX_ERROR_BODY = 64 * 2**10
"""Bytes that are read of an error body, which only people read."""
_REDIRECT_STATUSES = {301, 302, 303, 307, 308}
_READ_SIZE = 2**16
"""Bytes of a body per read."""


class UpstreamReply:
    """A reply that is being read. Iterate over it for the chunks of its body. Raises `UpstreamError`."""

    def __init__(self, response: httpx.Response, deadline: Deadline, timeouts: Timeouts, key: Secret | None) -> None:
        self.status = response.status_code
        self.headers: Headers = response.headers.raw
        self.prefix = b""
        """Bytes to put in front of the body."""
        self._httpx_response = response
        # aiohttp's own response: httpx's two layers around it cost as much as reading the body.
        self._aiohttp_response = current_response.get()
        self._deadline = deadline
        self._timeouts = timeouts
        self._key = key
        self._ended = False

    def header(self, name: str) -> str:
        """Return a header's value; empty if it is missing."""
        value: str = self._httpx_response.headers.get(name, "")
        return value

    def validate(self) -> None:
        """Reject a reply that must not be read. Raises `UpstreamError`."""
        # A redirect could send the key to another host; a compressed body could be a decompression bomb.
        if self.status in _REDIRECT_STATUSES:
            raise UpstreamError(f"the upstream redirects (HTTP {self.status}), which is not followed")
        if self.header("content-encoding").strip().lower() not in {"", "identity"}:
            raise UpstreamError("the upstream compressed its reply although it was asked not to")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with self._timed_wait():
            data = await self._aiohttp_response.content.read(_READ_SIZE)
        if not data:
            self._ended = True
            raise StopAsyncIteration
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
            self._ended = await reader.read_into(sink)
        return self._ended

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
            raise to_upstream_error(error, self._timeouts.connect) from error
        self._deadline.pause(self._timeouts.chunk)

    async def read_error(self) -> bytes:
        """Read an error body, or the start of a very long one, with the key masked."""
        body = bytearray()
        with contextlib.suppress(UpstreamError):
            async for data in self:
                body += data
                if len(body) >= _MAX_ERROR_BODY:
                    break
        return bytes(body) if self._key is None else self._key.mask(bytes(body))

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
