"""One reply while it is read.

Rule: its bytes come as they were sent; whatever goes wrong leaves as an `UpstreamError`.
Neighbours: `endpoint` opens and closes it, `pouring` hands its bytes on without a turn of a task, `patience` counts.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Self

import httpx

from fcshim.config import Secret
from fcshim.errors import UpstreamError
from fcshim.upstream.deadline import Deadline
from fcshim.upstream.direct_reader import DirectReader, Sink
from fcshim.upstream.session import current_response
from fcshim.upstream.timeouts import Timeouts
from fcshim.upstream.transport_errors import TRANSPORT_ERRORS, to_upstream_error

Headers = Sequence[tuple[bytes, bytes]]

_MAX_END_WAIT = 0.02
"""Seconds that the end of a body is waited for once the reply is over, so that the connection can be used again."""
_MAX_ERROR_BODY = 64 * 2**10
"""Bytes of an error answer that are read: it is for people."""
_REDIRECT_STATUSES = {301, 302, 303, 307, 308}
_READ_SIZE = 2**16
"""Bytes of a body that are taken at once."""


class UpstreamReply:
    """A reply that is being read: iterate over it for the bytes of its body, as they come. Raises `UpstreamError`."""

    def __init__(self, response: httpx.Response, deadline: Deadline, timeouts: Timeouts, key: Secret | None) -> None:
        self.status = response.status_code
        self.headers: Headers = response.headers.raw
        self.prefix = b""
        """What the body is taken to begin with."""
        self._httpx_response = response
        # The transport's own answer: httpx's two layers around it cost as much as reading it.
        self._aiohttp_response = current_response.get()
        self._deadline = deadline
        self._timeouts = timeouts
        self._key = key
        self._started = False
        self._ended = False

    def header(self, name: str) -> str:
        """Give a header's value, empty where it is missing."""
        value: str = self._httpx_response.headers.get(name, "")
        return value

    def validate(self) -> None:
        """Refuse what must not be read. Raises `UpstreamError`."""
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
        self._started = True
        if self.prefix:
            data, self.prefix = self.prefix + data, b""
        return data

    async def read(self, limit: int) -> bytes:
        """Read the body, or the beginning of one that is longer than `most` bytes. Raises `UpstreamError`."""
        body = bytearray()
        async for data in self:
            body += data
            if len(body) > limit:
                break
        return bytes(body)

    async def read_into(self, sink: Sink) -> bool:
        """Give the body to `sink` as it comes; true at its end, false where the sink wants no more for now.

        Raises `UpstreamError`, and what the sink raises.
        """
        if not self._started:
            async for data in self:
                if not sink(data):
                    return False
                break
        connection = self._aiohttp_response.connection
        transport = None if connection is None else connection.transport
        if transport is None:  # the whole body is here
            async for data in self:
                if not sink(data):
                    return False
            return True
        pouring = DirectReader(self._aiohttp_response.content, transport, self._deadline, self._timeouts.chunk)
        with self._timed_wait():
            self._ended = await pouring.read_into(sink)
        return self._ended

    @contextlib.contextmanager
    def _timed_wait(self) -> Iterator[None]:
        """Limit the time of a wait for the upstream, and tell in our words what goes wrong meanwhile."""
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
        """Read an error answer's body, or the beginning of a very long one; our key is masked in it."""
        body = bytearray()
        with contextlib.suppress(UpstreamError):
            async for data in self:
                body += data
                if len(body) >= _MAX_ERROR_BODY:
                    break
        return bytes(body) if self._key is None else self._key.mask(bytes(body))

    async def wait_for_end(self) -> None:
        """Wait a moment for the end of a body that was read as far as it matters."""
        if not self._ended:
            with contextlib.suppress(TimeoutError, UpstreamError):
                async with asyncio.timeout(_MAX_END_WAIT):
                    async for _ in self:
                        pass

    async def aclose(self) -> None:
        """Close the connection, or give it back where the body was read to its end."""
        with contextlib.suppress(*TRANSPORT_ERRORS):
            await self._httpx_response.aclose()
