"""What is observed of a request while it is served: metrics, records and traces are made of it when it ends.

Rule: nothing is observed where nobody asked for it. A chunk costs two clock readings; everything else happens at the
ends of attempts and of the request.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fcshim.codecs.routes import RouteMatch
from fcshim.config import ModelConfig
from fcshim.dispatch import ReplySink
from fcshim.events import Event, Stop, Text, ToolCallChunk, ToolCallEnd, Usage
from fcshim.messages import Request, text_of
from fcshim.pipeline.call_outcome import CallOutcome, outcome_of, outcomes_of_defects
from fcshim.pipeline.exchange import AnyExchange, Batch
from fcshim.server.client_connection import ClientConnection, RequestCapture
from fcshim.tools.executor import CallEvent, CallFinished, CallListener, CallStarted

NO_DIALECT = "native"
"""In place of a dialect, where the upstream reads the calls itself."""
_FREQUENT = (Text, ToolCallChunk)
_MAX_OBSERVED = 10_000
"""Calls, attempts and runs of tools of one request that are kept."""


class ObservedCall(NamedTuple):
    """A call that the model made, or tried to make."""

    name: str
    dialect: str
    outcome: CallOutcome


class ObservedRun(NamedTuple):
    """The execution of a call in this proxy; times are of the monotonic clock."""

    call: ToolCallEnd
    source: str
    failed: bool
    started_at: float
    ended_at: float
    result: str


class ObservedAttempt:
    """One request to the upstream, and its reply. `chunks` are kept for records only."""

    def __init__(self, exchange: AnyExchange, reason: str, started_at: float, *, native: bool) -> None:
        self.exchange = exchange
        self.native = native
        self.backend = exchange.reading.backend
        self.path = exchange.upstream_request.path
        self.body = exchange.upstream_request.body
        self.reason = reason
        self.started_at = started_at
        self.error = ""
        self.chunks: list[bytes] = []
        self.events: list[Event] = []


class ObservedRequest:
    """One request from a client. Times are of the monotonic clock; `began` is that of the beginning, in Unix time.

    `inner` observes the same request in another way. `keep_bytes`: what is kept of the replies.
    """

    def __init__(
        self,
        request_id: str,
        route: RouteMatch,
        connection: ClientConnection,
        *,
        keep_bytes: int,
        inner: RequestCapture | None,
    ) -> None:
        self.id = request_id
        self.api = route.api.codec.name
        self.operation = route.operation
        self.connection = connection
        self.began = time.time()
        self.started_at = time.monotonic()
        self.received_at = self.ended_at = 0.0
        self.first_event_at = 0.0
        self.own_seconds = 0.0
        """The time that the proxy itself took: until the first request upstream, and for the events of each read."""
        self.body = b""
        self.request: Request | None = None
        self.model_config: ModelConfig | None = None
        self.attempts: list[ObservedAttempt] = []
        self.calls: list[ObservedCall] = []
        self.runs: list[ObservedRun] = []
        self.usage: Usage | None = None
        self.stop_reason = ""
        self.relayed: list[bytes] = []
        self.is_relayed = False
        self.upstream_errors = 0
        self.status = 0
        self.error = ""
        self.keep_bytes = keep_bytes
        self.cut = False
        """Whether a part of the replies was not kept."""
        self._inner = inner

    @property
    def model(self) -> str:
        """The model that the client asked for."""
        return "" if self.request is None else self.request.model

    def take_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Take the decoded request."""
        self.request, self.body, self.model_config = request, body, model
        self.received_at = time.monotonic()
        if self._inner is not None:
            self._inner.take_request(request, body, model)

    def begin_attempt(self, exchange: AnyExchange, reason: str, *, native: bool) -> None:
        """Take note of an attempt before it is sent."""
        now = time.monotonic()
        if not self.attempts:
            self.own_seconds += now - self.received_at
        if len(self.attempts) < _MAX_OBSERVED:
            self.attempts.append(ObservedAttempt(exchange, reason, now, native=native))
        if self._inner is not None:
            self._inner.begin_attempt(exchange, reason, native=native)

    def fail_attempt(self, message: str) -> None:
        """Take note that the attempt failed."""
        self.upstream_errors += 1
        self.attempts[-1].error = message
        if self._inner is not None:
            self._inner.fail_attempt(message)

    def end_attempt(self, batch: Batch) -> None:
        """Take note of the last events of the attempt."""
        if self.attempts:
            self._take(batch)
            exchange = self.attempts[-1].exchange
            self.calls += [self._call("", outcome) for outcome in outcomes_of_defects(exchange.reading)]
        if self._inner is not None:
            self._inner.end_attempt(batch)

    def reader(self, exchange: AnyExchange, sink: ReplySink) -> Callable[[bytes], bool]:
        """Return the function that takes each read of the upstream's body. It runs once per chunk."""
        tap = _SinkTap(sink)
        inner = _reader(exchange, tap) if self._inner is None else self._inner.reader(exchange, tap)
        clock, take = time.perf_counter, self._take
        keep = self.attempts[-1].chunks.append if self.keep_bytes else None

        def read(data: bytes) -> bool:
            started_at = clock()
            if keep is not None and self._fits(data):
                keep(data)
            more = inner(data)
            batch = tap.batch
            if not self.first_event_at or len(batch) != 1 or type(batch[0][1]) not in _FREQUENT or keep is not None:
                take(batch)
            self.own_seconds += clock() - started_at
            return more

        return read

    def relay(self, data: bytes) -> None:
        """Take note of a read of a reply that is relayed."""
        self.is_relayed = True
        self.first_event_at = self.first_event_at or time.monotonic()
        if self.keep_bytes and self._fits(data):
            self.relayed.append(data)

    def watch_tools(self, sources: Mapping[str, str]) -> CallListener:
        """Return what is told of the calls that run in this proxy; `sources` has the servers of the tools."""
        started: dict[str, tuple[ToolCallEnd, float]] = {}

        def listen(event: CallEvent) -> None:
            now = time.monotonic()
            if isinstance(event, CallStarted):
                started[event.call.tool_call_id] = event.call, now
            elif isinstance(event, CallFinished) and len(self.runs) < _MAX_OBSERVED:
                call, began = started.pop(event.message.tool_call_id)
                source = sources.get(call.tool_call_name, "")
                result = text_of(event.message.content)
                self.runs.append(ObservedRun(call, source, event.message.is_error, began, now, result))

        return listen

    def end(self, status: int, error: str) -> None:
        """Take note that the response has ended."""
        self.ended_at = time.monotonic()
        self.status, self.error = status, error

    def _fits(self, data: bytes) -> bool:
        self.keep_bytes -= len(data)
        self.cut = self.cut or self.keep_bytes <= 0
        self.keep_bytes = max(self.keep_bytes, 1)
        return not self.cut

    def _take(self, batch: Batch) -> None:
        if batch and not self.first_event_at:
            self.first_event_at = time.monotonic()
        if self.keep_bytes and not self.cut:
            self.attempts[-1].events += [event for choice, event in batch if choice == 0]
        for _, event in batch:
            match event:
                case ToolCallEnd() if len(self.calls) < _MAX_OBSERVED:
                    exchange = self.attempts[-1].exchange
                    outcome = outcome_of(
                        event, exchange.reading, is_retry=exchange.is_retry, unmended=bool(exchange.unmended)
                    )
                    self.calls.append(self._call(event.tool_call_name, outcome))
                case Usage():
                    self.usage = event
                case Stop():
                    self.stop_reason = event.stop_reason

    def _call(self, name: str, outcome: CallOutcome) -> ObservedCall:
        dialect = self.attempts[-1].exchange.reading.dialect
        return ObservedCall(name, NO_DIALECT if dialect is None else dialect.name, outcome)


class RequestObserver(Protocol):
    """Makes something of observed requests: metrics, records, traces. It must not raise."""

    def begin(self, seen: ObservedRequest) -> None:
        """Take note of a request."""
        ...

    def end(self, seen: ObservedRequest) -> None:
        """Take note that its response has ended."""
        ...


class Observers:
    """The observers of one server. `keep_bytes`: what they want of the replies of one request, 0 for nothing."""

    def __init__(
        self,
        observers: Sequence[RequestObserver],
        *,
        keep_bytes: int = 0,
        on_close: Sequence[Callable[[], None]] = (),
        serve_metrics: Callable[[ClientConnection], Awaitable[None]] | None = None,
    ) -> None:
        self.serve_metrics = serve_metrics
        """Answers `/metrics`; None where there are no figures."""
        self._observers = observers
        self._on_close = on_close
        self._keep_bytes = keep_bytes

    def begin(self, request_id: str, route: RouteMatch, connection: ClientConnection) -> ObservedRequest | None:
        """Observe a request from now on; None without observers."""
        if not self._observers:
            return None
        seen = ObservedRequest(request_id, route, connection, keep_bytes=self._keep_bytes, inner=connection.capture)
        connection.capture = connection.observed = seen
        for observer in self._observers:
            observer.begin(seen)
        return seen

    def end(self, seen: ObservedRequest, status: int, error: str) -> None:
        """Report the end of a request."""
        seen.end(status, error)
        for observer in self._observers:
            observer.end(seen)

    def close(self) -> None:
        """Let the observers finish what waits."""
        for close in self._on_close:
            close()


NO_OBSERVERS = Observers(())


class _SinkTap:
    """Passes everything to a sink, and keeps the last batch that it got."""

    def __init__(self, sink: ReplySink) -> None:
        self._sink = sink
        self._feed = sink.feed
        self.batch: Batch = []
        self.restart, self.close = sink.restart, sink.close

    @property
    def started(self) -> bool:
        return self._sink.started

    def feed(self, batch: Batch) -> bool:
        self.batch = batch
        return self._feed(batch)


def _reader(exchange: AnyExchange, sink: _SinkTap) -> Callable[[bytes], bool]:
    decode, feed = exchange.feed, sink.feed

    def read(data: bytes) -> bool:
        return feed(decode(data)) and not exchange.finished

    return read
