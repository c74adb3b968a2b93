"""Observes a request while it is served, for metrics, records, traces and the inspector.

Rule: without an observer there is no cost. With one, a chunk costs two clock readings, and a tuple if reads are
kept. No chunk is read again while the reply runs: it has left the processor's cache, and fetching it costs more
than everything else. An observer that fails is removed, and the request continues.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fcshim.config import ModelConfig
from fcshim.errors import release_frames
from fcshim.events import Event, Reasoning, Text, ToolCallChunk, ToolCallEnd
from fcshim.messages import Request, text_of
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.tools.executor import CallEvent, CallFinished, CallListener, CallStarted

if TYPE_CHECKING:
    from fcshim.server.client_connection import Message, Send

logger = logging.getLogger("fcshim.server")

_BLOCK = 64
"""Reads that are passed to observers at once."""
_NO_EVENTS: Batch = []
_PIECES = frozenset({Text, Reasoning, ToolCallChunk})
"""Events that are only a piece of the reply."""


Read = tuple[float, bytes, Event | Batch, bytes]
"""A read of the upstream's reply: its time, its bytes, its events, and the bytes that the client got for it.

A single piece of the first choice is stored without its batch. For relayed bytes, both sides are the same; a write
without a read has empty bytes as its read.
"""


class Reads(NamedTuple):
    """Reads in their order; an observer that keeps them must not change them."""

    reads: Sequence[Read]
    size: int
    """The bytes on both sides."""


class ObservedRun(NamedTuple):
    """The execution of a call in this proxy; times are of the monotonic clock."""

    call: ToolCallEnd
    source: str
    failed: bool
    started_at: float
    ended_at: float
    result: str


class RequestObserver:
    """Observes one request; a subclass overrides the methods that it needs.

    The event loop calls them, so they must not block: long work goes through a queue with a limit.
    """

    wants_reads = False
    """Whether `take_reads` is called."""
    wants_writes = False
    """Whether `take_status` and `take_write` are called."""

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Take the decoded request; a large one outside of the event loop."""

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Handle an attempt before it is sent; see `dispatch.AttemptObserver`."""

    def take_events(self, at: float, batch: Batch) -> None:
        """Take the events of a read with more than one piece of the reply, and of the first read with events."""

    def take_seconds(self, seconds: float) -> None:
        """Take the time that the proxy itself took for the reads since the last call."""

    def take_reads(self, reads: Reads) -> None:
        """Take some reads of the current attempt, if `wants_reads`."""

    def fail_attempt(self, message: str) -> None:
        """Handle the failure of the attempt."""

    def end_attempt(self, batch: Batch) -> None:
        """Take the last events of the attempt, which have no bytes."""

    def take_relayed(self, reads: Reads) -> None:
        """Take some reads of a relayed reply, which the client gets unchanged."""

    def take_status(self, status: int) -> None:
        """Take the status when the response starts, if `wants_writes`."""

    def take_write(self, at: float, data: bytes) -> None:
        """Take a write that belongs to no read, such as a ping or the end, if `wants_writes`."""

    def take_run(self, run: ObservedRun) -> None:
        """Take a call that ran in this proxy."""

    def end(self, status: int, error: str) -> None:
        """Handle the end of the response; also called for an observer that was removed. `status` 0: none."""


class RequestObservers:
    """Notifies the observers of one request. Implements `dispatch.AttemptObserver`.

    After an error, an observer is only notified of the end, so that it can free what it holds; the error is logged
    once.
    """

    def __init__(self, observers: Sequence[RequestObserver]) -> None:
        self._observers = list(observers)
        self._left_out: list[RequestObserver] = []
        self._reads: list[Read] = []
        self._relayed: list[Read] = []
        self._size = 0
        """The bytes of the reads, on both sides."""
        self._seconds = 0.0
        self._reported = b""
        """Bytes that were reported with their read and are still to be sent, so that they are not reported twice."""

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Pass the decoded request on."""
        self._notify(lambda each: each.take_request(request, body, model))

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Report an attempt before it is sent."""
        self.catch_up()
        self._notify(lambda each: each.begin_attempt(exchange, reason, native=native))

    def fail_attempt(self, message: str) -> None:
        """Report that the attempt failed."""
        self.catch_up()
        self._notify(lambda each: each.fail_attempt(message))

    def end_attempt(self, batch: Batch) -> None:
        """Report the last events of the attempt."""
        self.catch_up()
        self._notify(lambda each: each.end_attempt(batch))

    def reader(
        self, exchange: AnyExchange, encode: Callable[[Batch], bytes], write: Callable[[bytes], bool]
    ) -> Callable[[bytes], bool]:
        """Return the function that takes each read of the upstream's body; see `dispatch.ReplySink`.

        It runs once per chunk. `encode` makes of events what `write` sends to the client.
        """
        decode, clock = exchange.feed, time.monotonic
        keeps = any(each.wants_reads for each in self._observers)
        pieces: frozenset[type] = frozenset()  # until the first event has come

        def read(data: bytes) -> bool:
            nonlocal pieces
            at, batch, encoded = clock(), _NO_EVENTS, b""
            try:
                batch = decode(data)
                encoded = encode(batch)
                if write(encoded):
                    return not exchange.finished
                self._reported = encoded
                return False
            finally:
                passed_at = clock()
                self._seconds += passed_at - at
                events: Event | Batch = batch
                if len(batch) == 1 and type(batch[0][1]) in pieces:
                    choice, event = batch[0]
                    events = batch if choice else event
                elif batch:
                    pieces = _PIECES
                    self._report_events(passed_at, batch)
                if keeps:
                    self._reads.append((at, data, events, encoded))
                    self._size += len(data) + len(encoded)
                    if len(self._reads) >= _BLOCK:
                        self.catch_up()

        return read

    def take_written(self, data: bytes) -> None:
        """Report bytes without a read that are written without waiting."""
        if data:
            self._reported = data
            self._report_write(data)

    def relay(self, data: bytes) -> None:
        """Report a read of a relayed reply, before it is written."""
        self._reported = data
        self._relayed.append((time.monotonic(), data, _NO_EVENTS, data))
        if len(self._relayed) >= _BLOCK:
            self.catch_up()

    def watch_response(self, send: "Send") -> "Send":
        """Return an ASGI `send` that reports what it sends; the same one if no observer wants writes."""
        if not any(each.wants_writes for each in self._observers):
            return send

        def send_and_report(message: "Message") -> Awaitable[None]:
            data = message.get("body")
            if "status" in message:
                self._notify(lambda each: each.take_status(message["status"]))
            elif data and data is not self._reported:
                self._report_write(data)
            return send(message)

        return send_and_report

    def watch_tools(self, sources: Mapping[str, str]) -> CallListener:
        """Return the listener for calls that run in this proxy; `sources` has the servers of the tools."""
        started: dict[str, tuple[ToolCallEnd, float]] = {}

        def listen(event: CallEvent) -> None:
            now = time.monotonic()
            if isinstance(event, CallStarted):
                started[event.call.tool_call_id] = event.call, now
            elif isinstance(event, CallFinished):
                call, began = started.pop(event.message.tool_call_id)
                source, result = sources.get(call.tool_call_name, ""), text_of(event.message.content)
                run = ObservedRun(call, source, event.message.is_error, began, now, result)
                self._notify(lambda each: each.take_run(run))

        return listen

    def catch_up(self) -> None:
        """Report the reads of the unfinished block."""
        if self._seconds:
            seconds, self._seconds = self._seconds, 0.0
            self._notify(lambda each: each.take_seconds(seconds))
        if self._reads:
            reads, self._reads, self._size = Reads(self._reads, self._size), [], 0
            self._notify(lambda each: each.take_reads(reads))
        if self._relayed:
            relayed = Reads(self._relayed, sum(len(data) for _, data, _, _ in self._relayed))
            self._relayed = []
            self._notify(lambda each: each.take_relayed(relayed))

    def end(self, status: int, error: str) -> None:
        """Report that the response has ended."""
        self.catch_up()
        ending, self._left_out = [*self._observers, *self._left_out], []
        for observer in ending:
            self._guard(observer, lambda each: each.end(status, error))
        self._observers = []  # breaks a cycle with the connection, which would stay until a full garbage collection

    def _report_events(self, at: float, batch: Batch) -> None:
        self._notify(lambda each: each.take_events(at, batch))

    def _report_write(self, data: bytes) -> None:
        """Report a write without a read."""
        self.catch_up()
        now = time.monotonic()
        self._notify(lambda each: each.take_write(now, data))

    def _notify(self, notify: Callable[[RequestObserver], None]) -> None:
        for observer in list(self._observers):
            self._guard(observer, notify)

    def _guard(self, observer: RequestObserver, notify: Callable[[RequestObserver], None]) -> None:
        try:
            notify(observer)
        except Exception as error:  # noqa: BLE001 - whatever it raises, the request goes on
            self._leave_out(observer, error)

    def _leave_out(self, observer: RequestObserver, error: Exception) -> None:
        """Remove an observer that raised `error`; it is only notified of the end."""
        logger.error("%s failed; the request goes on without it", type(observer).__name__, exc_info=error)
        release_frames(error)
        if observer in self._observers:
            self._observers.remove(observer)
            self._left_out.append(observer)
