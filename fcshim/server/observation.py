"""Observing a request while it is served: the one place that metrics, records, traces and the inspector are told from.

Rule: nothing is observed where nobody asked for it. A chunk costs two clock readings and two tuples: observers are told
of chunks in blocks, since a loop over many costs a fraction of many calls. What an observer does wrong is its own
affair: it is left out, and the request goes on.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fcshim.config import ModelConfig
from fcshim.dispatch import ReplySink
from fcshim.errors import release_frames
from fcshim.events import ToolCallEnd
from fcshim.messages import Request, text_of
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.tools.executor import CallEvent, CallFinished, CallListener, CallStarted

if TYPE_CHECKING:
    from fcshim.server.client_connection import Message, Send

logger = logging.getLogger("fcshim.server")

Read = tuple[float, float, bytes, Batch]
"""One read of the upstream's reply: when it came, when its events had been passed on, its bytes, its events."""
Write = tuple[float, bytes]
"""Bytes that went to the client, and when those came from which they were made."""
_BLOCK = 32
"""Chunks that are told of at once: their memory is still in the processor's cache."""
_MAX_WAIT = 0.5
"""Seconds after which the next chunk ends a block."""
_NO_EVENTS: Batch = []


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
    """Whether it is told of what goes to the client."""

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Take the decoded request. A large one comes beside the event loop."""

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Take note of an attempt before it is sent; see `dispatch.AttemptObserver`."""

    def take_reads(self, reads: Sequence[Read]) -> None:
        """Take some reads of the attempt that began last."""

    def fail_attempt(self, message: str) -> None:
        """Take note that the attempt failed."""

    def end_attempt(self, batch: Batch) -> None:
        """Take the last events of the attempt, which came without bytes."""

    def take_relayed(self, reads: Sequence[Write]) -> None:
        """Take some reads of a reply that is relayed."""

    def take_status(self, status: int) -> None:
        """Take note that the response has started; told to those that want writes."""

    def take_writes(self, writes: Sequence[Write]) -> None:
        """Take some writes of the response."""

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
        self._reads: list[Read] = []
        self._relayed: list[Write] = []
        self._writes: list[Write] = []
        self._due = 0.0
        self._now = time.monotonic()
        """When the last read came: what it brought is written at once, so that a write needs no clock of its own."""

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Tell of the decoded request."""
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

    def reader(self, exchange: AnyExchange, sink: ReplySink) -> Callable[[bytes], bool]:
        """Return the function that takes each read of the upstream's body. It runs once per chunk."""
        decode, feed, clock = exchange.feed, sink.feed, time.monotonic

        def read(data: bytes) -> bool:
            self._now = came_at = clock()
            batch = _NO_EVENTS
            try:
                batch = decode(data)
                return feed(batch) and not exchange.finished
            finally:
                passed_at = clock()
                reads = self._reads
                reads.append((came_at, passed_at, data, batch))
                if passed_at > self._due or len(reads) >= _BLOCK:
                    self.catch_up()

        return read

    def relay(self, data: bytes) -> None:
        """Tell of a read of a reply that is relayed, before it is written."""
        self._now = time.monotonic()
        self._relayed.append((self._now, data))
        if len(self._relayed) >= _BLOCK:
            self.catch_up()

    def watch_response(self, send: "Send") -> "Send":
        """Return an ASGI `send` that tells of what it sends; the same one if nobody wants to know."""
        return self._watched(send) if any(each.wants_writes for each in self._observers) else send

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
        reads, relayed, writes = self._reads, self._relayed, self._writes
        self._now = time.monotonic()
        self._due = self._now + _MAX_WAIT
        if reads:
            self._reads = []
            self._tell(lambda each: each.take_reads(reads))
        if relayed:
            self._relayed = []
            self._tell(lambda each: each.take_relayed(relayed))
        if writes:
            self._writes = []
            self._tell(lambda each: each.take_writes(writes))

    def end(self, status: int, error: str) -> None:
        """Tell that the response has ended."""
        self.catch_up()
        ending, self._left_out = [*self._observers, *self._left_out], []
        for observer in ending:
            self._guard(observer, lambda each: each.end(status, error))
        self._observers = []  # they know the connection, which knows them: such cycles stay until a full collection

    def _watched(self, send: "Send") -> "Send":
        def send_and_tell(message: "Message") -> Awaitable[None]:
            data = message.get("body")
            if data:
                writes = self._writes
                writes.append((self._now, data))
                if len(writes) >= 2 * _BLOCK:
                    self.catch_up()
            elif "status" in message:
                self._tell(lambda each: each.take_status(message["status"]))
            return send(message)

        return send_and_tell

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
