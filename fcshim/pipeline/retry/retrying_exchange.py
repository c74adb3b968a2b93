"""One request with its reply, sent again if an attempt has defects.

Theory of operation. Each attempt is one `Exchange`; its `AttemptFilter` decides which events the client sees at once.
When an attempt has ended with defects and a retry is left, `wants_retry` is true: the caller calls `prepare_retry` and
sends `upstream_request`. If the client already has the start of a defective call, or the token limit cut a call off,
the retry makes the model continue that call from a prefill (`CallResumption`). Otherwise it asks for the defective
calls again. When no retry is left, the client gets the best of the attempts: at worst, the first one.

Rule: no I/O. A failing retry is never reported; the first attempt's result stands.
"""

import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fcshim.codecs.base import UpstreamCodec, UpstreamRequest
from fcshim.constrain.constraint import Constraint
from fcshim.errors import FcshimError
from fcshim.events import Error, Event, Stop, StopReason, Text, ToolCallChunk, ToolCallEnd, Usage, total_usage
from fcshim.messages import Message, Request
from fcshim.parse.sink import ArgumentsMode
from fcshim.pipeline.backends import OFF, Backend
from fcshim.pipeline.call_outcome import ReplyReading
from fcshim.pipeline.exchange import AnyExchange, Batch, Exchange
from fcshim.pipeline.retry.attempt import (
    Attempt,
    constraint_for_retry,
    first_attempt,
    is_call_optional,
    later_attempt,
    max_calls_of_retry,
    retry_messages,
)
from fcshim.pipeline.retry.attempt_filter import (
    ANSWERED,
    NORMAL_STOPS,
    AttemptDefect,
    AttemptFilter,
    InterruptedCall,
    ParsedEvent,
    ReplyCalls,
)
from fcshim.pipeline.retry.resumption import (
    CallResumption,
    constraint_for_remainder,
    max_calls_of_resumed,
    prefill_to_resume,
)
from fcshim.pipeline.shim import Shim

DEFAULT_MAX_RETRIES = 1
"""A model that fails twice mostly keeps failing, and every retry takes the time of a reply."""

_RETRYABLE_STOPS = frozenset({"complete", "tool_use"})
"""Stop reasons after which an attempt may be repeated: a client's stop sequence or token limit is not a defect."""


class RetryingExchange:
    """Several exchanges with the interface of one: `upstream_request`, `feed`, `close` and `fail` are an `Exchange`'s.

    If `wants_retry` is true after `close`, call `prepare_retry` and send `upstream_request` again. `buffered`: the
    client gets the reply in one piece at its end, so any call can still be replaced.
    """

    __slots__ = (
        *(
            "_attempt",
            "_calls",
            "_exchange",
            "_failed_attempt",
            "_retries_left",
            "_messages",
            "_reply_ended",
        ),
        *("_passthrough", "_resumption", "_filters", "_shim", "_last_text", "_upstream", "_usages", "_buffered"),
        *("wants_retry", "earlier_usage", "finished", "is_retry", "remaining_defects"),
    )

    def __init__(
        self, shim: Shim, *, upstream: UpstreamCodec, max_retries: int = DEFAULT_MAX_RETRIES, buffered: bool = False
    ) -> None:
        self.wants_retry = False
        """Whether the model should be asked again."""
        self.is_retry = False
        """Whether the current attempt is a retry."""
        self.finished = False
        """Whether nothing that the upstream may still send in this attempt changes the reply."""
        self.remaining_defects = ""
        """The defects of the reply that stands after all retries, as a phrase; empty without any."""
        self._upstream = upstream
        self._shim = shim
        self._retries_left = max_retries
        self._buffered = buffered
        self._calls = ReplyCalls(shim.refused_calls)
        self._usages: list[Usage | None] = []
        self.earlier_usage: Usage | None = None
        self._messages: tuple[Message, ...] = shim.unconstrained.messages
        self._failed_attempt = _FailedAttempt(self._messages, "", (), "")
        self._last_text = Text("")
        self._reply_ended = False
        self._filters: list[AttemptFilter] = []
        self._resumption: CallResumption | None = None

    @property
    def upstream_request(self) -> UpstreamRequest:
        """The request of the current attempt."""
        return self._exchange.upstream_request

    def release_request(self) -> None:
        """Free the body of the current attempt's request, which has been sent."""
        self._exchange.release_request()

    @property
    def codec(self) -> UpstreamCodec:
        """The codec of the current attempt."""
        return self._exchange.codec

    @property
    def reading(self) -> ReplyReading:
        """How the reply of the current attempt was read."""
        defects = tuple(defect.kind for defect in self._filters[-1].defects)
        transcript = self._attempt.transcript
        return ReplyReading(
            self._attempt.dialect, transcript.text, transcript.is_complete, defects, self._shim.backend.name
        )

    @property
    def counted_prompt(self) -> tuple[Request, Usage | None]:
        """The prompt of the current attempt, and the tokens that the upstream has reported for it so far."""
        return self._exchange.counted_prompt

    @property
    def constraint_key(self) -> str:
        """Identifies the constraint that is sent, to remember whether the upstream refuses it; empty without one."""
        return self._exchange.constraint_key

    @property
    def sent_call(self) -> bool:
        """Whether the client has got an accepted call of the current attempt."""
        return self._filters[-1].accepted_count > 0

    @property
    def retry_reason(self) -> str:
        """The defects of the last attempt, as a phrase for the log."""
        return _phrase(self._failed_attempt.defects)

    def feed(self, data: bytes) -> Batch:
        """Take the next bytes of the upstream's body; return the events that they complete."""
        batch = self._exchange.feed(data)
        if self._passthrough and len(batch) == 1 and not self._exchange.finished:  # nearly every read of a live stream
            event = batch[0][1]
            if type(event) is Text and event.text:  # an empty one is the place of a defect
                self._last_text = event
                return batch
            if type(event) is ToolCallChunk:
                return batch
        if batch:
            batch = self._end_with_error(batch) if type(batch[-1][1]) is Error else self._filter_batch(batch)
        resumption_failed = self._resumption is not None and self._resumption.failed
        ended = self._filters[-1].overflowed or self._filters[-1].has_surplus
        self.finished = self._exchange.finished or ended or resumption_failed
        return batch

    def close(self) -> Batch:
        """Handle the end of this attempt's body, or of the caller's reading, since it was finished.

        Call it again if `wants_retry` is true and the retry cannot be made: this ends the reply.
        """
        self.finished = True
        if self.wants_retry:
            self.wants_retry = False
            return self._end_reply(self._filters[-1].stop)
        return self._end_attempt(self._exchange.close())

    def fail(self, error: FcshimError) -> Batch:
        """Handle a failure of the upstream."""
        self.finished = True
        if self.wants_retry:
            return self.close()
        return self._end_attempt(self._exchange.fail(error))

    def prepare(self) -> None:
        """Make the first attempt."""
        attempt = first_attempt(self._shim, self._live_arguments())
        self._start_attempt(attempt, self._live_filter(call_required=self._shim.request.tool_choice.mode == "required"))

    def prepare_retry(self, backend: Backend = OFF) -> bool:
        """Make the next attempt, with a constraint if `backend` accepts one and it helps.

        May be called again with another backend as long as nothing was fed. Returns false if only the continuation of a
        call would help and it is not possible with that backend or call; `wants_retry` stays true then.
        """
        failed = self._failed_attempt
        self.is_retry = True
        if not self.wants_retry:
            self._filters.pop()
            self.wants_retry = True
        if failed.interrupted is not None:
            return self._resume(failed.interrupted, backend)
        max_calls = max_calls_of_retry(self._shim, failed.reply_text, failed.defects, len(self._calls.accepted))
        constraint = constraint_for_retry(
            self._shim, failed.defects, backend, max_calls=max_calls + len(self._calls.accepted)
        )
        dialect = self._shim.dialect if constraint is None else constraint.dialect
        if (
            constraint is not None
            and dialect is self._shim.dialect
            and not (failed.constraint_key or self._calls.accepted)
        ):
            # The grammar prevents the mistake, and a model that sees its own faulty reply tends to copy it. If a
            # grammar did not prevent the defect, or if calls were accepted, the model gets a correction.
            self._messages = failed.messages
        else:
            self._messages = retry_messages(
                self._shim, failed.messages, failed.reply_text, failed.defects, self._calls, dialect
            )
        self._retry_calls(constraint, max_calls)
        return True

    def _live_arguments(self) -> ArgumentsMode:
        """Return how arguments are sent that the client sees at once: as early as possible, and yet open to a retry."""
        if self._shim.options.arguments != "stream":
            return self._shim.options.arguments
        if self._buffered or self._shim.refused_calls:  # no part of a call that is refused may be sent
            return "checked"
        return "stream" if self._shim.escape.changed else "resumable"  # escaped requests are never resumed

    def _retry_calls(self, constraint: Constraint | None, max_calls: int) -> None:
        """Ask for calls that replace the defective ones."""
        arguments: ArgumentsMode = "validated" if self._shim.options.arguments == "validated" else "checked"
        attempt = later_attempt(self._shim, arguments, self._messages, constraint)
        call_required = not is_call_optional(self._shim, self._failed_attempt.defects)
        self._start_attempt(
            attempt,
            AttemptFilter(
                self._calls,
                live=False,
                call_required=call_required,
                buffered=self._buffered,
                last=not self._retries_left,
                max_calls=max_calls,
            ),
        )

    def _resume(self, interrupted: InterruptedCall, backend: Backend) -> bool:
        """Ask for the remainder of a call; return false if the backend cannot continue a turn, or not this call."""
        failed = self._failed_attempt
        prefill = (
            None
            if backend.prefill is None
            else prefill_to_resume(self._shim, failed.reply_text, self._calls.accepted, interrupted)
        )
        if prefill is None:
            return False
        max_calls = max_calls_of_resumed(self._shim, failed.reply_text, interrupted, prefill.calls_before)
        constraint = constraint_for_remainder(self._shim, prefill, interrupted, backend, max_calls=max_calls)
        attempt = later_attempt(
            self._shim, self._live_arguments(), failed.messages, constraint, prefill=prefill.text, backend=backend
        )
        self._resumption = CallResumption(interrupted, prefill)
        max_calls -= prefill.calls_before
        self._start_attempt(attempt, self._live_filter(call_required=False, max_calls=max_calls))
        return True

    def _live_filter(self, *, call_required: bool, max_calls: int = sys.maxsize) -> AttemptFilter:
        """Make the filter of an attempt that the client sees as it comes."""
        can_resume = self._retries_left > 0 and not self._buffered
        return AttemptFilter(
            self._calls,
            live=True,
            call_required=call_required,
            buffered=self._buffered,
            max_calls=max_calls,
            can_resume=can_resume,
        )

    def _start_attempt(self, attempt: Attempt, attempt_filter: AttemptFilter) -> None:
        self._attempt = attempt
        self._filters.append(attempt_filter)
        self._exchange = Exchange(self._shim.request, upstream=self._upstream, transform=attempt)
        self._exchange.prepare()
        self._passthrough = attempt_filter.passthrough and self._resumption is None
        self.wants_retry = self.finished = False

    def _filter_batch(self, batch: Batch) -> Batch:
        attempt_filter = self._filters[-1]
        events = self._attempt.defects.join(event for _, event in batch)
        passed = (
            attempt_filter.feed(events) if self._resumption is None else self._feed_resumption(events, self._resumption)
        )
        self._passthrough = attempt_filter.passthrough and self._resumption is None
        self._last_text = next((event for event in reversed(passed) if isinstance(event, Text)), self._last_text)
        return [(0, event) for event in passed]

    def _feed_resumption(self, events: list[ParsedEvent], resumption: CallResumption) -> list[Event]:
        """Filter the events that continue a call. If its start was buffered, so was the text that awaited a call."""
        *_, interrupted_filter, attempt_filter = self._filters
        was_started = resumption.started
        new_events = resumption.feed(events)
        text = interrupted_filter.buffered_before_call() if resumption.started and not was_started else []
        passed = [*text, *attempt_filter.feed(new_events)]
        if resumption.ended:  # the model repeats what came after the call, so the rest of the buffer is dropped
            self._resumption = None
            attempt_filter.stop = interrupted_filter.stop
            del self._filters[:-1]
        return passed

    def _end_with_error(self, batch: Batch) -> Batch:
        """End the reply after an `Error`: it is reported if the first attempt failed, and not if a retry did."""
        passed = self._filter_batch(batch[:-1])
        if self.is_retry:
            return passed + self._end_reply(None)
        self._reply_ended = True
        return [*passed, *((0, event) for event in self._filters[0].release()), batch[-1]]

    def _end_attempt(self, batch: Batch) -> Batch:
        """Take the last events of an attempt; end the reply, or set `wants_retry`."""
        if self._reply_ended or not batch:
            return []
        if isinstance(batch[-1][1], Error):
            return self._end_with_error(batch)
        (_, usage), (_, stop) = batch[-2:]
        assert isinstance(usage, Usage)
        assert isinstance(stop, Stop)
        passed = self._filter_batch(batch[:-2])
        self._usages.append(usage)
        if not (self.is_retry and stop.stop_reason == "error"):  # a failed retry leaves the first attempt's end
            self._filters[-1].close(stop)
        if not self._should_retry(stop):
            return passed + self._end_reply(stop)
        self._retries_left -= 1
        self.wants_retry = True
        attempt_filter = self._filters[-1]
        self._failed_attempt = _FailedAttempt(
            self._messages,
            self._attempt.transcript.text,
            tuple(attempt_filter.defects),
            self._exchange.constraint_key,
            attempt_filter.resumable_call(stop),
        )
        return passed

    def _should_retry(self, stop: Stop) -> bool:
        attempt_filter = self._filters[-1]
        if not (self._retries_left and attempt_filter.defects and self._attempt.transcript.is_complete):
            return False
        interrupted = attempt_filter.resumable_call(stop)
        if interrupted is not None:
            return (
                self._resumption is None
                and len(attempt_filter.defects) == 1
                and self._may_resume(interrupted.end, stop)
            )
        if stop.stop_reason not in _RETRYABLE_STOPS:
            return False
        if attempt_filter.accepted_count and all(each.kind == "repeated" for each in attempt_filter.defects):
            return False  # the model makes another call beside it
        return not attempt_filter.overflowed and (self._shim.request.allows_parallel_calls or not self._calls.accepted)

    def _may_resume(self, end: ToolCallEnd, stop: Stop) -> bool:
        """Return whether a call may be continued: not beyond a token limit that the client set."""
        truncated = end.error is not None and end.error.kind == "truncated"
        if stop.stop_reason == "max_tokens":
            return truncated and self._shim.request.max_tokens is None
        return stop.stop_reason in _RETRYABLE_STOPS

    def _end_reply(self, stop: Stop | None) -> Batch:
        """Return the events of all attempts that the client still lacks, the usage and the stop.

        `stop` is that of the last attempt, None if it failed.
        """
        self._reply_ended = True
        self.remaining_defects = _phrase(_remaining_defects(self._filters, stop))
        events, stop_reason = self._best_events(stop)
        if stop_reason in NORMAL_STOPS and self._calls.accepted:
            stop_reason = "tool_use"
        usage = total_usage((self.earlier_usage, *self._usages))
        usage_events: list[Event] = [] if usage is None else [usage]
        return [(0, event) for event in [*events, *usage_events, Stop(stop_reason)]]

    def _best_events(self, stop: Stop | None) -> tuple[list[Event], StopReason]:
        if self._resumption is None:
            return best_outcome(self._filters, self._calls, stop, self._last_text.text)
        interrupted_filter = self._filters[-2]  # its call is still open
        events = self._resumption.restore(interrupted_filter.drain())
        return self._calls.renumber(events), interrupted_filter.stop.stop_reason


class _FailedAttempt(NamedTuple):
    """An attempt that failed: its messages, reply text, defects and constraint, and the call to continue, if any."""

    messages: tuple[Message, ...]
    reply_text: str
    defects: tuple[AttemptDefect, ...]
    constraint_key: str
    interrupted: InterruptedCall | None = None


def shim_exchange(
    shim: Shim, *, upstream: UpstreamCodec, max_retries: int = DEFAULT_MAX_RETRIES, buffered: bool = False
) -> AnyExchange:
    """Return the exchange of a request with a shim: with retries if it offers tools and asks for only one choice."""
    if (max_retries or shim.refused_calls) and shim.tools and shim.request.n <= 1:
        return RetryingExchange(shim, upstream=upstream, max_retries=max_retries, buffered=buffered)
    return Exchange(shim.request, upstream=upstream, transform=shim)


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


def _remaining_defects(filters: Sequence[AttemptFilter], stop: Stop | None) -> Sequence[AttemptDefect]:
    """Return the defects of calls in the attempts that the client gets in the end."""
    first, last = filters[0], filters[-1]
    defects = last.defects or (first.defects if _has_failed(last, stop) else ())
    return [defect for defect in defects if defect.kind not in ANSWERED]


def _phrase(defects: Iterable[AttemptDefect]) -> str:
    return "; ".join(dict.fromkeys(map(str, defects)))


def _separate(events: list[Event], last_text: str) -> list[Event]:
    """Put an empty line between the text that the client has and that of a retry."""
    first_text = next((event.text for event in events if isinstance(event, Text)), "")
    if not last_text or last_text[-1].isspace() or first_text[:1].isspace():
        return events
    return [Text(_PARAGRAPH_BREAK), *events]
