"""What the parser sends: text, reasoning and calls, at once or held until it is known whether a call is quoted.

Theory of operation. What is held is kept twice, as raw text and as events; `release` sends the one, `accept` the other.
While something is held nothing else is said, so the order of events is the order of the text.

Rule: adjacent text of one piece leaves as one event, before the event that follows it.
Neighbours: `stream` decides what is said or held, `sink` makes the events of calls, `surroundings` remembers the line.
"""

from dataclasses import dataclass, field
from typing import Literal

from fcshim.events import Event, Reasoning, Text
from fcshim.parse.defect import CallDefect
from fcshim.parse.machine.context import LineContext
from fcshim.parse.sink import CallSink

PendingKind = Literal["fence", "span", "reasoning", "bare"]


@dataclass(slots=True)
class PendingCalls:
    """Calls that are not sent yet, since they may turn out to be quoted; `count` and `good` are the sink's before."""

    kind: PendingKind
    calls_before: int
    accepted_before: int
    raw: list[str] = field(default_factory=list)
    size: int = 0
    """Characters in `raw`."""
    events: list[Event] = field(default_factory=list)
    accepted: int = 0
    closing_quote: str = ""
    searched: int = 0
    """Characters behind the last call that were searched for the end of the code span."""

    def add(self, text: str) -> None:
        """Hold a further piece."""
        self.raw.append(text)
        self.size += len(text)


class Output:
    """Collects the events of one piece of text after the other."""

    def __init__(self, sink: CallSink) -> None:
        self.events: list[Event] = []
        self.line = LineContext()
        self.pending: PendingCalls | None = None
        self.in_reasoning = False
        """True while what is said is reasoning."""
        self._sink = sink
        self._text_parts: list[str] = []

    def begin(self) -> list[Event]:
        """Start the list of a new piece's events."""
        self.events = []
        if self.pending is None:
            self._sink.events = self.events
        return self.events

    def finish(self) -> list[Event]:
        """Give the events of the piece."""
        if self.pending is None:
            self.flush()
        return self.events

    def emit_text(self, text: str) -> None:
        """Send text, as answer or as reasoning."""
        if text:
            self._text_parts.append(text)
            self.line.add(text)

    def flush(self) -> None:
        """Make one event of what was said."""
        if self._text_parts:
            text = "".join(self._text_parts)
            self._text_parts.clear()
            self.events.append(Reasoning(text) if self.in_reasoning else Text(text))

    def emit_defect(self, defect: CallDefect) -> None:
        """Put a mark behind what was said."""
        self.flush()
        self.events.append(defect)

    def get_pending(self) -> PendingCalls:
        """Give the hold, which there must be."""
        assert self.pending is not None
        return self.pending

    def begin_pending(self, kind: PendingKind) -> PendingCalls:
        """Hold what comes from here on."""
        self.flush()
        self.pending = PendingCalls(kind, self._sink.call_count, self._sink.accepted_count)
        self._sink.buffered = True
        self._sink.events = self.pending.events
        return self.pending

    def release_as_text(self) -> None:
        """What was held is text."""
        hold = self._end_pending()
        self._sink.reset(hold.calls_before, hold.accepted_before)
        self.emit_text("".join(hold.raw))

    def accept_calls(self) -> None:
        """What was held are calls."""
        self.events.extend(self._end_pending().events)

    def _end_pending(self) -> PendingCalls:
        hold = self.get_pending()
        self.pending = None
        self._sink.buffered = False
        self._sink.events = self.events
        return hold
