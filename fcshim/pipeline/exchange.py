"""One request with its reply: the upstream's bytes in, the client's events out, in as many attempts as that takes.

Theory of operation. An exchange is a state machine: `TRANSITIONS` has its states, what may happen in each, and what it
does then. The caller makes the first attempt with `begin` and sends its `upstream_request`. It passes every read of the
body to `feed`, and calls `close` at its end or `fail` if it failed. In the state `DECIDING`, the attempt had defects:
the caller calls `retry` and sends `upstream_request` again, or `give_up`.

If the client already has the start of a defective call, or the token limit cut a call off, a retry makes the model
continue that call from a prefill (`CallResumption`). Otherwise it asks for the defective calls again. When no retry is
left, the client gets the best of the attempts: at worst, the first one. Native tools that did not work are not asked
again: `begin` with the tools in the prompt takes their place.

Rule: no I/O and no clock. A failing retry is never reported; the first attempt's result stands.
"""

import enum
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from fcshim.codecs.base import UpstreamCodec
from fcshim.errors import FcshimError
from fcshim.events import Event, Stop, StopReason, Text, ToolCallChunk, Usage, total_usage
from fcshim.pipeline.attempt import Attempt, Batch, Plan
from fcshim.pipeline.attempt_filter import (
    ANSWERED,
    NORMAL_STOPS,
    AttemptDefect,
    AttemptFilter,
    InterruptedCall,
    ParsedEvent,
    ReplyCalls,
    as_phrase,
)
from fcshim.pipeline.backends import OFF, Backend
from fcshim.pipeline.native import Native
from fcshim.pipeline.omissions import Omission
from fcshim.pipeline.resumption import CallResumption
from fcshim.pipeline.retry_request import AttemptMaker
from fcshim.pipeline.shim import Shim

DEFAULT_MAX_RETRIES = 1
"""A model that fails twice mostly keeps failing, and every retry takes the time of a reply."""

_RETRYABLE_STOPS = frozenset({"complete", "tool_use"})
"""Stop reasons after which an attempt may be repeated: a client's stop sequence or token limit is not a defect."""


class ExchangeState(enum.Enum):
    """Where an exchange stands."""

    NEW = "new"
    FIRST = "first attempt"
    DECIDING = "deciding"
    RETRY = "retry"
    FAILED = "failed"
    ENDED = "ended"

    __hash__ = object.__hash__  # members are single objects; the hash of an Enum is computed in Python


ExchangeInput: TypeAlias = Literal["begin", "read", "end", "defect", "failure", "retry", "give up"]
"""What happens to an exchange. `begin`: the caller makes a first attempt, or another one in its place. `read`: bytes of
the reply have come. `end`: the reply has ended, and stands. `defect`: it has ended with defects, and a retry is left.
`failure`: the upstream has failed. `retry`: the caller makes a retry, or another one in its place. `give up`: no other
attempt can be made."""

TRANSITIONS: dict[tuple[ExchangeState, ExchangeInput], tuple[ExchangeState, str]] = {
    (ExchangeState.NEW, "begin"): (ExchangeState.FIRST, "start"),
    (ExchangeState.FIRST, "begin"): (ExchangeState.FIRST, "start"),
    (ExchangeState.FIRST, "read"): (ExchangeState.FIRST, "pass"),
    (ExchangeState.FIRST, "end"): (ExchangeState.ENDED, "finish"),
    (ExchangeState.FIRST, "defect"): (ExchangeState.DECIDING, "hold"),
    (ExchangeState.FIRST, "failure"): (ExchangeState.FAILED, "report"),
    (ExchangeState.FIRST, "give up"): (ExchangeState.ENDED, "settle"),
    (ExchangeState.DECIDING, "begin"): (ExchangeState.FIRST, "start"),
    (ExchangeState.DECIDING, "retry"): (ExchangeState.RETRY, "ask"),
    (ExchangeState.DECIDING, "give up"): (ExchangeState.ENDED, "settle"),
    (ExchangeState.RETRY, "retry"): (ExchangeState.RETRY, "ask"),
    (ExchangeState.RETRY, "read"): (ExchangeState.RETRY, "pass"),
    (ExchangeState.RETRY, "end"): (ExchangeState.ENDED, "finish"),
    (ExchangeState.RETRY, "defect"): (ExchangeState.DECIDING, "hold"),
    (ExchangeState.RETRY, "failure"): (ExchangeState.ENDED, "finish"),
    (ExchangeState.FAILED, "begin"): (ExchangeState.FIRST, "start"),
    (ExchangeState.FAILED, "give up"): (ExchangeState.ENDED, "settle"),
}
"""The state and what happens in it; the next state, and the method of `Exchange` (with an underscore) that acts."""

RECEIVING = frozenset({ExchangeState.FIRST, ExchangeState.RETRY})
"""The states of an exchange with a request to send, or a reply to read."""


class Exchange:
    """The attempts of one request, and what the client gets of them.

    `max_retries` applies where calls are read from the text of a single choice. `buffered`: the client gets the reply
    in one piece at its end, so any call can still be replaced.

    The events of each choice end with one `Stop`, or the whole exchange ends with one `Error`. `Usage` comes once, on
    choice 0, before the stops; it counts every attempt.
    """

    __slots__ = (
        "_attempts",
        "_buffered",
        "_calls",
        "_last_text",
        "_maker",
        "_passes",
        "_resumption",
        "_retries_left",
        "_usages",
        "attempt",
        "earlier",
        "final_defects",
        "finished",
        "raw_text",
        "remaining_defects",
        "state",
    )

    attempt: Attempt
    """The current attempt."""

    def __init__(self, *, max_retries: int = 0, buffered: bool = False) -> None:
        self.state = ExchangeState.NEW
        self.finished = False
        """Whether nothing that the upstream may still send in this attempt changes the reply."""
        self.remaining_defects = ""
        """The defects of the reply that stands after all retries, as a phrase; empty without any."""
        self.final_defects: Sequence[AttemptDefect] = ()
        """The same, and those after which the model may answer."""
        self.raw_text = ""
        """What the model wrote in the first attempt, if defects remain."""
        self.earlier: Batch = []
        """The end of a reply with native tools, which stands if no other attempt comes to its end."""
        self._retries_left = max_retries
        self._buffered = buffered
        self._attempts: list[Attempt] = []  # those whose events the client may still get
        self._calls = ReplyCalls()
        self._usages: list[Usage | None] = []
        self._resumption: CallResumption | None = None
        self._last_text = Text("")
        self._passes = False

    def begin(self, plan: Plan, upstream: UpstreamCodec, omissions: Sequence[Omission] = ()) -> None:
        """Make a first attempt, which `upstream` writes unless the plan has another codec. Raises `RequestError`.

        It takes the place of one that failed before the client had anything of it, or of native tools with a defect.
        `omissions` are left out of every request, its retries included.
        """
        self._calls = ReplyCalls(plan.refused_calls if isinstance(plan, Shim) else {})
        may_change = isinstance(plan, Shim) and (self._retries_left or plan.refused_calls)
        if isinstance(plan, Shim) and may_change and plan.tools and plan.request.n <= 1:
            self._maker = AttemptMaker(plan, upstream, self._calls, buffered=self._buffered, omissions=omissions)
            self.attempt = self._maker.first(retries_left=self._retries_left)
        else:
            self.attempt = Attempt(plan, upstream, omissions=omissions)
        self._step("begin")

    def retry(self, backend: Backend = OFF) -> bool:
        """Make the next attempt, with a constraint if `backend` accepts one and it helps.

        May be called again with another backend as long as the client has nothing of the retry. Returns false, and
        changes nothing, if only the continuation of a call would help and it is not possible with that backend or call.
        """
        earlier = self._attempts if self.state is ExchangeState.DECIDING else self._attempts[:-1]
        if not earlier:  # the call that was interrupted has ended
            return False
        failed = earlier[-1]
        interrupted = _interrupted_call(failed)
        if interrupted is None:
            self.attempt = self._maker.correction(failed, backend, retries_left=self._retries_left)
        else:
            made = self._maker.continuation(failed, interrupted, backend, retries_left=self._retries_left)
            if made is None:
                return False
            self.attempt, self._resumption = made
        self._attempts = earlier
        self._step("retry")
        return True

    def feed(self, data: bytes) -> Batch:
        """Take the next bytes of the upstream's body; return the events that they complete."""
        attempt = self.attempt
        decoded = attempt.decoder.feed(data)
        if len(decoded) == 1:
            index, event = decoded[0]
            choice = attempt.open_choices.get(index)
            if choice is not None and type(event) is Text:  # nearly every read of a live stream; it changes no state
                attempt.output_size += len(event.text)
                feed_text = choice.feed_text
                if feed_text is None:
                    return decoded
                events = feed_text(event.text)
                if not events and not choice.stopped_early:
                    return []
                if self._passes and len(events) == 1:
                    event = events[0]
                    if type(event) is Text and event.text:  # an empty one is the place of a defect
                        self._last_text = event
                        return [(index, event)]
                    if type(event) is ToolCallChunk:
                        return [(index, event)]
                return self._read(attempt.take_text(choice, events))
        return self._read(attempt.feed(decoded))

    def close(self) -> Batch:
        """Handle the end of this attempt's body, or that the caller reads no more, since it was finished."""
        if self.state not in RECEIVING:
            return []
        self.finished = True
        return self._end_attempt(self.attempt.close(), may_retry=True)

    def fail(self, error: FcshimError) -> Batch:
        """Handle a failure of the upstream; a reply that was already complete stays complete."""
        self.finished = True
        if self.state is ExchangeState.DECIDING:
            return self.give_up()
        return self._end_attempt(self.attempt.fail(error), may_retry=False) if self.state in RECEIVING else []

    def give_up(self) -> Batch:
        """End the reply, since no other attempt can be made: the best one so far stands."""
        return self._step("give up")

    @property
    def has_calls(self) -> bool:
        """Whether the client has a call that it may execute."""
        return bool(self._calls.accepted)

    @property
    def invalid_calls(self) -> Mapping[str, AttemptDefect]:
        """The calls that the client has although their arguments violate the schema, by their ids."""
        return self._calls.delivered_violations

    def _step(self, happened: ExchangeInput, batch: Batch | None = None) -> Batch:
        """Go to the next state, and return what its action makes of the events."""
        found = TRANSITIONS.get((self.state, happened))
        if found is None:
            raise RuntimeError(f"{happened!r} may not happen to an exchange that is {self.state.value!r}")
        self.state, action = found
        return _ACTIONS[action](self, [] if batch is None else batch)

    # What happens within an attempt

    def _read(self, batch: Batch) -> Batch:
        """Take the events of one read."""
        if self.state not in RECEIVING:
            return []
        attempt, attempt_filter = self.attempt, self.attempt.filter
        passed = self._filtered(batch)
        if attempt.error is not None:
            self.finished = True
            return self._step("failure", passed)
        ends = attempt_filter is not None and (attempt_filter.overflowed or attempt_filter.has_surplus)
        self.finished = attempt.finished or ends or (self._resumption is not None and self._resumption.failed)
        return self._step("read", passed)

    def _end_attempt(self, batch: Batch, *, may_retry: bool) -> Batch:
        """Take the last events of an attempt."""
        attempt, passed = self.attempt, self._filtered(batch)
        if attempt.error is not None:
            return self._step("failure", passed)
        self._usages.append(attempt.usage)
        stop = attempt.stops[0][1]
        if attempt.filter is None:
            usage = total_usage(self._usages)
            assert usage is not None
            passed = [*passed, (0, usage), *attempt.stops]
        elif not (attempt.is_retry and stop.stop_reason == "error"):  # a failed retry leaves the first attempt's end
            attempt.filter.close(stop)
        return self._step("defect" if may_retry and self._has_defect() else "end", passed)

    def _filtered(self, batch: Batch) -> Batch:
        """Return the events that the client gets now; without a filter, all of them."""
        attempt, attempt_filter = self.attempt, self.attempt.filter
        if attempt_filter is None or not batch:
            return batch
        events = attempt.transcript.with_defects(batch)
        passed = (
            attempt_filter.feed(events) if self._resumption is None else self._feed_resumption(events, self._resumption)
        )
        self._passes = attempt_filter.passthrough and self._resumption is None
        filtered: Batch = []
        for event in passed:
            if type(event) is Text:
                self._last_text = event
            filtered.append((0, event))
        return filtered

    def _feed_resumption(self, events: list[ParsedEvent], resumption: CallResumption) -> list[Event]:
        """Filter the events that continue a call. If its start was buffered, so was the text that awaited a call."""
        interrupted, current = (_filter_of(attempt) for attempt in self._attempts[-2:])
        was_started = resumption.started
        new_events = resumption.feed(events)
        text = interrupted.buffered_before_call() if resumption.started and not was_started else []
        passed = [*text, *current.feed(new_events)]
        if resumption.ended:  # the model repeats what came after the call, so the rest of the buffer is dropped
            self._resumption = None
            current.stop = interrupted.stop
            del self._attempts[:-1]
        return passed

    def _has_defect(self) -> bool:
        """Return whether the attempt should be followed by another one."""
        attempt, attempt_filter = self.attempt, self.attempt.filter
        if isinstance(attempt.plan, Native):
            return bool(attempt.plan.defect)
        if attempt_filter is None or not (
            self._retries_left and attempt_filter.defects and attempt.transcript.is_complete
        ):
            return False
        stop, interrupted = attempt.stops[0][1], _interrupted_call(attempt)
        if interrupted is None:
            request = self._maker.shim.request
            return (
                stop.stop_reason in _RETRYABLE_STOPS
                and not attempt_filter.overflowed
                and not (attempt_filter.accepted_count and attempt_filter.has_only_repeats)  # another call came beside
                and (request.allows_parallel_calls or not self._calls.accepted)
            )
        if self._resumption is not None or len(attempt_filter.defects) > 1:
            return False
        if stop.stop_reason == "max_tokens":  # not beyond a token limit that the client set
            error = interrupted.end.error
            return error is not None and error.kind == "truncated" and self._maker.shim.request.max_tokens is None
        return stop.stop_reason in _RETRYABLE_STOPS

    # The actions of the table: each takes the events that the client gets now, and returns those with what else it gets

    def _start(self, batch: Batch) -> Batch:
        self._attempts = [self.attempt]
        self._resumption, self._last_text, self.finished = None, Text(""), False
        self._passes = self.attempt.filter is None or self.attempt.filter.passthrough
        return batch

    def _ask(self, batch: Batch) -> Batch:
        self._attempts.append(self.attempt)
        self.finished = False
        self._passes = _filter_of(self.attempt).passthrough and self._resumption is None
        return batch

    def _pass(self, batch: Batch) -> Batch:
        return batch

    def _hold(self, batch: Batch) -> Batch:
        """Keep what the client does not have until it is known whether another attempt is better."""
        if self.attempt.filter is None:
            self.earlier = batch
            return []
        self.earlier = []
        self._retries_left -= 1
        return batch

    def _finish(self, batch: Batch) -> Batch:
        """End the reply with the best of the attempts, of which the last has ended, or failed."""
        if self.attempt.filter is None:
            return batch
        return batch + self._best_reply(None if self.attempt.error is not None else self.attempt.stops[0][1])

    def _settle(self, batch: Batch) -> Batch:
        """End the reply with what there is, since no other attempt can be made."""
        self.finished = True
        return self.earlier or batch + self._best_reply(_filter_of(self.attempt).stop)

    def _report(self, batch: Batch) -> Batch:
        """Pass the error, after what was buffered."""
        error, attempt_filter = self.attempt.error, self.attempt.filter
        assert error is not None
        buffered = [] if attempt_filter is None else attempt_filter.release()
        return [*batch, *((0, event) for event in buffered), (0, error)]

    def _best_reply(self, stop: Stop | None) -> Batch:
        """Return the events of all attempts that the client still lacks, the usage and the stop.

        `stop` is that of the last attempt, None if it failed.
        """
        filters = [_filter_of(attempt) for attempt in self._attempts]
        first, last = filters[0], filters[-1]
        self.final_defects = last.defects or (first.defects if _has_failed(last, stop) else ())
        if self.final_defects:
            remaining = [defect for defect in self.final_defects if defect.kind not in ANSWERED]
            self.remaining_defects = as_phrase(remaining)
            self.raw_text = self._attempts[0].transcript.text if remaining else ""
        if self._resumption is None:
            events, stop_reason = best_outcome(filters, self._calls, stop, self._last_text.text)
        else:  # the call of the attempt before is still open
            events = self._calls.renumber(self._resumption.restore(filters[-2].drain()))
            stop_reason = filters[-2].stop.stop_reason
        if stop_reason in NORMAL_STOPS and self._calls.accepted:
            stop_reason = "tool_use"
        usage = total_usage(self._usages)
        usage_events: list[Event] = [] if usage is None else [usage]
        return [(0, event) for event in [*events, *usage_events, Stop(stop_reason)]]


_ACTIONS: dict[str, Callable[[Exchange, Batch], Batch]] = {
    action: getattr(Exchange, f"_{action}") for _, action in TRANSITIONS.values()
}


def _filter_of(attempt: Attempt) -> AttemptFilter:
    assert attempt.filter is not None
    return attempt.filter


def _interrupted_call(attempt: Attempt) -> InterruptedCall | None:
    """Return the call that a retry should continue, of an attempt that has ended."""
    return _filter_of(attempt).resumable_call(attempt.stops[0][1])


_PARAGRAPH_BREAK = "\n\n"


def best_outcome(
    filters: Sequence[AttemptFilter], calls: ReplyCalls, stop: Stop | None, last_text: str
) -> tuple[list[Event], StopReason]:
    """Return the events that the client lacks of all attempts, and the stop reason of the reply.

    `stop` is that of the last attempt, None if it failed; `last_text` is the last text that the client got.
    """
    *earlier, last = filters
    if not earlier:
        return last.release(), last.stop.stop_reason
    if _has_failed(last, stop):
        best = last if last.accepted_count else filters[0]
        released = [each.release() if each is best else each.release_accepted() for each in filters]
        return list(itertools.chain(*released)), best.stop.stop_reason
    accepted = [event for each in earlier for event in each.release_accepted()]
    if calls.accepted:
        return accepted + last.release_accepted(), "tool_use"
    return _separate(last.release(), last_text), last.stop.stop_reason


def _has_failed(attempt: AttemptFilter, stop: Stop | None) -> bool:
    """Return whether a retry mended nothing; `stop` is None if it failed before its end."""
    return stop is None or attempt.overflowed or bool(attempt.defects) or stop.stop_reason not in NORMAL_STOPS


def _separate(events: list[Event], last_text: str) -> list[Event]:
    """Put an empty line between the text that the client has and that of a retry."""
    first_text = next((event.text for event in events if isinstance(event, Text)), "")
    if not last_text or last_text[-1].isspace() or first_text[:1].isspace():
        return events
    return [Text(_PARAGRAPH_BREAK), *events]
