"""One request that is answered here: what it takes to ask the upstream, and to write what the client is to see.

Rule: the status stays open until there is something to say, so that what goes wrong before is a real HTTP error; what
goes wrong after it is told in the stream, which then has no clean end.
Neighbours: `asking` says what to send, `answer` and `line` write, `course` executes the tools that run here.
"""

from collections.abc import Callable, Sequence

from fcshim.answer import Answer
from fcshim.asking import Question
from fcshim.codecs.base import Codec
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import Error
from fcshim.exchange import Batch
from fcshim.messages import Request
from fcshim.server.course import Course
from fcshim.server.line import Line, Pulse
from fcshim.upstream import Upstream, UpstreamReply

_STREAM = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_RETRY = ("retry-after", "retry-after-ms")

Ask = Callable[[Request], Question]
"""Makes the question of a request."""


class Conversation:
    """One reply to one client; `course` where tools run here, which makes several questions of it."""

    def __init__(
        self,
        line: Line,
        upstream: Upstream,
        codec: Codec,
        *,
        ask: Ask,
        new_answer: Callable[[], Answer],
        headers: Sequence[tuple[bytes, bytes]],
        course: Course | None,
    ) -> None:
        self._line = line
        self._upstream = upstream
        self._codec = codec
        self._ask = ask
        self._new_answer = new_answer
        self._answer = new_answer()
        self._headers = headers
        self._course = course

    async def hold(self, request: Request, *, streamed: bool, first_ping: float, ping: float) -> None:
        """Have it. Raises `FcshimError` where nothing has been sent yet."""
        self._question = self._ask(request)
        self._asked = await self._question.begin()
        line, course = self._line, self._course
        line.plan(200, [(b"content-type", self._answer.content_type.encode()), *(_STREAM if streamed else ())])
        pulse = Pulse(self._ping, before=first_ping, running=ping) if streamed else None
        try:
            async with line.attended(pulse):
                await self._have_answered()
                while course is not None and not course.over:
                    await self._go_on(course)
        except FcshimError as error:
            events = self._asked.fail(error)
            if course is not None:
                events = course.fail(events, error)
            if not self._answer.begun and (not events or isinstance(events[-1][1], Error)):
                raise
            await line.end(self._answer.feed(events) + self._answer.close())

    async def _go_on(self, course: Course) -> None:
        """Have the tools run, and ask the model on."""
        rest = await course.go_on()
        if rest:
            await self._line.end(self._answer.feed(rest) + self._answer.close())
            return
        self._question = self._ask(course.request)
        self._asked = await self._question.begin()
        await self._have_answered()

    async def _have_answered(self) -> None:
        """Ask the upstream: in another way where it refuses one, once more where it answers badly."""
        more = True
        while more:
            try:
                await self._pump()
            except UpstreamError as error:
                await self._turn_to_another(error)
            else:
                self._question.accepted(self._asked)
                more = await self._question.again(self._asked)
        if self._asked.again:  # it was wanted, and could not be
            await self._write(self._feed(self._asked.close()))

    async def _turn_to_another(self, error: UpstreamError) -> None:
        course = self._course
        late = self._line.started or (course is not None and course.begun)
        other = await self._question.instead(self._asked, error, late=late)
        if other is None:
            raise error
        if other is not self._asked:
            self._asked, self._answer = other, self._new_answer()
            if course is not None:
                course.restart()

    def _ping(self) -> bytes:
        return self._answer.ping()

    async def _pump(self) -> None:
        """Ask the upstream, and write what the client is to see, to the end where nothing is left to do."""
        line, asked, feed = self._line, self._asked, self._feed
        async with self._upstream.ask(asked.outgoing, headers=self._headers) as reply:
            if reply.status != 200:
                line.extra_headers += _kept(reply)
                raise await self._refusal(reply)

            def take(data: bytes) -> bool:
                return line.push(feed(asked.feed(data))) and not asked.finished

            while not await reply.pour(take) and not asked.finished:
                await line.settle()
            await self._write(feed(asked.close()))

    async def _write(self, rest: bytes) -> None:
        """Write the last of a try; the end of the answer where nothing is left to do."""
        if not self._asked.again and (self._course is None or self._course.over):
            await self._line.end(rest + self._answer.close())
        else:
            await self._line.settle()
            await self._line.write(rest)

    @property
    def _feed(self) -> Callable[[Batch], bytes]:
        """What makes bytes of events, by way of the course where there is one."""
        feed, course = self._answer.feed, self._course
        return feed if course is None else lambda batch: feed(course.feed(batch))

    async def _refusal(self, reply: UpstreamReply) -> FcshimError:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers}
        return self._codec.decode_error(reply.status, headers, await reply.read_error())


def _kept(reply: UpstreamReply) -> list[tuple[bytes, bytes]]:
    """Give the headers of an error answer that tell the client when to come again."""
    return [(name.encode(), reply.header(name).encode("latin-1")) for name in _RETRY if reply.header(name)]
