"""Pouring: the body of a reply goes to a function the moment it is read, without a task's turn in between.

Theory of operation. While a body is poured, this is the protocol of the connection's transport, and hands everything on
to aiohttp's own. What that has made of a read (the body's bytes, its end, an error) is taken from the stream reader at
once. A task that is woken for each read, through its chain of coroutines, delays it more than all that is done with it.

Rule: public interfaces only; what the sink does not want stays in the stream reader, which pauses the transport.
Neighbours: `reply` pours through it.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import aiohttp

from fcshim.upstream.deadline import Deadline

Sink = Callable[[bytes], bool]
"""Takes the bytes of one read; false where no more are wanted for now. Called by the event loop: it must not block."""


class DirectReader(asyncio.Protocol):
    """Pours one body; each read renews `patience`, by `limit` seconds."""

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
        """Give the body to `sink` as it comes; true at its end, false where the sink wants no more.

        Raises what the body ends with, and what the sink raises.
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
        """Bytes came."""
        self._aiohttp_protocol.data_received(data)
        self._deliver()

    def eof_received(self) -> bool | None:
        """The other side sends no more."""
        kept = self._aiohttp_protocol.eof_received()
        self._deliver()
        return kept

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has closed: the body is whole now, or it never will be."""
        self._aiohttp_protocol.connection_lost(error)
        self._deliver()
        if not self._done.done():
            # After malformed framing aiohttp leaves the body open.
            self._done.set_exception(aiohttp.ClientPayloadError("its framing is malformed"))

    def pause_writing(self) -> None:
        """The other side is slow to read."""
        self._aiohttp_protocol.pause_writing()

    def resume_writing(self) -> None:
        """The other side has read."""
        self._aiohttp_protocol.resume_writing()

    def _deliver(self) -> None:
        """Pour what has been read; more may be read meanwhile, where the transport was paused."""
        over, content = self._done, self._content
        try:
            while not over.done():
                data = content.read_nowait()
                if not data:
                    if content.at_eof():
                        over.set_result(True)
                    return
                self._deadline.expires_at = self._now() + self._limit
                if not self._sink(data) and not over.done():
                    over.set_result(False)
        except Exception as error:  # noqa: BLE001 - whatever it is, the task that pours raises it
            if not over.done():
                over.set_exception(error)
