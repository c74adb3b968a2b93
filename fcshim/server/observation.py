"""Observes a request while it is served, for metrics, records, traces and the inspector.

Rule: without an observer there is no cost. With one, a chunk costs a look at the kind of its event, and an entry in
four lists if reads are kept; these are joined while the cache still has them, so that their memory is used again for
the next chunks. No chunk is read again while the reply runs. An observer that fails is removed, and the request
continues.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fcshim.config import ModelConfig
from fcshim.errors import release_frames
from fcshim.events import Event, Reasoning, Text, ToolCallChunk, ToolCallEnd
from fcshim.messages import Request, Tool, text_of
from fcshim.pipeline.attempt import Batch
from fcshim.pipeline.exchange import Exchange
from fcshim.pipeline.no_call import NoCall
from fcshim.tools.executor import CallEvent, CallFinished, CallListener, CallStarted

if TYPE_CHECKING:
    from fcshim.server.client_connection import Message, Send

logger = logging.getLogger("fcshim.server")

_BLOCK = 128
"""Reads that are passed to observers at once: some 50 KB, which the processor's cache still has."""
_PIECES = frozenset({Text, Reasoning, ToolCallChunk})
"""Events that are only a piece of the reply."""


class Chunks(NamedTuple):
    """Chunks of bytes, joined: they are kept in a fraction of the objects."""

    data: bytes
    sizes: Sequence[int]


class Reads(NamedTuple):
    """Some reads of an upstream's reply in their order, as columns; an observer that keeps them must not change them.

    A single piece of the first choice stands without its batch. A read that was unusable comes last, and has neither
    events nor a write. For relayed bytes, `read` and `written` are the same; a write without a read has no `read`.
    """

    times: Sequence[float]
    read: Chunks
    events: Sequence[Event | Batch]
    written: Chunks
    """The bytes that the client got: one chunk, unless the reply was relayed; empty unless an observer wants writes."""

    @property
    def size(self) -> int:
        """The bytes that are kept."""
        return len(self.read.data) + (0 if self.written is self.read else len(self.written.data))


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
    """Whether `on_reads` is called."""
    wants_writes = False
    """Whether `on_status` and `on_write` are called, and reads have what was written."""
    wants_seconds = False
    """Whether `on_seconds` is called."""

    def on_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Receive the decoded request; a large one outside of the event loop."""

    def on_tools(self, tools: tuple[Tool, ...]) -> None:
        """Receive the offered tools where some run in this proxy; outside of the event loop."""

    def begin_attempt(self, exchange: Exchange, reason: str, *, native: bool) -> None:
        """Handle an attempt before it is sent; see `dispatch.AttemptObserver`."""

    def on_events(self, at: float, batch: Batch) -> None:
        """Receive the events of a read, unless it only continues a text, or a call's arguments, by one piece."""

    def on_seconds(self, seconds: float) -> None:
        """Receive the time that the proxy itself took for the reads since the last call, if `wants_seconds`."""

    def on_reads(self, reads: Reads) -> None:
        """Receive some reads of the current attempt, if `wants_reads`."""

    def fail_attempt(self, message: str) -> None:
        """Handle the failure of the attempt."""

    def lose_prompt(self, message: str) -> None:
        """Handle that the upstream has read only a part of the attempt's prompt."""

    def vary_prompt(self, message: str) -> None:
        """Handle that text at the front of the attempt's prompt varies, so that much is read again."""

    def end_attempt(self, batch: Batch) -> None:
        """Receive the last events of the attempt, which have no bytes."""

    def miss_call(self, no_call: NoCall) -> None:
        """Handle that the reply has no call although tools were offered."""

    def on_relayed(self, reads: Reads) -> None:
        """Receive some reads of a relayed reply, which the client gets unchanged."""

    def on_status(self, status: int) -> None:
        """Receive the status when the response starts, if `wants_writes`."""

    def on_write(self, at: float, data: bytes) -> None:
        """Receive a write that belongs to no read, such as a ping or the end, if `wants_writes`."""

    def on_run(self, run: ObservedRun) -> None:
        """Receive a call that ran in this proxy."""

    def end(self, status: int, error: str) -> None:
        """Handle the end of the response; also called for an observer that was removed. `status` 0: none."""


class _GuardedObservers:
    """The observers of one request, whose errors never reach the request.

    After an error, an observer is only notified of the end, so that it can free what it holds; the error is logged
    once.
    """

    def __init__(self, observers: Sequence[RequestObserver]) -> None:
        self._observers = list(observers)
        self._left_out: list[RequestObserver] = []

    def any(self, wants: Callable[[RequestObserver], bool]) -> bool:
        """Return whether an observer wants something."""
        return any(map(wants, self._observers))

    def notify(self, notify: Callable[[RequestObserver], None]) -> None:
        """Notify each observer."""
        for observer in list(self._observers):
            self._guard(observer, notify)

    def end(self, status: int, error: str) -> None:
        """Notify also those that were left out of the end."""
        ending, self._left_out = [*self._observers, *self._left_out], []
        for observer in ending:
            self._guard(observer, lambda each: each.end(status, error))
        self._observers = []  # breaks a cycle with the connection, which would stay until a full garbage collection

    def _guard(self, observer: RequestObserver, notify: Callable[[RequestObserver], None]) -> None:
        try:
            notify(observer)
        except Exception as error:
            logger.exception("%s failed; the request continues without it", type(observer).__name__)
            release_frames(error)
            if observer in self._observers:
                self._observers.remove(observer)
                self._left_out.append(observer)


class RequestObservers:
    """Notifies the observers of one request. Implements `dispatch.AttemptObserver`."""

    def __init__(self, observers: Sequence[RequestObserver]) -> None:
        self._observers = _GuardedObservers(observers)
        self._times: list[float] = []
        self._data: list[bytes] = []
        self._events: list[Event | Batch] = []
        self._written: list[bytes] = []
        """The columns of the unfinished block; lists that are cleared, as each reader holds them."""
        self._awaits_write = False
        """Whether what is written next belongs to the last read."""
        self._is_relayed = False
        self._seconds = 0.0
        self._relayed = b""
        """Bytes of a relayed reply that are reported already, and still to be written."""

    def on_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Pass the decoded request on."""
        self._observers.notify(lambda each: each.on_request(request, body, model))

    def on_tools(self, tools: tuple[Tool, ...]) -> None:
        """Pass the offered tools on, with those that run in this proxy."""
        self._observers.notify(lambda each: each.on_tools(tools))

    def begin_attempt(self, exchange: Exchange, reason: str, *, native: bool) -> None:
        """Report an attempt before it is sent."""
        self.catch_up()
        self._observers.notify(lambda each: each.begin_attempt(exchange, reason, native=native))

    def fail_attempt(self, message: str) -> None:
        """Report that the attempt failed."""
        self.catch_up()
        self._observers.notify(lambda each: each.fail_attempt(message))

    def lose_prompt(self, message: str) -> None:
        """Report that the upstream has read only a part of the attempt's prompt."""
        self._observers.notify(lambda each: each.lose_prompt(message))

    def vary_prompt(self, message: str) -> None:
        """Report that text at the front of the attempt's prompt varies."""
        self._observers.notify(lambda each: each.vary_prompt(message))

    def end_attempt(self, batch: Batch) -> None:
        """Report the last events of the attempt."""
        self.catch_up()
        self._observers.notify(lambda each: each.end_attempt(batch))

    def miss_call(self, no_call: NoCall) -> None:
        """Report why the reply has no call although tools were offered."""
        self._observers.notify(lambda each: each.miss_call(no_call))

    def reader(self, exchange: Exchange, feed: Callable[[Batch], bool]) -> Callable[[bytes], bool]:
        """Return the function that handles each read of the upstream's body; see `dispatch.AttemptObserver`.

        It runs once per chunk.
        """
        if self._observers.any(lambda each: each.wants_reads):
            read = self._keeping_reader(exchange, feed)
        else:
            read = self._watching_reader(exchange, feed)
        return self._timed(read) if self._observers.any(lambda each: each.wants_seconds) else read

    def _watching_reader(self, exchange: Exchange, feed: Callable[[Batch], bool]) -> Callable[[bytes], bool]:
        """Return a reader that reports only events which are more than a piece of the reply."""
        decode = exchange.feed
        piece: type | None = None

        def read(data: bytes) -> bool:
            nonlocal piece
            batch = decode(data)
            if batch and not (len(batch) == 1 and type(batch[0][1]) is piece):
                piece = self._report_events(batch)
            return feed(batch) and not exchange.finished

        return read

    def _keeping_reader(self, exchange: Exchange, feed: Callable[[Batch], bool]) -> Callable[[bytes], bool]:
        """Return a reader that also keeps each read for `on_reads`."""
        decode, clock = exchange.feed, time.monotonic
        times, reads, events = self._times, self._data, self._events
        piece: type | None = None

        def read(data: bytes) -> bool:
            nonlocal piece
            times.append(clock())
            reads.append(data)
            batch = decode(data)
            if len(batch) == 1 and type(batch[0][1]) is piece:
                choice, event = batch[0]
                events.append(batch if choice else event)
            else:
                events.append(batch)
                if batch:
                    piece = self._report_events(batch)
            self._awaits_write = True
            wants_more = feed(batch)
            if len(times) == _BLOCK:
                self.catch_up()
            return wants_more and not exchange.finished

        return read

    def on_written(self, data: bytes) -> None:
        """Take the bytes that are written without waiting: for the last read, or without one."""
        if self._awaits_write:
            self._awaits_write = False
            self._written.append(data)
        elif data:
            self._report_write(data)

    def relay(self, data: bytes) -> None:
        """Report a read of a relayed reply, before it is written."""
        self._is_relayed, self._relayed = True, data
        self._times.append(time.monotonic())
        self._data.append(data)
        if len(self._times) == _BLOCK:
            self.catch_up()

    def watch_response(self, send: "Send") -> "Send":
        """Return an ASGI `send` that reports what it sends; the same one if no observer wants writes."""
        if not self.wants_writes:
            return send

        def send_and_report(message: "Message") -> Awaitable[None]:
            data = message.get("body")
            if "status" in message:
                self._observers.notify(lambda each: each.on_status(message["status"]))
            elif data and data is not self._relayed:
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
                call, started_at = started.pop(event.message.tool_call_id)
                source, result = sources.get(call.tool_call_name, ""), text_of(event.message.content)
                run = ObservedRun(call, source, event.message.is_error, started_at, now, result)
                self._observers.notify(lambda each: each.on_run(run))

        return listen

    @property
    def wants_writes(self) -> bool:
        """Whether an observer wants what is written."""
        return self._observers.any(lambda each: each.wants_writes)

    def catch_up(self) -> None:
        """Report the reads of the unfinished block."""
        if self._seconds:
            seconds, self._seconds = self._seconds, 0.0
            self._observers.notify(lambda each: each.on_seconds(seconds))
        if self._times:
            self._report_block()

    def end(self, status: int, error: str) -> None:
        """Report that the response has ended."""
        self.catch_up()
        self._observers.end(status, error)

    def _timed(self, read: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        """Add the time of each read to the proxy's own."""
        clock = time.monotonic

        def read_timed(data: bytes) -> bool:
            started_at = clock()
            try:
                return read(data)
            finally:
                self._seconds += clock() - started_at

        return read_timed

    def _report_block(self) -> None:
        """Report the reads since the last block."""
        self._awaits_write = False
        data, written = b"".join(self._data), b"".join(self._written) if self.wants_writes else b""
        read = Chunks(data, tuple(map(len, self._data)))
        sent = read if self._is_relayed else Chunks(written, (len(written),))
        reads = Reads(tuple(self._times), read, tuple(self._events), sent)
        for column in (self._times, self._data, self._events, self._written):
            column.clear()
        self._observers.notify(lambda each: each.on_relayed(reads) if self._is_relayed else each.on_reads(reads))

    def _report_events(self, batch: Batch) -> type | None:
        """Report events; return the type of the last one if it is a piece, of which more may come."""
        now, last = time.monotonic(), type(batch[-1][1])
        self._observers.notify(lambda each: each.on_events(now, batch))
        return last if last in _PIECES else None

    def _report_write(self, data: bytes) -> None:
        """Report a write without a read."""
        self.catch_up()
        now = time.monotonic()
        self._observers.notify(lambda each: each.on_write(now, data))
