"""Observing a request while it is served: the one place that metrics, records, traces and the inspector are told from.

Rule: nothing is observed where nobody asked for it. A chunk costs two clock readings and a tuple: observers are told of
chunks in blocks, as sequences that functions in C work through, since a loop in Python over the chunks costs more than
all else. What an observer does wrong is its own affair: it is left out, and the request goes on.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fcshim.config import ModelConfig
from fcshim.errors import release_frames
from fcshim.events import Event, ToolCallEnd
from fcshim.messages import Request, text_of
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.tools.executor import CallEvent, CallFinished, CallListener, CallStarted

if TYPE_CHECKING:
    from fcshim.server.client_connection import Message, Send

logger = logging.getLogger("fcshim.server")

_BLOCK = 64
"""Chunks that are told of at once: their memory is still in the processor's cache."""
_NO_EVENTS: Batch = []


class Chunks(NamedTuple):
    """Some bytes in the order in which they came, with their times."""

    at: tuple[float, ...]
    data: tuple[bytes, ...]


class Reads(NamedTuple):
    """Some reads of an upstream's reply, in their order; all sequences but `events` are of the same length."""

    at: tuple[float, ...]
    passed_at: tuple[float, ...]
    """When the events of each had been passed on."""
    data: tuple[bytes, ...]
    batches: tuple[Batch, ...]
    written: tuple[bytes, ...]
    """What was made of each for the client; often empty."""
    events: list[Event] | None
    """The event of each read, if each brought one and the reply has one choice, as nearly all do."""


def _single_events(batches: Sequence[Batch]) -> list[Event] | None:
    try:
        return [event for ((_, event),) in batches]
    except ValueError:
        return None


class ObservedRun(NamedTuple):
    """The execution of a call in this proxy; times are of the monotonic clock."""

    call: ToolCallEnd
    source: str
    failed: bool
    started_at: float
    ended_at: float
    result: str


class RequestObserver:
    """Is told of one request; what a subclass does not override is of no interest to it.

    The event loop calls it, so it must not block: what may take long has a queue of its own, with a limit.
    """

    wants_writes = False
    """Whether it is told of what else goes to the client than what was made of reads."""

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Take the decoded request. A large one comes beside the event loop."""

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Take note of an attempt before it is sent; see `dispatch.AttemptObserver`."""

    def take_reads(self, reads: Reads) -> None:
        """Take some reads of the attempt that began last, and what the client got of them."""

    def fail_attempt(self, message: str) -> None:
        """Take note that the attempt failed."""

    def end_attempt(self, batch: Batch) -> None:
        """Take the last events of the attempt, which came without bytes."""

    def take_relayed(self, reads: Chunks) -> None:
        """Take some reads of a reply that is relayed, which the client gets as they are."""

    def take_status(self, status: int) -> None:
        """Take note that the response has started; told to those that want writes."""

    def take_write(self, at: float, data: bytes) -> None:
        """Take a write of the response that was made of no read: a ping, the end. Told to those that want writes."""

    def take_run(self, run: ObservedRun) -> None:
        """Take note of a call that ran in this proxy."""

    def end(self, status: int, error: str) -> None:
        """Take note that the response has ended; also told to an observer that was left out. `status` 0: none."""


class RequestObservers:
    """Tells the observers of one request. Implements `dispatch.AttemptObserver`.

    One that raises is told nothing further but the end, when it frees what it holds; the log says so once.
    """

    def __init__(self, observers: Sequence[RequestObserver]) -> None:
        self._observers = list(observers)
        self._left_out: list[RequestObserver] = []
        self._reads: list[tuple[float, float, bytes, Batch, bytes]] = []
        self._relayed: list[tuple[float, bytes]] = []
        self._has_choices = False
        self._told = b""
        """What was made of a read and is still to be sent: it is told of with the read, not once more."""

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Tell of the decoded request."""
        self._has_choices = request.n > 1
        self._tell(lambda each: each.take_request(request, body, model))

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Tell of an attempt before it is sent."""
        self.catch_up()
        self._tell(lambda each: each.begin_attempt(exchange, reason, native=native))

    def fail_attempt(self, message: str) -> None:
        """Tell that the attempt failed."""
        self.catch_up()
        self._tell(lambda each: each.fail_attempt(message))

    def end_attempt(self, batch: Batch) -> None:
        """Tell of the last events of the attempt."""
        self.catch_up()
        self._tell(lambda each: each.end_attempt(batch))

    def reader(
        self, exchange: AnyExchange, encode: Callable[[Batch], bytes], write: Callable[[bytes], bool]
    ) -> Callable[[bytes], bool]:
        """Return the function that takes each read of the upstream's body; see `dispatch.ReplySink`.

        It runs once per chunk. `encode` makes of events what `write` sends to the client.
        """
        decode, clock, reads = exchange.feed, time.monotonic, self._reads

        def read(data: bytes) -> bool:
            at, batch = clock(), _NO_EVENTS
            try:
                batch = decode(data)
                encoded = encode(batch)
                is_sent = write(encoded)
            except BaseException:
                reads.append((at, clock(), data, batch, b""))
                raise
            reads.append((at, clock(), data, batch, encoded))
            if len(reads) >= _BLOCK:
                self.catch_up()
            if is_sent:
                return not exchange.finished
            self._told = encoded
            return False

        return read

    def take_written(self, data: bytes) -> None:
        """Tell of what was made of no read and written without waiting."""
        if data:
            self._told = data
            self._tell_sent(data)

    def relay(self, data: bytes) -> None:
        """Tell of a read of a reply that is relayed, before it is written."""
        self._told = data
        self._relayed.append((time.monotonic(), data))
        if len(self._relayed) >= _BLOCK:
            self.catch_up()

    def watch_response(self, send: "Send") -> "Send":
        """Return an ASGI `send` that tells of what it sends; the same one if nobody wants to know."""
        if not any(each.wants_writes for each in self._observers):
            return send

        def send_and_tell(message: "Message") -> Awaitable[None]:
            data = message.get("body")
            if "status" in message:
                self._tell(lambda each: each.take_status(message["status"]))
            elif data and data is not self._told:
                self._tell_sent(data)
            return send(message)

        return send_and_tell

    def watch_tools(self, sources: Mapping[str, str]) -> CallListener:
        """Return what is told of the calls that run in this proxy; `sources` has the servers of the tools."""
        started: dict[str, tuple[ToolCallEnd, float]] = {}

        def listen(event: CallEvent) -> None:
            now = time.monotonic()
            if isinstance(event, CallStarted):
                started[event.call.tool_call_id] = event.call, now
            elif isinstance(event, CallFinished):
                call, began = started.pop(event.message.tool_call_id)
                source, result = sources.get(call.tool_call_name, ""), text_of(event.message.content)
                run = ObservedRun(call, source, event.message.is_error, began, now, result)
                self._tell(lambda each: each.take_run(run))

        return listen

    def catch_up(self) -> None:
        """Tell of the chunks that wait for their block to be full."""
        if self._reads:
            at, passed_at, data, batches, written = zip(*self._reads, strict=True)
            events = None if self._has_choices else _single_events(batches)
            reads = Reads(at, passed_at, data, batches, written, events)
            self._reads.clear()
            self._tell(lambda each: each.take_reads(reads))
        if self._relayed:
            relayed = Chunks(*zip(*self._relayed, strict=True))
            self._relayed.clear()
            self._tell(lambda each: each.take_relayed(relayed))

    def end(self, status: int, error: str) -> None:
        """Tell that the response has ended."""
        self.catch_up()
        ending, self._left_out = [*self._observers, *self._left_out], []
        for observer in ending:
            self._guard(observer, lambda each: each.end(status, error))
        self._observers = []  # they know the connection, which knows them: such cycles stay until a full collection

    def _tell_sent(self, data: bytes) -> None:
        """Tell of a write that was made of no read."""
        self.catch_up()
        now = time.monotonic()
        self._tell(lambda each: each.take_write(now, data))

    def _tell(self, tell: Callable[[RequestObserver], None]) -> None:
        for observer in list(self._observers):
            self._guard(observer, tell)

    def _guard(self, observer: RequestObserver, tell: Callable[[RequestObserver], None]) -> None:
        try:
            tell(observer)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the request goes on
            self._leave_out(observer, error)

    def _leave_out(self, observer: RequestObserver, error: Exception) -> None:
        """Take an observer that raised `error` out of everything but the end."""
        logger.error("%s failed; the request goes on without it", type(observer).__name__, exc_info=error)
        release_frames(error)
        if observer in self._observers:
            self._observers.remove(observer)
            self._left_out.append(observer)
