"""Delivers body bytes from `data_received`, which saves one task wakeup per read.

Theory of operation. While a body is read, a `DirectReader` is the protocol of the connection's transport and passes
every callback on to aiohttp's protocol. Whatever aiohttp makes of a read (body bytes, the end, an error) is then taken
from its stream reader at once. Waking a task for each read, through its chain of coroutines, would take longer than all
other work on that read.

Rule: only public interfaces of aiohttp. Bytes that the sink does not want stay in the stream reader, which pauses the
transport.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import aiohttp

from fcshim.upstream.deadline import Deadline

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
        """The connection is closed: the body is complete now, or never will be."""
        self._aiohttp_protocol.connection_lost(error)
        self._deliver()
        if not self._done.done():
            # After malformed framing, aiohttp neither ends the body nor sets an exception.
            self._done.set_exception(aiohttp.ClientPayloadError("its framing is malformed"))

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
