"""One request with its answer, asked more than once where the first try came to nothing.

Theory of operation. One `Exchange` after the other; a `Screen` decides what the client sees of each. When a try has
ended with faults and there is another one left, `again` is true: whoever does the I/O says `ask_again` and sends
`outgoing`. When there is none, the client gets the better of the tries, at the worst what the first one said.

Rule: no I/O; a later try that fails in whatever way is never told: the first one's end stands.
Neighbours: `exchange` is driven, `second` writes the next request, `asking` does the same for every kind of loop.
"""

from typing import NamedTuple

from fcshim.backends import OFF, Backend
from fcshim.codecs.base import UpstreamCodec, UpstreamRequest
from fcshim.constrain.constraint import Constraint
from fcshim.errors import FcshimError
from fcshim.events import Error, Event, Stop, StopReason, Text, ToolCallChunk, ToolCallEnd, Usage
from fcshim.exchange import Batch, Exchange
from fcshim.messages import Message, Request
from fcshim.parse.sink import ArgumentsMode
from fcshim.reply import total_usage
from fcshim.retry.attempt_filter import NORMAL_STOPS, AttemptFilter
from fcshim.retry.calls import ReplyCalls
from fcshim.retry.defects import AttemptDefect
from fcshim.retry.outcome import NO_LATER_CALLS, LaterCalls, best_outcome
from fcshim.retry.prefill import InterruptedCall, constraint_for_remainder, prefill_for_required_call, prefill_to_resume
from fcshim.retry.resumption import CallResumption
from fcshim.retry.retry_request import Attempt, constraint_for_retry, is_call_optional, retry_messages
from fcshim.shim import Shim
from fcshim.transform import Transform

DEFAULT_MAX_RETRIES = 1
"""A model that fails twice mostly fails for good; every try costs a reply's time."""

_RETRYABLE_STOPS = frozenset({"complete", "tool_use"})
"""How a try may end to be asked again: a client's stop sequence, or the end of the tokens, is no fault."""


class RetryingExchange:
    """Several exchanges that look like one: `outgoing`, `feed`, `close` and `fail` are an `Exchange`'s.

    After `close`, where `again` is true, `ask_again` and send `outgoing` once more. `whole`: the client gets the reply
    when it is over, so that every call can be mended.
    """

    __slots__ = (
        *(
            "_arguments",
            "_request",
            "_attempt",
            "_later_calls",
            "_calls",
            "_exchange",
            "_failed_attempt",
            "_retries_left",
            "_messages",
            "_reply_ended",
        ),
        *("_passthrough", "_resumption", "_filters", "_shim", "_last_text", "_upstream", "_usages", "_buffered"),
        *("wants_retry", "finished", "is_retry"),
    )

    def __init__(
        self,
        request: Request,
        *,
        upstream: UpstreamCodec,
        shim: Shim,
        max_retries: int = DEFAULT_MAX_RETRIES,
        buffered: bool = False,
    ) -> None:
        self.wants_retry = False
        """Whether the model is to be asked once more."""
        self.is_retry = False
        """Whether this is a later try."""
        self.finished = False
        """Whether nothing that the upstream may still send to this try changes the reply."""
        self._request = request
        self._upstream = upstream
        self._shim = shim
        self._retries_left = max_retries
        self._buffered = buffered
        self._calls = ReplyCalls()
        self._usages: list[Usage | None] = []
        self._messages: tuple[Message, ...] = shim.unconstrained_request.messages
        self._failed_attempt = _FailedAttempt(self._messages, "", (), "")
        self._last_text = Text("")
        self._reply_ended = False
        self._filters: list[AttemptFilter] = []
        self._resumption: CallResumption | None = None
        self._later_calls = NO_LATER_CALLS
        self._arguments = self._live_arguments()
        self._start_first()

    @property
    def upstream_request(self) -> UpstreamRequest:
        """What to send."""
        return self._exchange.upstream_request

    @property
    def constraint_key(self) -> str:
        """What tells the constraint apart that is sent, should the upstream refuse it."""
        return self._exchange.constraint_key

    @property
    def sent_call(self) -> bool:
        """Whether the client has seen a call of this try."""
        return self._filters[-1].accepted_count > 0

    @property
    def retry_reason(self) -> str:
        """Why the model is asked once more, in words for the log."""
        return "; ".join(dict.fromkeys(map(str, self._failed_attempt.defects)))

    def feed(self, data: bytes) -> Batch:
        """Take the next bytes of the upstream's body; give the events that they complete."""
        batch = self._exchange.feed(data)
        if self._passthrough and len(batch) == 1:  # nearly every read of a live stream
            event = batch[0][1]
            if type(event) is Text:
                self._last_text = event
                return batch
            if type(event) is ToolCallChunk:
                return batch
        if batch:
            batch = self._end_with_error(batch) if type(batch[-1][1]) is Error else self._filter_batch(batch)
        lost = self._resumption is not None and self._resumption.failed
        self.finished = self._exchange.finished or self._filters[-1].overflowed or lost
        return batch

    def close(self) -> Batch:
        """Take note that the body of this try has ended, or that reading stopped because it was finished.

        Once more, where it was to be asked again and cannot be: then this is the end.
        """
        self.finished = True
        if self.wants_retry:
            self.wants_retry = False
            return self._end_reply(self._filters[-1].stop)
        return self._end_attempt(self._exchange.close())

    def fail(self, error: FcshimError) -> Batch:
        """Take note that the upstream was lost."""
        self.finished = True
        if self.wants_retry:
            return self.close()
        return self._end_attempt(self._exchange.fail(error))

    def prepare_retry(self, backend: Backend = OFF) -> bool:
        """Make the next try, with a constraint where that kind of server takes one and it helps.

        May be said again with another server, as long as nothing was fed. False where there is no other way than to go
        on with a call, and that server does not: `again` stays true then.
        """
        failed = self._failed_attempt
        self.is_retry = True
        if not self.wants_retry:
            self._filters.pop()
            self.wants_retry = True
        if failed.interrupted is not None:
            return self._resume(failed.interrupted, backend)
        constraint = constraint_for_retry(self._shim, failed.defects, backend)
        dialect = self._shim.dialect if constraint is None else constraint.dialect
        if (
            constraint is not None
            and dialect is self._shim.dialect
            and not (failed.constraint_key or self._calls.accepted)
        ):
            # Held to the grammar, the model cannot make the mistake again, and what it said would only be copied.
            self._messages = failed.messages
        else:
            self._messages = retry_messages(
                self._shim, failed.messages, failed.reply_text, failed.defects, self._calls, dialect
            )
        self._retry_calls(constraint)
        return True

    def _live_arguments(self) -> ArgumentsMode:
        """Say how arguments come that the client sees at once: as soon as they can, and can be mended all the same."""
        if self._shim.arguments != "stream":
            return self._shim.arguments
        if self._buffered:
            return "checked"
        return "stream" if self._shim.escape.changed else "resumable"

    def _start_first(self) -> None:
        attempt = Attempt(self._shim, arguments=self._arguments, prefill=prefill_for_required_call(self._shim))
        self._start_attempt(attempt, self._live_filter(call_required=self._shim.request.tool_choice.mode == "required"))

    def _retry_calls(self, constraint: Constraint | None) -> None:
        """Ask for calls in the place of those that failed."""
        arguments: ArgumentsMode = "validated" if self._shim.arguments == "validated" else "checked"
        attempt = Attempt(self._shim, arguments=arguments, messages=self._messages, constraint=constraint)
        demanded = not is_call_optional(self._shim, self._failed_attempt.defects)
        self._start_attempt(
            attempt,
            AttemptFilter(
                self._calls, live=False, call_required=demanded, buffered=self._buffered, last=not self._retries_left
            ),
        )

    def _resume(self, interrupted: InterruptedCall, backend: Backend) -> bool:
        """Ask for the rest of a call; false where that server does not go on, or not with this one."""
        failed = self._failed_attempt
        beginning = (
            None
            if backend.prefill is None
            else prefill_to_resume(self._shim, failed.reply_text, self._calls.accepted, interrupted)
        )
        if beginning is None:
            return False
        attempt = Attempt(
            self._shim,
            arguments=self._arguments,
            messages=failed.messages,
            constraint=constraint_for_remainder(self._shim, beginning, interrupted, backend),
            prefill=beginning.text,
            backend=backend,
        )
        self._resumption = CallResumption(interrupted, beginning)
        self._start_attempt(attempt, self._live_filter(call_required=False))
        return True

    def _live_filter(self, *, call_required: bool) -> AttemptFilter:
        """Make the screen of a try that the client sees as it comes."""
        resumes = self._retries_left > 0 and not self._buffered
        return AttemptFilter(
            self._calls, live=True, call_required=call_required, buffered=self._buffered, can_resume=resumes
        )

    def _start_attempt(self, attempt: Attempt, attempt_filter: AttemptFilter) -> None:
        self._attempt = attempt
        self._filters.append(attempt_filter)
        self._exchange = Exchange(self._request, upstream=self._upstream, transform=attempt)
        self._passthrough = attempt_filter.passthrough and self._resumption is None
        self.wants_retry = self.finished = False

    def _filter_batch(self, batch: Batch) -> Batch:
        screen = self._filters[-1]
        events = [event for _, event in batch]
        seen = screen.feed(events) if self._resumption is None else self._feed_resumption(events, self._resumption)
        self._passthrough = screen.passthrough and self._resumption is None
        self._last_text = next((event for event in reversed(seen) if isinstance(event, Text)), self._last_text)
        return [(0, event) for event in seen]

    def _feed_resumption(self, events: list[Event], resumption: CallResumption) -> list[Event]:
        """Take what goes on with a call. Where its start was held, so was all that had waited for it."""
        *_, first, screen = self._filters
        begun, taken = resumption.started, len(self._calls.accepted)
        new = resumption.feed(events)
        waited = first.buffered_before_call() if resumption.started and not begun else []
        seen = [*waited, *screen.feed(new)]
        if resumption.ended:  # what is still held of the call's first try is superseded, but for good calls
            self._resumption = None
            self._later_calls = LaterCalls(resumption.accepted_after(first.drain()), taken + resumption.accepted)
            screen.stop = first.stop
            del self._filters[:-1]
        return seen

    def _end_with_error(self, batch: Batch) -> Batch:
        """An error ends the first try; a later one just failed."""
        seen = self._filter_batch(batch[:-1])
        if self.is_retry:
            return seen + self._end_reply(None)
        self._reply_ended = True
        return [*seen, *((0, event) for event in self._filters[0].release()), batch[-1]]

    def _end_attempt(self, batch: Batch) -> Batch:
        """Take the last events of a try."""
        if self._reply_ended or not batch:
            return []
        if isinstance(batch[-1][1], Error):
            return self._end_with_error(batch)
        (_, usage), (_, stop) = batch[-2:]
        assert isinstance(usage, Usage)
        assert isinstance(stop, Stop)
        seen = self._filter_batch(batch[:-2])
        self._usages.append(usage)
        if not (self.is_retry and stop.stop_reason == "error"):  # else the end of the first try stands
            self._filters[-1].close(stop)
        if not self._should_retry(stop):
            return seen + self._end_reply(stop)
        self._retries_left -= 1
        self.wants_retry = True
        screen = self._filters[-1]
        said, faults, constraint = self._attempt.transcript.text, tuple(screen.defects), self._exchange.constraint_key
        self._failed_attempt = _FailedAttempt(self._messages, said, faults, constraint, screen.resumable_call(stop))
        return seen

    def _should_retry(self, stop: Stop) -> bool:
        screen = self._filters[-1]
        if not (self._retries_left and screen.defects and self._attempt.transcript.is_complete):
            return False
        broken = screen.resumable_call(stop)
        if broken is not None:
            return self._resumption is None and len(screen.defects) == 1 and self._may_resume(broken.end, stop)
        if stop.stop_reason not in _RETRYABLE_STOPS:
            return False
        return not screen.overflowed and (self._shim.request.parallel_tool_calls or not self._calls.accepted)

    def _may_resume(self, end: ToolCallEnd, stop: Stop) -> bool:
        """Tell whether a call may be gone on with: not beyond the tokens that the client wants."""
        cut_off = end.error is not None and end.error.kind == "truncated"
        if stop.stop_reason == "max_tokens":
            return cut_off and self._shim.request.max_tokens is None
        return stop.stop_reason in _RETRYABLE_STOPS

    def _end_reply(self, stop: Stop | None) -> Batch:
        """Give what is owed of all tries, and the end; `stop` is the last one's, None where it broke."""
        self._reply_ended = True
        events, stop_reason = self._best_events(stop)
        if self._shim.request.parallel_tool_calls:
            events += self._later_calls.unless_replaced(self._calls)
        if stop_reason in NORMAL_STOPS and self._calls.accepted:
            stop_reason = "tool_use"
        usage = total_usage(self._usages)
        counted: list[Event] = [] if usage is None else [usage]
        return [(0, event) for event in [*events, *counted, Stop(stop_reason)]]

    def _best_events(self, stop: Stop | None) -> tuple[list[Event], StopReason]:
        if self._resumption is None:
            return best_outcome(self._filters, self._calls, stop, self._last_text.text)
        first = self._filters[-2]  # its call is still open
        return self._calls.renumber(self._resumption.restore(first.drain())), first.stop.stop_reason


class _FailedAttempt(NamedTuple):
    """A try that failed: what it was asked and said, what was wrong, what it was held to, and a call to go on with."""

    messages: tuple[Message, ...]
    reply_text: str
    defects: tuple[AttemptDefect, ...]
    constraint_key: str
    interrupted: InterruptedCall | None = None


def make_exchange(
    request: Request, *, upstream: UpstreamCodec, transform: Transform | None, max_retries: int, buffered: bool
) -> Exchange | RetryingExchange:
    """Give the exchange of a request; one with second tries where the calls stand in the text of one choice."""
    if max_retries and isinstance(transform, Shim) and transform.tools and request.n <= 1:
        return RetryingExchange(request, upstream=upstream, shim=transform, max_retries=max_retries, buffered=buffered)
    return Exchange(request, upstream=upstream, transform=transform)
