"""One request that is answered here: what it takes to ask the upstream, and to write what the client is to see.

Rule: the status stays open until there is something to say, so that what goes wrong before is a real HTTP error; what
goes wrong after it is told in the stream, which then has no clean end.
Neighbours: `asking` says what to send, `answer` and `line` write, `course` executes the tools that run here.
"""

from collections.abc import Callable, Sequence

from fcshim.codecs.base import Codec
from fcshim.dispatch import RequestAttempts
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import Error
from fcshim.exchange import Batch
from fcshim.messages import Request
from fcshim.response import ClientResponse
from fcshim.server.client_connection import ClientConnection, PingSchedule
from fcshim.server.tool_loop import ToolLoop
from fcshim.upstream import Upstream, UpstreamReply

_STREAM_HEADERS = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_RETRY_HEADERS = ("retry-after", "retry-after-ms")

NewAttempts = Callable[[Request], RequestAttempts]
"""Makes the question of a request."""


class RequestHandler:
    """One reply to one client; `course` where tools run here, which makes several questions of it."""

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
        """Have it. Raises `FcshimError` where nothing has been sent yet."""
        self._attempts = self._new_attempts(request)
        self._exchange = await self._attempts.first()
        line, course = self._connection, self._tool_loop
        line.prepare(
            200, [(b"content-type", self._response.content_type.encode()), *(_STREAM_HEADERS if streamed else ())]
        )
        pulse = PingSchedule(self._ping, first_interval=first_ping, interval=ping) if streamed else None
        try:
            async with line.watch_disconnect(pulse):
                await self._run_attempts()
                while course is not None and not course.finished:
                    await self._run_next_round(course)
        except FcshimError as error:
            events = self._exchange.fail(error)
            if course is not None:
                events = course.fail(events, error)
            if not self._response.started and (not events or isinstance(events[-1][1], Error)):
                raise
            await line.end(self._response.feed(events) + self._response.close())

    async def _run_next_round(self, tool_loop: ToolLoop) -> None:
        """Have the tools run, and ask the model on."""
        rest = await tool_loop.run_tools()
        if rest:
            await self._connection.end(self._response.feed(rest) + self._response.close())
            return
        self._attempts = self._new_attempts(tool_loop.request)
        self._exchange = await self._attempts.first()
        await self._run_attempts()

    async def _run_attempts(self) -> None:
        """Ask the upstream: in another way where it refuses one, once more where it answers badly."""
        more = True
        while more:
            try:
                await self._stream_attempt()
            except UpstreamError as error:
                await self._fall_back(error)
            else:
                self._attempts.confirm(self._exchange)
                more = await self._attempts.retry(self._exchange)
        if self._exchange.wants_retry:  # it was wanted, and could not be
            await self._finish_attempt(self._encode(self._exchange.close()))

    async def _fall_back(self, error: UpstreamError) -> None:
        course = self._tool_loop
        late = self._connection.started or (course is not None and course.has_run_tools)
        other = await self._attempts.fallback(self._exchange, error, response_started=late)
        if other is None:
            raise error
        if other is not self._exchange:
            self._exchange, self._response = other, self._new_response()
            if course is not None:
                course.restart()

    def _ping(self) -> bytes:
        return self._response.ping()

    async def _stream_attempt(self) -> None:
        """Ask the upstream, and write what the client is to see, to the end where nothing is left to do."""
        line, asked, feed = self._connection, self._exchange, self._encode
        async with self._upstream.send_request(asked.upstream_request, headers=self._headers) as reply:
            if reply.status != 200:
                line.extra_headers += _retry_headers(reply)
                raise await self._read_error(reply)

            def take(data: bytes) -> bool:
                return line.write_nowait(feed(asked.feed(data))) and not asked.finished

            while not await reply.read_into(take) and not asked.finished:
                await line.drain()
            await self._finish_attempt(feed(asked.close()))

    async def _finish_attempt(self, data: bytes) -> None:
        """Write the last of a try; the end of the answer where nothing is left to do."""
        if not self._exchange.wants_retry and (self._tool_loop is None or self._tool_loop.finished):
            await self._connection.end(data + self._response.close())
        else:
            await self._connection.drain()
            await self._connection.write(data)

    @property
    def _encode(self) -> Callable[[Batch], bytes]:
        """What makes bytes of events, by way of the course where there is one."""
        feed, course = self._response.feed, self._tool_loop
        return feed if course is None else lambda batch: feed(course.feed(batch))

    async def _read_error(self, reply: UpstreamReply) -> FcshimError:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers}
        return self._codec.decode_error(reply.status, headers, await reply.read_error())


def _retry_headers(reply: UpstreamReply) -> list[tuple[bytes, bytes]]:
    """Give the headers of an error answer that tell the client when to come again."""
    return [(name.encode(), reply.header(name).encode("latin-1")) for name in _RETRY_HEADERS if reply.header(name)]
