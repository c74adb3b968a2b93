"""What the client sees of one try while it comes, and what is held until it is known whether there is a better one.

Theory of operation. As long as nothing is wrong, everything passes; only where a call is demanded, text waits for it.
From the first fault on text is held, since it will be superseded; good calls still pass. A call of which the client
has nothing is held when it is bad; one whose start has passed ends with its error. Of a later try only calls pass.

Rule: text never lies inside a call; what is held is released whole, or never.
Neighbours: `calls` counts what passes, `tries` decides at the end of a try what becomes of what is held.
"""

import itertools
from collections.abc import Iterable

from fcshim.events import (
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
)
from fcshim.parse.defect import CallDefect
from fcshim.parse.sink import InvalidCallEnd
from fcshim.retry.calls import ReplyCalls
from fcshim.retry.defects import MISSING_CALL, AttemptDefect, defect_of_call, defect_of_text
from fcshim.retry.prefill import InterruptedCall

NORMAL_STOPS: frozenset[StopReason] = frozenset({"complete", "tool_use", "stop_sequence"})
MAX_BUFFERED = 64 * 2**10
"""Characters that are held: as many as are recorded of a try, beyond which there is no second one."""


class AttemptFilter:
    """One try. `first`: the client sees it as it comes. `whole`: nothing is urgent, so the order of calls is kept.

    `last`: no other try follows, so a call that its schema does not admit passes. `demanded`: a call must come.
    `resumes`: a call of which the client has the beginning may be gone on with, should it end with an error.
    """

    def __init__(
        self,
        calls: ReplyCalls,
        *,
        live: bool,
        call_required: bool,
        buffered: bool = False,
        last: bool = False,
        can_resume: bool = False,
    ) -> None:
        self.interrupted: ToolCallEnd | None = None
        """The end of a call of which the client has the beginning; it and all that came with it or follows is held."""
        self.truncated: ToolCallEnd | None = None
        """The end of a call that broke off, and that is held from its start on."""
        self.defects: list[AttemptDefect] = []
        self.accepted_count = 0
        """Calls that the client may execute."""
        self.stop = Stop("complete")
        self.overflowed = False
        """True when a later try says more than can be held."""
        self._calls = calls
        self._accepted_before = len(calls.accepted)
        self._live = live
        self._buffered = buffered
        self._last = last
        self._can_resume = can_resume
        self._awaiting_call = call_required
        self._pass_all = False
        self._buffer: list[tuple[bool, Event]] = []  # each with whether it belongs to a good call
        self._remaining = MAX_BUFFERED
        self._sent_size = 0  # characters of the broken call that the client has
        self._open_call: list[Event] = []  # of a call whose end has not come in this batch

    @property
    def passthrough(self) -> bool:
        """Whether a piece of text, or of a call's arguments, passes as it is."""
        return self._live and not self._awaiting_call and not self.defects and self._calls.indexes_unchanged

    def feed(self, events: Iterable[Event]) -> list[Event]:
        """Take the events of one upstream read; give those that the client sees now."""
        seen: list[Event] = []
        for event in events:
            if self.interrupted is None:
                seen += self._feed_event(event)
                seen = self._buffer_last_chunks(seen)
            else:
                seen += self._buffer_after_interruption(event)
        if self._open_call:
            begun, self._open_call = self._open_call, []
            seen += self._pass_call(begun)
        return seen

    def close(self, stop: Stop) -> None:
        """The try has ended."""
        self.stop = stop
        if self._awaiting_call and not self.defects and stop.stop_reason in NORMAL_STOPS:
            self.defects.append(MISSING_CALL)

    def resumable_call(self, stop: Stop) -> InterruptedCall | None:
        """Give the call that is to go on, where the try ended so and the client sees it as it comes."""
        if self.interrupted is not None:
            return InterruptedCall(
                self.interrupted,
                started=True,
                sent_arguments=self.interrupted.tool_call_arguments_complete[: self._sent_size],
            )
        cut = self.truncated if self._live and stop.stop_reason == "max_tokens" else None
        return None if cut is None else InterruptedCall(cut, started=False)

    def buffered_before_call(self) -> list[Event]:
        """Give what is held before the call that broke off."""
        return [
            event for _, event in itertools.takewhile(lambda held: not isinstance(held[1], ToolCallStart), self._buffer)
        ]

    def drain(self) -> list[Event]:
        """Give all that is held, as it came."""
        held, self._buffer = self._buffer, []
        return [event for _, event in held]

    def release(self) -> list[Event]:
        """Give all that is held."""
        return self._calls.renumber(self.drain())

    def release_accepted(self) -> list[Event]:
        """Give the good calls that are held, and forget the rest."""
        held, self._buffer = self._buffer, []
        return self._calls.renumber(event for good, event in held if good)

    def _feed_event(self, event: Event) -> list[Event]:
        match event:
            case CallDefect():
                if not self._pass_all and self.truncated is None:  # what is left of a call that broke off is part of it
                    self.defects.append(defect_of_text(event))
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
                return self._end_call(event)
        return self._calls.renumber([event])

    def _buffer_after_interruption(self, event: Event) -> list[Event]:
        """Hold what comes behind a call that the client has the beginning of."""
        if isinstance(event, CallDefect):
            return []
        return self._buffer_events(_unsent_events(event) if isinstance(event, ToolCallEnd) else [event], _size(event))

    def _buffer_last_chunks(self, passed: list[Event]) -> list[Event]:
        """Hold the chunks that came with the end of a broken call: they may be what is wrong with it."""
        if (
            self.interrupted is None or len(self._buffer) != 1
        ):  # behind a doubt there is more, and nothing wrong before it
            return passed
        rest = len(passed)
        while rest and isinstance(passed[rest - 1], ToolCallChunk):
            rest -= 1
        chunks = [event for event in passed[rest:] if isinstance(event, ToolCallChunk)]
        held = sum(len(chunk.tool_call_arguments_chunk) for chunk in chunks)
        self._sent_size -= held
        self._buffer[-1:-1] = [(False, chunk) for chunk in chunks]
        return passed[:rest]

    def _feed_text(self, event: Text | Reasoning) -> list[Event]:
        passes = self._pass_all or (self._live and not self.defects and not self._awaiting_call)
        if passes or (self._live and not self.defects and not self._buffer and isinstance(event, Reasoning)):
            return [event]
        return self._buffer_events([event], _size(event))

    def _end_call(self, end: ToolCallEnd) -> list[Event]:
        call, self._open_call = [*self._open_call, *_unsent_events(end)], []
        if isinstance(call[0], ToolCallStart):
            return self._end_unsent_call(call, end)
        failed = end.as_failed if isinstance(end, InvalidCallEnd) else end
        if failed.error is not None and self._can_resume and not self.defects:
            self.interrupted = failed
            self._sent_size = len(failed.tool_call_arguments_complete)
            self.defects.append(AttemptDefect("broken", failed.tool_call_name, failed.error.message))
            return self._buffer_events(call, sum(map(_size, call)))
        if end.error is None:
            self._accept(end)
        return self._calls.renumber(call)

    def _end_unsent_call(self, call: list[Event], end: ToolCallEnd) -> list[Event]:
        """Take the end of a call of which the client has nothing."""
        fault = None if self._pass_all or (self._last and end.error is None) else defect_of_call(end)
        if fault is not None:
            self.defects.append(fault)
            if end.error is not None and end.error.kind == "truncated":
                self.truncated = end
            return self._buffer_events(call, len(end.tool_call_arguments_complete))
        if end.error is None:
            if self._calls.repeats(end, self._accepted_before):
                return []
            self._accept(end)
        if self._buffered and self.defects:
            return self._buffer_events(call, len(end.tool_call_arguments_complete), accepted=True)
        return self._pass_call(call)

    def _accept(self, end: ToolCallEnd) -> None:
        self.accepted_count += 1
        self._calls.accept(end)

    def _pass_call(self, call: list[Event]) -> list[Event]:
        """Let a call through; text that waited for it comes before."""
        waited = self.release() if self._awaiting_call and self._live and not self.defects else []
        self._awaiting_call = False
        return waited + self._calls.renumber(call)

    def _buffer_events(self, events: list[Event], size: int, *, accepted: bool = False) -> list[Event]:
        self._buffer += [(accepted, event) for event in events]
        self._remaining -= size
        if self._remaining >= 0:
            return []
        if not self._live:
            self.overflowed = True
            self._buffer.clear()
            return []
        self._pass_all = True
        self._awaiting_call = False
        self.interrupted = self.truncated = None
        self.defects.clear()
        return self.release()


def _unsent_events(end: ToolCallEnd) -> list[Event]:
    """Give what the client lacks of a call that ends; of a doubt it knows nothing."""
    if not isinstance(end, InvalidCallEnd):
        return [end]
    unsent = [ToolCallChunk(end.tool_call_id, end.unsent, end.index)] if end.unsent else []
    return [*unsent, end.as_accepted]


def _size(event: Event) -> int:
    match event:
        case Text() | Reasoning():
            return len(event.text)
        case ToolCallChunk():
            return len(event.tool_call_arguments_chunk)
        case _:
            return 0
