"""The facts about a request that metrics, records, traces and the inspector share: calls, tokens, times, attempts.

Rule: most reads cost an addition; everything else happens at the ends of calls, of attempts and of the request.
"""

import time
from typing import NamedTuple

from fcshim.codecs.routes import RouteMatch
from fcshim.config import ModelConfig
from fcshim.events import Event, Stop, ToolCallEnd, Usage
from fcshim.messages import Request
from fcshim.pipeline.attempt import Batch
from fcshim.pipeline.call_outcome import CallOutcome, outcome_of, outcomes_of_defects
from fcshim.pipeline.exchange import Exchange
from fcshim.pipeline.no_call import NoCall
from fcshim.server.client_connection import ClientConnection
from fcshim.server.observation import ObservedRun, Reads, RequestObserver
from fcshim.server.relayed_reply import RelayedCalls, RelayedUsage

NO_DIALECT = "native"
"""Instead of a dialect, if the upstream parses the calls itself."""
_MAX_OBSERVED = 10_000
"""Calls, attempts and runs of tools of one request that are kept."""


class ObservedCall(NamedTuple):
    """A call that the model made, or tried to make."""

    name: str
    dialect: str
    outcome: CallOutcome


class ObservedAttempt:
    """One request to the upstream, and its reply."""

    def __init__(self, exchange: Exchange, reason: str, started_at: float, *, native: bool) -> None:
        self.exchange = exchange
        self.attempt = exchange.attempt
        self.native = native
        self.backend = self.attempt.parse_record.backend
        self.path = exchange.attempt.upstream_request.path
        self.body = exchange.attempt.upstream_request.body
        self.reason = reason
        self.started_at = started_at
        self.error = ""


class ObservedRequest(RequestObserver):
    """One request from a client. Times are of the monotonic clock; `began_at` is Unix time."""

    def __init__(self, request_id: str, route: RouteMatch, connection: ClientConnection) -> None:
        self.id = request_id
        self.codec = route.api.codec
        self.operation = route.operation
        self.connection = connection
        self.began_at = time.time()
        self.started_at = time.monotonic()
        self.received_at = self.ended_at = 0.0
        self.first_event_at = 0.0
        self.own_seconds = 0.0
        """The proxy's own time: until the first request upstream, and for the events of each read."""
        self.body = b""
        self.request: Request | None = None
        self.model_config: ModelConfig | None = None
        self.attempts: list[ObservedAttempt] = []
        self.calls: list[ObservedCall] = []
        self.runs: list[ObservedRun] = []
        self.usage: Usage | None = None
        self.stop_reason = ""
        self.is_relayed = False
        self._relayed_usage = RelayedUsage()
        self._relayed_calls = RelayedCalls(self.codec.name)
        self.upstream_errors = 0
        self.cut_prompts = 0
        """Attempts of whose prompt the upstream has read only a part."""
        self.no_call: NoCall | None = None
        """Why the reply has no call although tools were offered."""
        self.status = 0
        self.error = ""

    @property
    def api(self) -> str:
        """The client's API."""
        return self.codec.name

    @property
    def model(self) -> str:
        """The model that the client asked for."""
        return "" if self.request is None else self.request.model

    @property
    def upstream(self) -> str:
        """The name of the upstream that served it, if there are several; the last one that was tried."""
        return self.connection.upstream

    def on_request(self, request: Request, body: bytes, model: ModelConfig) -> None:
        """Receive the decoded request."""
        self.request, self.body, self.model_config = request, body, model
        self.received_at = time.monotonic()

    def begin_attempt(self, exchange: Exchange, reason: str, *, native: bool) -> None:
        """Record an attempt before it is sent."""
        now = time.monotonic()
        if not self.attempts:
            self.own_seconds += now - self.received_at
        if len(self.attempts) < _MAX_OBSERVED:
            self.attempts.append(ObservedAttempt(exchange, reason, now, native=native))

    def fail_attempt(self, message: str) -> None:
        """Record that the attempt failed."""
        self.upstream_errors += 1
        self.attempts[-1].error = message

    def lose_prompt(self, message: str) -> None:  # noqa: ARG002 - the protocol's
        """Count a prompt that was cut."""
        self.cut_prompts += 1

    def miss_call(self, no_call: NoCall) -> None:
        """Record why the reply has no call."""
        self.no_call = no_call

    def end_attempt(self, batch: Batch) -> None:
        """Record the last events of the attempt."""
        if self.attempts:
            self.on_events(time.monotonic(), batch)
            record = self.attempts[-1].attempt.parse_record
            self.calls += [self._call("", outcome) for outcome in outcomes_of_defects(record)]

    def on_events(self, at: float, batch: Batch) -> None:
        """Receive the events of a read."""
        if batch and not self.first_event_at:
            self.first_event_at = at
        for _, event in batch:
            self._take_event(event)

    def on_seconds(self, seconds: float) -> None:
        """Receive the time of some reads."""
        self.own_seconds += seconds

    def on_relayed(self, reads: Reads) -> None:
        """Receive some reads of a relayed reply."""
        self.is_relayed = True
        self.first_event_at = self.first_event_at or reads.times[0]
        self._relayed_usage.add([reads.read.data])
        self._relayed_calls.add(reads.read.data)

    def on_run(self, run: ObservedRun) -> None:
        """Record a call that ran in this proxy."""
        if len(self.runs) < _MAX_OBSERVED:
            self.runs.append(run)

    def end(self, status: int, error: str) -> None:
        """Record the end of the response."""
        self.ended_at = time.monotonic()
        self.status, self.error = status, error
        if self.is_relayed and self.request is not None and status == 200:
            self.usage = self._relayed_usage.read(self.codec.decoder())
            self.calls = [ObservedCall("", NO_DIALECT, "relayed")] * len(self._relayed_calls)

    def _take_event(self, event: Event) -> None:
        match event:
            case ToolCallEnd() if len(self.calls) < _MAX_OBSERVED:
                last = self.attempts[-1]
                is_invalid = event.tool_call_id in last.exchange.invalid_calls
                outcome = outcome_of(
                    event,
                    last.attempt.parse_record,
                    is_retry=last.attempt.is_retry,
                    has_defect=is_invalid or bool(last.exchange.remaining_defects),
                )
                self.calls.append(self._call(event.tool_call_name, outcome))
            case Usage():
                self.usage = event
            case Stop():
                self.stop_reason = event.stop_reason

    def _call(self, name: str, outcome: CallOutcome) -> ObservedCall:
        dialect = self.attempts[-1].attempt.parse_record.dialect
        return ObservedCall(name, NO_DIALECT if dialect is None else dialect.name, outcome)
