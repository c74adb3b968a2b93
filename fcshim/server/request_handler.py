"""Runs one request against the upstream and writes the response to the client.

Rule: the status is not sent before the first bytes of the body, so an earlier failure is a real HTTP error. A later
failure is an error event in the stream, which then has no clean end.
"""

import contextlib
from collections.abc import Callable

from fcshim.dispatch import RequestAttempts
from fcshim.errors import FcshimError
from fcshim.events import Error
from fcshim.messages import Request
from fcshim.pipeline.exchange import Batch
from fcshim.pipeline.response import ClientResponse
from fcshim.server.client_connection import ClientConnection, PingSchedule
from fcshim.server.tool_loop import ToolLoop
from fcshim.upstream import UpstreamReply

_STREAM_HEADERS = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_RETRY_HEADERS = ("retry-after", "retry-after-ms")

NewAttempts = Callable[[Request], RequestAttempts]
"""Makes the attempts at one request; called again for each round of the tool loop."""


class RequestHandler:
    """Produces one response for one client; implements `dispatch.ReplySink`.

    With a `tool_loop` (tools run in this proxy) it sends one upstream request per round.
    """

    def __init__(
        self,
        connection: ClientConnection,
        *,
        new_attempts: NewAttempts,
        new_response: Callable[[], ClientResponse],
        tool_loop: ToolLoop | None,
    ) -> None:
        self._connection = connection
        self._new_attempts = new_attempts
        self._new_response = new_response
        self._tool_loop = tool_loop
        self._last_data: bytes | None = None

    async def run(self, request: Request, *, streamed: bool, first_ping: float, ping: float) -> None:
        """Run the request and stream the response. Intervals are in seconds, 0 for no pings.

        Raises `FcshimError` only before the response has started.
        """
        connection, tool_loop = self._connection, self._tool_loop
        self._response = self._new_response()
        self._attempts = self._new_attempts(request)
        connection.prepare(
            200, [(b"content-type", self._response.content_type.encode()), *(_STREAM_HEADERS if streamed else ())]
        )
        pings = PingSchedule(self._ping, first_interval=first_ping, interval=ping) if streamed else None
        try:
            async with connection.watch_disconnect(pings):
                await self._run_attempts()
                while tool_loop is not None and not tool_loop.finished:
                    await self._run_next_round(tool_loop)
        except FcshimError as error:
            await self._end_with_error(error)

    @property
    def started(self) -> bool:
        """Whether the response has started, or tools have run for it."""
        return self._connection.started or (self._tool_loop is not None and self._tool_loop.has_run_tools)

    def restart(self) -> None:
        """Discard the response so far."""
        self._response = self._new_response()
        if self._tool_loop is not None:
            self._tool_loop.restart()

    def feed(self, batch: Batch) -> bool:
        """Encode the events of one read and write them; return false if the client reads slowly."""
        return self._connection.write_nowait(self._encode(batch))

    def close(self, batch: Batch) -> None:
        """Encode the last events of one upstream reply, which are written once the earlier ones are sent."""
        data = self._encode(batch)
        self._last_data = data if self._runs_tools else data + self._response.close()

    @property
    def _runs_tools(self) -> bool:
        return self._tool_loop is not None and not self._tool_loop.finished

    async def _run_attempts(self) -> None:
        async with contextlib.aclosing(self._attempts.run(self)) as pauses:
            async for _ in pauses:
                await self._flush()

    async def _flush(self) -> None:
        """Wait until the data is sent; end the response after the last data, unless another round follows."""
        data, self._last_data = self._last_data, None
        if data is not None and not self._runs_tools:
            await self._connection.end(data)
            return
        await self._connection.drain()
        await self._connection.write(data or b"")

    async def _run_next_round(self, tool_loop: ToolLoop) -> None:
        """Execute the tool calls of the last round, then run the next round or end the response."""
        rest = await tool_loop.run_tools()
        if rest:
            await self._connection.end(self._response.feed(rest) + self._response.close())
            return
        self._attempts = self._new_attempts(tool_loop.request)
        await self._run_attempts()

    async def _end_with_error(self, error: FcshimError) -> None:
        """End the response with an error event; raise `error` if the response has not started."""
        events = self._attempts.fail(error)
        if self._tool_loop is not None:
            events = self._tool_loop.fail(events, error)
        if not self._response.started and (not events or isinstance(events[-1][1], Error)):
            if self._attempts.refusal is not None:
                self._connection.extra_headers += _retry_headers(self._attempts.refusal)
            raise error
        await self._connection.end(self._response.feed(events) + self._response.close())

    def _encode(self, batch: Batch) -> bytes:
        return self._response.feed(batch if self._tool_loop is None else self._tool_loop.feed(batch))

    def _ping(self) -> bytes:
        return self._response.ping()


def _retry_headers(reply: UpstreamReply) -> list[tuple[bytes, bytes]]:
    """Return the headers of an upstream error that tell the client when to retry."""
    return [(name.encode(), reply.header(name).encode("latin-1")) for name in _RETRY_HEADERS if reply.header(name)]
