"""What the parser sends: text, reasoning and calls, at once or held until it is known whether a call is quoted.

Theory of operation. What is held is kept twice, as raw text and as events; `release` sends the one, `accept` the other.
While something is held nothing else is said, so the order of events is the order of the text.

Rule: adjacent text of one piece leaves as one event, before the event that follows it.
Neighbours: `stream` decides what is said or held, `sink` makes the events of calls, `surroundings` remembers the line.
"""

from dataclasses import dataclass, field
from typing import Literal

from fcshim.events import Event, Reasoning, Text
from fcshim.parse.machine.surroundings import Line
from fcshim.parse.sink import CallSink
from fcshim.parse.spoiled import Spoiled

HoldKind = Literal["fence", "span", "reasoning", "bare"]


@dataclass(slots=True)
class Hold:
    """Calls that are not sent yet, since they may turn out to be quoted; `count` and `good` are the sink's before."""

    kind: HoldKind
    count: int
    good: int
    raw: list[str] = field(default_factory=list)
    size: int = 0
    """Characters in `raw`."""
    events: list[Event] = field(default_factory=list)
    calls: int = 0
    closing_quote: str = ""
    looked: int = 0
    """Characters behind the last call that were searched for the end of the code span."""

    def add(self, text: str) -> None:
        """Hold a further piece."""
        self.raw.append(text)
        self.size += len(text)


class Output:
    """Collects the events of one piece of text after the other."""

    def __init__(self, sink: CallSink) -> None:
        self.events: list[Event] = []
        self.line = Line()
        self.hold: Hold | None = None
        self.reasons = False
        """True while what is said is reasoning."""
        self._sink = sink
        self._said: list[str] = []

    def begin(self) -> list[Event]:
        """Start the list of a new piece's events."""
        self.events = []
        if self.hold is None:
            self._sink.out = self.events
        return self.events

    def finish(self) -> list[Event]:
        """Give the events of the piece."""
        if self.hold is None:
            self.flush()
        return self.events

    def say(self, text: str) -> None:
        """Send text, as answer or as reasoning."""
        if text:
            self._said.append(text)
            self.line.add(text)

    def flush(self) -> None:
        """Make one event of what was said."""
        if self._said:
            text = "".join(self._said)
            self._said.clear()
            self.events.append(Reasoning(text) if self.reasons else Text(text))

    def mark(self, mark: Spoiled) -> None:
        """Put a mark behind what was said."""
        self.flush()
        self.events.append(mark)

    def held(self) -> Hold:
        """Give the hold, which there must be."""
        assert self.hold is not None
        return self.hold

    def begin_hold(self, kind: HoldKind) -> Hold:
        """Hold what comes from here on."""
        self.flush()
        self.hold = Hold(kind, self._sink.count, self._sink.good)
        self._sink.whole = True
        self._sink.out = self.hold.events
        return self.hold

    def release(self) -> None:
        """What was held is text."""
        hold = self._end_hold()
        self._sink.reset(hold.count, hold.good)
        self.say("".join(hold.raw))

    def accept(self) -> None:
        """What was held are calls."""
        self.events.extend(self._end_hold().events)

    def _end_hold(self) -> Hold:
        hold = self.held()
        self.hold = None
        self._sink.whole = False
        self._sink.out = self.events
        return hold
