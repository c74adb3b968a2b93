"""Passes the events of one attempt to the client, or buffers them until it is known whether a retry is better.

Theory of operation. Without defects everything passes, except that text waits for a required call. From the first
defect on, text is buffered, since a retry may supersede it; accepted calls still pass. A defective call is buffered if
the client has nothing of it; if the client has its start, it ends with its error, and can only be continued. In a
retry, only calls pass at once.

Rule: text never lies inside a call. `Exchange` decides what to release: all of the buffer, its accepted calls,
or nothing. The client sees indexes from 0 without a gap, whichever calls were held back.
"""

import itertools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from fcshim.events import (
    CallError,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
)
from fcshim.parse.defect import Defect
from fcshim.parse.restart import BEGUN_AGAIN
from fcshim.parse.sink import EXCERPT_SIZE
from fcshim.prompt.repetition import REFUSED, CallKey, call_key, canonical_arguments

ParsedEvent: TypeAlias = tuple[Event, Defect | None]
"""An event, with the defect that the parser reported of it."""


@dataclass(frozen=True, slots=True)
class AttemptDefect:
    """One defect of an attempt.

    `missing`: no call although one was required. `unoffered`: a call of a tool that is not offered. `unreadable`:
    text that was meant as a call, without a readable tool name. `result`, `copied`: text that is neither a call nor an
    answer. `bad`: a call with the error in `message`.
    `repeated`: a call that gave the same result too often.
    `broken`: the same, but the client already has its start. `is_restarted`: the call was broken off and begun again,
    so that it is no defect if the call after it is accepted.
    """

    kind: Literal["missing", "unoffered", "unreadable", "result", "copied", "repeated", "bad", "broken"]
    name: str = ""
    message: str = ""
    is_restarted: bool = False

    def __str__(self) -> str:
        match self.kind:
            case "bad" | "broken":
                return f"a call of {self.name!r:.80}: {self.message:.200}"
            case kind:
                return _PHRASES[kind].format(name=f"{self.name!r:.80}")


_PHRASES = {
    "missing": "no call came although one was demanded",
    "unoffered": "there is no tool {name}",
    "unreadable": "a call could not be read",
    "result": "a tool's result was invented",
    "copied": "the instructions were repeated",
    "repeated": "a call of {name} repeats without progress",
}


def as_phrase(defects: Iterable[AttemptDefect]) -> str:
    """Return the different defects as a phrase for the log."""
    return "; ".join(dict.fromkeys(map(str, defects)))


COPIES = frozenset({"result", "copied"})
"""The kinds of defects that no call has: the model need not have meant one."""
ANSWERED = COPIES | {"repeated"}
"""The kinds of defects after which the model may answer without a call; one that sees its own reply repeats it."""
MISSING_CALL = AttemptDefect("missing")


def defect_of_call(end: ToolCallEnd, violation: Defect | None) -> AttemptDefect | None:
    """Return the defect of a call; None if it has no error and satisfies its schema."""
    if end.error is not None:
        message = end.error.message
        return AttemptDefect("bad", end.tool_call_name, message, is_restarted=message == BEGUN_AGAIN)
    return None if violation is None else AttemptDefect("bad", end.tool_call_name, violation.message)


class ReplyCalls:
    """The calls that the client has; `accepted` are those that ended without error, each a name and arguments.

    `refused` are calls that the client must not get, and how often each was made.
    """

    def __init__(self, refused: Mapping[CallKey, int] | None = None) -> None:
        self._refused = refused or {}
        self.accepted: list[tuple[str, str]] = []
        self.indexes_unchanged = True
        """True as long as every call has the index that its parser gave it."""
        self._indexes: dict[str, int] = {}
        self.violations: dict[str, str] = {}
        """Calls whose arguments violate their schema, and how, by their ids."""
        self.delivered_violations: dict[str, AttemptDefect] = {}
        """Those of them that the client has."""

    def renumber(self, events: Iterable[Event]) -> list[Event]:
        """Return the events with the client's indexes."""
        renumbered: list[Event] = []
        for each in events:
            event = each
            if isinstance(event, ToolCallStart | ToolCallChunk | ToolCallEnd):
                index = self._indexes.setdefault(event.tool_call_id, len(self._indexes))
                if index != event.index:
                    self.indexes_unchanged = False
                    event = msgspec.structs.replace(event, index=index)
            if isinstance(event, ToolCallEnd) and event.error is None and event.tool_call_id in self.violations:
                message = self.violations[event.tool_call_id]
                self.delivered_violations[event.tool_call_id] = AttemptDefect("bad", event.tool_call_name, message)
            renumbered.append(event)
        return renumbered

    def check(self, end: ToolCallEnd, violation: Defect | None) -> None:
        """Remember whether a call that ended without error violates its schema."""
        if violation is None:
            self.violations.pop(end.tool_call_id, None)  # a resumption has mended it
        else:
            self.violations[end.tool_call_id] = violation.message

    def accept(self, end: ToolCallEnd) -> None:
        """Record a call that the client may execute."""
        self.accepted.append((end.tool_call_name, end.tool_call_arguments_complete))

    def refusal(self, end: ToolCallEnd) -> str:
        """Return the sentence that stands for a call that is refused; empty for any other."""
        if not self._refused or end.error is not None:
            return ""
        count = self._refused.get(call_key(end.tool_call_name, end.tool_call_arguments_complete))
        return "" if count is None else REFUSED.format(name=end.tool_call_name, count=count)

    def repeats(self, end: ToolCallEnd, count: int) -> bool:
        """Return whether a call equals one of the first `count` accepted ones, which the model must not repeat."""
        if not count:
            return False
        arguments = canonical_arguments(end.tool_call_arguments_complete)
        return any(
            end.tool_call_name == name and arguments == canonical_arguments(text)
            for name, text in self.accepted[:count]
        )


@dataclass(frozen=True, slots=True)
class InterruptedCall:
    """A call to continue: its failed end; whether the client has its start, and which arguments the client has."""

    end: ToolCallEnd
    started: bool
    sent_arguments: str = ""


NORMAL_STOPS: frozenset[StopReason] = frozenset({"complete", "tool_use", "stop_sequence"})
MAX_BUFFERED = 64 * 2**10
"""Characters that are buffered: as many as a transcript keeps, since there is no retry beyond that."""


class AttemptFilter:
    """Filter one attempt. `live`: the client sees it as it comes (else it is a retry that replaces calls).

    `call_required`: a reply without a call is a defect. `buffered`: the client gets the reply in one piece at its end,
    so accepted calls keep their order. `last`: no retry follows, so a call that violates its schema is accepted.
    `max_calls`: a retry ends where further calls come. `can_resume`: a call whose start the client has may be continued
    by a retry if it ends with an error. `fails_invalid`: a call that violates its schema ends with an error.
    """

    def __init__(
        self,
        calls: ReplyCalls,
        *,
        live: bool,
        call_required: bool,
        buffered: bool = False,
        last: bool = False,
        max_calls: int = sys.maxsize,
        can_resume: bool = False,
        fails_invalid: bool = False,
    ) -> None:
        self.interrupted: ToolCallEnd | None = None
        """The failed end of a call whose start the client has; it is buffered with all that follows."""
        self.truncated: ToolCallEnd | None = None
        """The end of a truncated call that is buffered from its start on."""
        self.defects: list[AttemptDefect] = []
        self.accepted_count = 0
        """Calls that the client may execute."""
        self.stop = Stop("complete")
        self.overflowed = False
        """True if a retry has more than can be buffered."""
        self.has_surplus = False
        """True if a retry has more calls than it may replace; they are dropped."""
        self._calls = calls
        self._accepted_before = len(calls.accepted)
        self._live = live
        self._buffered = buffered
        self._last = last
        self._max_calls = max_calls
        self._can_resume = can_resume
        self._fails_invalid = fails_invalid
        self._awaiting_call = call_required
        self._pass_all = False
        self._buffer: list[tuple[bool, Event]] = []  # whether it belongs to an accepted call, and the event
        self._remaining = MAX_BUFFERED
        self._sent_size = 0  # characters of the interrupted call's arguments that the client has
        self._restarted_at = -1  # position in the buffer of the first unreadable call that was begun again, if any
        self._open_call: list[Event] = []  # the start and chunks of a call that began in this batch

    @property
    def passthrough(self) -> bool:
        """Whether text and chunks pass unchanged, so that the caller may skip `feed` for them."""
        return self._live and not self._awaiting_call and not self.defects and self._calls.indexes_unchanged

    def feed(self, events: Iterable[ParsedEvent]) -> list[Event]:
        """Take the events of one upstream read; return those that the client sees now."""
        passed: list[Event] = []
        for each, reported in events:
            event, defect = each, reported
            if isinstance(event, ToolCallEnd):
                if defect is not None and self._fails_invalid:
                    event, defect = _failed_end(event, defect), None
                self._calls.check(event, defect)
            if self.interrupted is None:
                passed += self._feed_event(event, defect)
                if len(self._buffer) == 1:
                    passed = self._buffer_last_chunks(passed)
            elif isinstance(event, ToolCallEnd):
                passed += self._buffer_events(_unsent_events(event, defect), 0)
            elif defect is None:
                passed += self._buffer_events([event], size_of(event))
        if self._open_call:
            call, self._open_call = self._open_call, []
            passed += self._pass_call(call)
        return passed

    def close(self, stop: Stop) -> None:
        """Handle the end of the attempt; a required call that did not come is a defect."""
        self.stop = stop
        if (
            stop.stop_reason == "tool_use"
            and not self.accepted_count
            and (self.has_only_repeats or self._fails_invalid)
        ):
            self.stop = Stop("complete")  # a sentence stands for each call, or each has an error
        if self._awaiting_call and not self.defects and stop.stop_reason in NORMAL_STOPS:
            self.defects.append(MISSING_CALL)

    @property
    def has_only_repeats(self) -> bool:
        """Whether there are defects, and each is a call that gave the same result too often."""
        return bool(self.defects) and all(defect.kind == "repeated" for defect in self.defects)

    def resumable_call(self, stop: Stop) -> InterruptedCall | None:
        """Return the call that a retry should continue; None if the attempt did not end in one."""
        if self.interrupted is not None:
            return InterruptedCall(
                self.interrupted,
                started=True,
                sent_arguments=self.interrupted.tool_call_arguments_complete[: self._sent_size],
            )
        truncated = self.truncated if self._live and stop.stop_reason == "max_tokens" else None
        return None if truncated is None else InterruptedCall(truncated, started=False)

    def buffered_before_call(self) -> list[Event]:
        """Return the buffered events before the first call, and keep them buffered."""
        before_call = itertools.takewhile(lambda entry: not isinstance(entry[1], ToolCallStart), self._buffer)
        return [event for _, event in before_call]

    def drain(self) -> list[Event]:
        """Empty the buffer and return its events unchanged."""
        entries, self._buffer = self._buffer, []
        return [event for _, event in entries]

    def release(self) -> list[Event]:
        """Empty the buffer and return its events, renumbered."""
        return self._calls.renumber(self.drain()) if self._buffer else []

    def release_accepted(self) -> list[Event]:
        """Empty the buffer and return the events of its accepted calls, renumbered."""
        entries, self._buffer = self._buffer, []
        return self._calls.renumber(event for accepted, event in entries if accepted)

    def _feed_event(self, event: Event, defect: Defect | None) -> list[Event]:
        match event:
            case Text() if defect is not None:
                self._add_rejected_call(defect)
                return []
            case Text() | Reasoning():
                return self._feed_text(event)
            case ToolCallStart():
                self._open_call = [event]
                return []
            case ToolCallChunk() if self._open_call:
                self._open_call.append(event)
                return []
            case ToolCallEnd():
                return self._end_call(event, defect)
        return self._calls.renumber([event])

    def _add_rejected_call(self, defect: Defect) -> None:
        assert defect.kind != "invalid"
        assert defect.kind != "end"
        if not self._pass_all and self.truncated is None:  # text after a truncated call is part of it
            self.defects.append(AttemptDefect(defect.kind, defect.tool_name, is_restarted=defect.is_restarted))
            if not defect.is_restarted or self._restarted_at < 0:
                self._restarted_at = len(self._buffer) if defect.is_restarted else -1

    def _buffer_last_chunks(self, passed: list[Event]) -> list[Event]:
        """Move the chunks that came with the end of the interrupted call to the buffer: the defect may be in them.

        At a schema violation the buffer has more than that end: the unsent arguments. Those before them are valid.
        """
        if self.interrupted is None:
            return passed
        kept = len(passed)
        while kept and isinstance(passed[kept - 1], ToolCallChunk):
            kept -= 1
        chunks = [event for event in passed[kept:] if isinstance(event, ToolCallChunk)]
        self._sent_size -= sum(len(chunk.tool_call_arguments_chunk) for chunk in chunks)
        self._buffer[-1:-1] = [(False, chunk) for chunk in chunks]
        return passed[:kept]

    def _feed_text(self, event: Text | Reasoning) -> list[Event]:
        passes = self._pass_all or (self._live and not self.defects and not self._awaiting_call)
        if passes or (self._live and not self.defects and not self._buffer and isinstance(event, Reasoning)):
            return [event]
        return self._buffer_events([event], size_of(event))

    def _end_call(self, end: ToolCallEnd, violation: Defect | None) -> list[Event]:
        call, self._open_call = [*self._open_call, *_unsent_events(end, violation)], []
        if isinstance(call[0], ToolCallStart):
            return self._end_unsent_call(call, end, violation)
        failed = end if violation is None else _failed_end(end, violation)
        restart = defect_of_call(end, None)
        if restart is not None and restart.is_restarted and self._can_resume:
            # Its start was sent, and what it gave up is written again: nothing to continue.
            self.defects.append(restart)
            return self._calls.renumber(call)
        if failed.error is not None and self._can_resume and not self.defects:
            self.interrupted = failed
            self._sent_size = len(failed.tool_call_arguments_complete)
            self.defects.append(AttemptDefect("broken", failed.tool_call_name, failed.error.message))
            return self._buffer_events(call, sum(map(size_of, call)))
        text = self._accept(end) if end.error is None else []
        return self._calls.renumber(call) + text

    def _end_unsent_call(self, call: list[Event], end: ToolCallEnd, violation: Defect | None) -> list[Event]:
        """Take the end of a call of which the client has nothing."""
        self.has_surplus = self.has_surplus or self.accepted_count >= self._max_calls
        if self.has_surplus:
            return []
        if refusal := self._calls.refusal(end):
            self.defects.append(AttemptDefect("repeated", end.tool_call_name))
            return self._buffer_events([Text(refusal)], len(refusal))
        defect = None if self._pass_all or (self._last and end.error is None) else defect_of_call(end, violation)
        if defect is not None:
            self.defects.append(defect)
            if end.error is not None and end.error.kind == "truncated":
                self.truncated = end
            return self._buffer_events(call, len(end.tool_call_arguments_complete))
        text: list[Event] = []
        if end.error is None:
            if self._calls.repeats(end, self._accepted_before):
                return []
            text = self._accept(end)
        if self._buffered and self.defects:
            return self._buffer_events(call, len(end.tool_call_arguments_complete), accepted=True)
        return text + self._pass_call(call)

    def _accept(self, end: ToolCallEnd) -> list[Event]:
        """Record a call that the client may execute; return what was held because of calls begun again as this one."""
        self.accepted_count += 1
        self._calls.accept(end)
        count = len(self.defects)
        while self.defects and self.defects[-1].is_restarted and self.defects[-1].name in {"", end.tool_call_name}:
            if not self.defects.pop().name:
                del self._buffer[self._restarted_at :]
                self._restarted_at = len(self._buffer)
        self._restarted_at = -1
        is_released = self._live and len(self.defects) < count and not self.defects
        return self.release() if is_released else []

    def _pass_call(self, call: list[Event]) -> list[Event]:
        """Pass a call; text that waited for a required call comes before it."""
        text = self.release() if self._awaiting_call and self._live and not self.defects else []
        self._awaiting_call = False
        return text + self._calls.renumber(call)

    def _buffer_events(self, events: list[Event], size: int, *, accepted: bool = False) -> list[Event]:
        self._buffer += [(accepted, event) for event in events]
        self._remaining -= size
        if self._remaining >= 0:
            return []
        if not self._live:
            self.overflowed = True
            self._buffer.clear()
            return []
        # The transcript is full as well, so there will be no retry: nothing is gained by holding events back.
        self._pass_all = True
        self._awaiting_call = False
        self.interrupted = self.truncated = None
        self.defects.clear()
        return self.release()


def _unsent_events(end: ToolCallEnd, violation: Defect | None) -> list[Event]:
    """Return the events that the client lacks of a call that ends."""
    unsent = "" if violation is None else violation.unsent
    return [ToolCallChunk(end.tool_call_id, unsent, end.index), end] if unsent else [end]


def _failed_end(end: ToolCallEnd, violation: Defect) -> ToolCallEnd:
    """Return the end of a call with the arguments that were sent, and the schema violation as its error."""
    sent = end.tool_call_arguments_complete.removesuffix(violation.unsent)
    error = CallError("invalid", violation.message, violation.unsent[:EXCERPT_SIZE])
    return msgspec.structs.replace(end, tool_call_arguments_complete=sent, error=error)


def size_of(event: Event) -> int:
    """Return the characters that the model wrote for an event."""
    match event:
        case Text() | Reasoning():
            return len(event.text)
        case ToolCallChunk():
            return len(event.tool_call_arguments_chunk)
        case _:
            return 0
