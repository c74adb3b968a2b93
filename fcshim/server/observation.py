"""Observing a request while it is served: the one place that metrics, records, traces and the inspector are told from.

Rule: nothing is observed where nobody asked for it. A chunk costs two clock readings, and a tuple where reads are kept.
Nothing looks at a chunk again while the reply runs: by then it is in no cache, and to fetch it costs more than all
else. What an observer does wrong is its own affair: it is left out, and the request goes on.
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
"""Reads that are told of at once."""
_NO_EVENTS: Batch = []
_PIECES = frozenset({Text, Reasoning, ToolCallChunk})
"""The events that are no more than a piece of the reply."""


Read = tuple[float, bytes, Event | Batch, bytes]
"""A read of the upstream's reply: when it came, its bytes, its events, and what was made of it for the client.

A single piece of the first choice stands without its batch. What is relayed stands on both sides; a write that was made
of no read has empty bytes as its read.
"""


class Reads(NamedTuple):
    """Some reads in their order; whoever keeps them must not change them."""

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
    """Is told of one request; what a subclass does not override is of no interest to it.

    The event loop calls it, so it must not block: what may take long has a queue of its own, with a limit.
    """

    wants_reads = False
    """Whether it is told of the reads of replies that are not relayed."""
    wants_writes = False
    """Whether it is told of what else goes to the client than what was made of reads."""

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Take the decoded request. A large one comes beside the event loop."""

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Take note of an attempt before it is sent; see `dispatch.AttemptObserver`."""

    def take_events(self, at: float, batch: Batch) -> None:
        """Take the events of a read that brought more than a piece of the reply, and of the first that brought any."""

    def take_seconds(self, seconds: float) -> None:
        """Take the time that the proxy itself took for the reads since the last time that it was told."""

    def take_reads(self, reads: Reads) -> None:
        """Take some reads of the attempt that began last; told to those that want reads."""

    def fail_attempt(self, message: str) -> None:
        """Take note that the attempt failed."""

    def end_attempt(self, batch: Batch) -> None:
        """Take the last events of the attempt, which came without bytes."""

    def take_relayed(self, reads: Reads) -> None:
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
        self._reads: list[Read] = []
        self._relayed: list[Read] = []
        self._size = 0
        """The bytes of the reads, on both sides."""
        self._seconds = 0.0
        self._told = b""
        """What was made of a read and is still to be sent: it is told of with the read, not once more."""

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
                self._told = encoded
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
                    self._tell_events(passed_at, batch)
                if keeps:
                    self._reads.append((at, data, events, encoded))
                    self._size += len(data) + len(encoded)
                    if len(self._reads) >= _BLOCK:
                        self.catch_up()

        return read

    def take_written(self, data: bytes) -> None:
        """Tell of what was made of no read and written without waiting."""
        if data:
            self._told = data
            self._tell_sent(data)

    def relay(self, data: bytes) -> None:
        """Tell of a read of a reply that is relayed, before it is written."""
        self._told = data
        self._relayed.append((time.monotonic(), data, _NO_EVENTS, data))
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
        """Tell of what waits for a block to be full."""
        if self._seconds:
            seconds, self._seconds = self._seconds, 0.0
            self._tell(lambda each: each.take_seconds(seconds))
        if self._reads:
            reads, self._reads, self._size = Reads(self._reads, self._size), [], 0
            self._tell(lambda each: each.take_reads(reads))
        if self._relayed:
            relayed = Reads(self._relayed, sum(len(data) for _, data, _, _ in self._relayed))
            self._relayed = []
            self._tell(lambda each: each.take_relayed(relayed))

    def end(self, status: int, error: str) -> None:
        """Tell that the response has ended."""
        self.catch_up()
        ending, self._left_out = [*self._observers, *self._left_out], []
        for observer in ending:
            self._guard(observer, lambda each: each.end(status, error))
        self._observers = []  # they know the connection, which knows them: such cycles stay until a full collection

    def _tell_events(self, at: float, batch: Batch) -> None:
        self._tell(lambda each: each.take_events(at, batch))

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
