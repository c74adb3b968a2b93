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
from fcshim.parse.sink import InvalidCallEnd
from fcshim.parse.defect import CallDefect
from fcshim.retry.beginning import Broken
from fcshim.retry.calls import Calls
from fcshim.retry.faults import MISSING, Fault, fault_of_call, fault_of_text

NATURAL: frozenset[StopReason] = frozenset({"complete", "tool_use", "stop_sequence"})
MOST_HELD = 64 * 2**10
"""Characters that are held: as many as are recorded of a try, beyond which there is no second one."""


class Screen:
    """One try. `first`: the client sees it as it comes. `whole`: nothing is urgent, so the order of calls is kept.

    `last`: no other try follows, so a call that its schema does not admit passes. `demanded`: a call must come.
    `resumes`: a call of which the client has the beginning may be gone on with, should it end with an error.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        first: bool,
        demanded: bool,
        whole: bool = False,
        last: bool = False,
        resumes: bool = False,
    ) -> None:
        self.broken: ToolCallEnd | None = None
        """The end of a call of which the client has the beginning; it and all that came with it or follows is held."""
        self.cut: ToolCallEnd | None = None
        """The end of a call that broke off, and that is held from its start on."""
        self.faults: list[Fault] = []
        self.good = 0
        """Calls that the client may execute."""
        self.stop = Stop("complete")
        self.full = False
        """True when a later try says more than can be held."""
        self._calls = calls
        self._known = len(calls.taken)
        self._first = first
        self._whole = whole
        self._last = last
        self._resumes = resumes
        self._waits = demanded
        self._passes = False
        self._held: list[tuple[bool, Event]] = []  # each with whether it belongs to a good call
        self._room = MOST_HELD
        self._given = 0  # characters of the broken call that the client has
        self._call: list[Event] = []  # of a call whose end has not come in this batch

    @property
    def plain(self) -> bool:
        """Whether a piece of text, or of a call's arguments, passes as it is."""
        return self._first and not self._waits and not self.faults and self._calls.straight

    def take(self, events: Iterable[Event]) -> list[Event]:
        """Take the events of one upstream read; give those that the client sees now."""
        seen: list[Event] = []
        for event in events:
            if self.broken is None:
                seen += self._taken(event)
                seen = self._without_last_chunks(seen)
            else:
                seen += self._kept(event)
        if self._call:
            begun, self._call = self._call, []
            seen += self._passed(begun)
        return seen

    def close(self, stop: Stop) -> None:
        """The try has ended."""
        self.stop = stop
        if self._waits and not self.faults and stop.stop_reason in NATURAL:
            self.faults.append(MISSING)

    def to_go_on(self, stop: Stop) -> Broken | None:
        """Give the call that is to go on, where the try ended so and the client sees it as it comes."""
        if self.broken is not None:
            return Broken(self.broken, begun=True, given=self.broken.tool_call_arguments_complete[: self._given])
        cut = self.cut if self._first and stop.stop_reason == "max_tokens" else None
        return None if cut is None else Broken(cut, begun=False)

    def waited(self) -> list[Event]:
        """Give what is held before the call that broke off."""
        return [
            event for _, event in itertools.takewhile(lambda held: not isinstance(held[1], ToolCallStart), self._held)
        ]

    def held(self) -> list[Event]:
        """Give all that is held, as it came."""
        held, self._held = self._held, []
        return [event for _, event in held]

    def release(self) -> list[Event]:
        """Give all that is held."""
        return self._calls.numbered(self.held())

    def salvage(self) -> list[Event]:
        """Give the good calls that are held, and forget the rest."""
        held, self._held = self._held, []
        return self._calls.numbered(event for good, event in held if good)

    def _taken(self, event: Event) -> list[Event]:
        match event:
            case CallDefect():
                if not self._passes and self.cut is None:  # what is left of a call that broke off is part of it
                    self.faults.append(fault_of_text(event))
                return []
            case Text() | Reasoning():
                return self._said(event)
            case ToolCallStart():
                self._call = [event]
                return []
            case ToolCallChunk() if self._call:
                self._call.append(event)
                return []
            case ToolCallEnd():
                return self._ended(event)
        return self._calls.numbered([event])

    def _kept(self, event: Event) -> list[Event]:
        """Hold what comes behind a call that the client has the beginning of."""
        if isinstance(event, CallDefect):
            return []
        return self._hold(_rest(event) if isinstance(event, ToolCallEnd) else [event], _size(event))

    def _without_last_chunks(self, seen: list[Event]) -> list[Event]:
        """Hold the chunks that came with the end of a broken call: they may be what is wrong with it."""
        if self.broken is None or len(self._held) != 1:  # behind a doubt there is more, and nothing wrong before it
            return seen
        rest = len(seen)
        while rest and isinstance(seen[rest - 1], ToolCallChunk):
            rest -= 1
        chunks = [event for event in seen[rest:] if isinstance(event, ToolCallChunk)]
        held = sum(len(chunk.tool_call_arguments_chunk) for chunk in chunks)
        self._given -= held
        self._held[-1:-1] = [(False, chunk) for chunk in chunks]
        return seen[:rest]

    def _said(self, event: Text | Reasoning) -> list[Event]:
        passes = self._passes or (self._first and not self.faults and not self._waits)
        if passes or (self._first and not self.faults and not self._held and isinstance(event, Reasoning)):
            return [event]
        return self._hold([event], _size(event))

    def _ended(self, end: ToolCallEnd) -> list[Event]:
        call, self._call = [*self._call, *_rest(end)], []
        if isinstance(call[0], ToolCallStart):
            return self._ended_whole(call, end)
        failed = end.as_failed if isinstance(end, InvalidCallEnd) else end
        if failed.error is not None and self._resumes and not self.faults:
            self.broken = failed
            self._given = len(failed.tool_call_arguments_complete)
            self.faults.append(Fault("broken", failed.tool_call_name, failed.error.message))
            return self._hold(call, sum(map(_size, call)))
        if end.error is None:
            self._take(end)
        return self._calls.numbered(call)

    def _ended_whole(self, call: list[Event], end: ToolCallEnd) -> list[Event]:
        """Take the end of a call of which the client has nothing."""
        fault = None if self._passes or (self._last and end.error is None) else fault_of_call(end)
        if fault is not None:
            self.faults.append(fault)
            if end.error is not None and end.error.kind == "truncated":
                self.cut = end
            return self._hold(call, len(end.tool_call_arguments_complete))
        if end.error is None:
            if self._calls.repeats(end, self._known):
                return []
            self._take(end)
        if self._whole and self.faults:
            return self._hold(call, len(end.tool_call_arguments_complete), good=True)
        return self._passed(call)

    def _take(self, end: ToolCallEnd) -> None:
        self.good += 1
        self._calls.take(end)

    def _passed(self, call: list[Event]) -> list[Event]:
        """Let a call through; text that waited for it comes before."""
        waited = self.release() if self._waits and self._first and not self.faults else []
        self._waits = False
        return waited + self._calls.numbered(call)

    def _hold(self, events: list[Event], size: int, *, good: bool = False) -> list[Event]:
        self._held += [(good, event) for event in events]
        self._room -= size
        if self._room >= 0:
            return []
        if not self._first:
            self.full = True
            self._held.clear()
            return []
        self._passes = True
        self._waits = False
        self.broken = self.cut = None
        self.faults.clear()
        return self.release()


def _rest(end: ToolCallEnd) -> list[Event]:
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
