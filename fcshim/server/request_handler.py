"""Runs one request against the upstream and writes the response to the client.

Rule: the status is not sent before the first bytes of the body, so an earlier failure is a real HTTP error. A later
failure is an error event in the stream, which then has no clean end.
"""

from collections.abc import Callable, Sequence

from fcshim.codecs.base import Codec
from fcshim.dispatch import RequestAttempts
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import Error
from fcshim.messages import Request
from fcshim.pipeline.exchange import Batch
from fcshim.pipeline.response import ClientResponse
from fcshim.server.client_connection import ClientConnection, PingSchedule
from fcshim.server.tool_loop import ToolLoop
from fcshim.upstream import Upstream, UpstreamReply

_STREAM_HEADERS = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_RETRY_HEADERS = ("retry-after", "retry-after-ms")

NewAttempts = Callable[[Request], RequestAttempts]
"""Makes the attempts at one request; called again for each round of the tool loop."""


class RequestHandler:
    """Produces one response for one client.

    With a `tool_loop` (tools run in this proxy) it sends one upstream request per round.
    """

    def __init__(
        self,
        connection: ClientConnection,
        upstream: Upstream,
        codec: Codec,
        *,
        new_attempts: NewAttempts,
        new_response: Callable[[], ClientResponse],
        headers: Sequence[tuple[bytes, bytes]],
        tool_loop: ToolLoop | None,
    ) -> None:
        self._connection = connection
        self._upstream = upstream
        self._codec = codec
        self._new_attempts = new_attempts
        self._new_response = new_response
        self._response = new_response()
        self._headers = headers
        self._tool_loop = tool_loop

    async def run(self, request: Request, *, streamed: bool, first_ping: float, ping: float) -> None:
        """Run the request and stream the response. Intervals are in seconds, 0 for no pings.

        Raises `FcshimError` only before the response has started.
        """
        self._attempts = self._new_attempts(request)
        self._exchange = await self._attempts.first()
        connection, tool_loop = self._connection, self._tool_loop
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
            events = self._exchange.fail(error)
            if tool_loop is not None:
                events = tool_loop.fail(events, error)
            if not self._response.started and (not events or isinstance(events[-1][1], Error)):
                raise
            await connection.end(self._response.feed(events) + self._response.close())

    async def _run_next_round(self, tool_loop: ToolLoop) -> None:
        """Execute the tool calls of the last round, then run the next round or end the response."""
        rest = await tool_loop.run_tools()
        if rest:
            await self._connection.end(self._response.feed(rest) + self._response.close())
            return
        self._attempts = self._new_attempts(tool_loop.request)
        self._exchange = await self._attempts.first()
        await self._run_attempts()

    async def _run_attempts(self) -> None:
        """Send the request until an attempt succeeds.

        A refused attempt is replaced by a fallback; an unusable reply is retried.
        """
        more = True
        while more:
            try:
                await self._stream_attempt()
            except UpstreamError as error:
                await self._fall_back(error)
            else:
                self._attempts.confirm(self._exchange)
                more = await self._attempts.retry(self._exchange)
        if self._exchange.wants_retry:  # the retry could not be made: the first attempt's result stands
            await self._finish_attempt(self._encode(self._exchange.close()))

    async def _fall_back(self, error: UpstreamError) -> None:
        tool_loop = self._tool_loop
        response_started = self._connection.started or (tool_loop is not None and tool_loop.has_run_tools)
        exchange = await self._attempts.fallback(self._exchange, error, response_started=response_started)
        if exchange is None:
            raise error
        if exchange is not self._exchange:
            self._exchange, self._response = exchange, self._new_response()
            if tool_loop is not None:
                tool_loop.restart()

    def _ping(self) -> bytes:
        return self._response.ping()

    async def _stream_attempt(self) -> None:
        """Send one attempt and stream its reply to the client."""
        connection, exchange, encode = self._connection, self._exchange, self._encode
        async with self._upstream.send_request(exchange.upstream_request, headers=self._headers) as reply:
            if reply.status != 200:
                connection.extra_headers += _retry_headers(reply)
                raise await self._read_error(reply)

            def sink(data: bytes) -> bool:
                return connection.write_nowait(encode(exchange.feed(data))) and not exchange.finished

            while not await reply.read_into(sink) and not exchange.finished:
                await connection.drain()
            await self._finish_attempt(encode(exchange.close()))

    async def _finish_attempt(self, data: bytes) -> None:
        """Write the last bytes of an attempt, and end the response if nothing is left to send."""
        if not self._exchange.wants_retry and (self._tool_loop is None or self._tool_loop.finished):
            await self._connection.end(data + self._response.close())
        else:
            await self._connection.drain()
            await self._connection.write(data)

    @property
    def _encode(self) -> Callable[[Batch], bytes]:
        """Encodes a batch of events for the client, filtered by the tool loop if there is one."""
        feed, tool_loop = self._response.feed, self._tool_loop
        return feed if tool_loop is None else lambda batch: feed(tool_loop.feed(batch))

    async def _read_error(self, reply: UpstreamReply) -> FcshimError:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers}
        return self._codec.decode_error(reply.status, headers, await reply.read_error())


def _retry_headers(reply: UpstreamReply) -> list[tuple[bytes, bytes]]:
    """Return the headers of an upstream error that tell the client when to retry."""
    return [(name.encode(), reply.header(name).encode("latin-1")) for name in _RETRY_HEADERS if reply.header(name)]
