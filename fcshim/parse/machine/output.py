"""The parser's output: text, reasoning and calls, sent at once or pending until it is known whether they are quoted.

Theory of operation. Pending calls are stored twice, as raw text and as events: `release_as_text` sends the text,
`accept_calls` the events. While calls are pending nothing else is emitted, so events keep the order of the text.

Rule: adjacent text of one piece becomes one event, which precedes the event of what follows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from fcshim.events import Event, Reasoning, Text
from fcshim.parse.documents import Documents
from fcshim.parse.machine.context import LineContext
from fcshim.parse.machine.cursor import Cursor
from fcshim.parse.sink import CallSink

PendingKind = Literal["fence", "span", "reasoning", "bare", "wrapper", "quotable"]
"""`quotable`: a call without tags in the dialect that was asked for, quoted only if a document holds it."""


@dataclass(slots=True)
class PendingCalls:
    """Calls that are not sent yet, because they may turn out to be quoted.

    `calls_before` and `accepted_before` are the sink's counts when the calls became pending.
    """

    kind: PendingKind
    calls_before: int
    accepted_before: int
    raw: list[str] = field(default_factory=list)
    raw_size: int = 0
    """Characters in `raw`."""
    size: int = 0
    """Characters in `raw`, and what the events take."""
    body_starts: list[int] = field(default_factory=list)
    """Where in the raw text the bodies begin."""
    events: list[Event] = field(default_factory=list)
    accepted: int = 0
    """Pending calls that ended without error."""
    closing_quote: str = ""
    end_markers: tuple[str, ...] = ()
    """The end markers of an unknown tag around the calls."""
    searched: int = 0
    """Characters after the last call that were already searched for the end of the code span."""

    def add(self, text: str) -> None:
        """Keep a further piece of raw text."""
        self.raw.append(text)
        self.raw_size += len(text)
        self.size += len(text)

    def remove_end(self, size: int) -> None:
        """Remove the last characters of the raw text, which are parsed again."""
        if size:
            self.raw[:] = ["".join(self.raw)[:-size]]
            self.raw_size -= size
            self.size -= size

    def bodies(self) -> Iterator[str]:
        """Yield the text of each body, with what follows it."""
        raw = "".join(self.raw)
        for start, end in pairwise((*self.body_starts, len(raw))):
            yield raw[start:end]


class Output:
    """Collects the events of one piece of text after the other."""

    def __init__(self, sink: CallSink, documents: Documents | None = None) -> None:
        self.documents = documents
        self.events: list[Event] = []
        self.line = LineContext()
        self.pending: PendingCalls | None = None
        self.in_reasoning = False
        """True while emitted text is reasoning."""
        self.sink = sink
        self._text_parts: list[str] = []

    def begin(self) -> list[Event]:
        """Start the event list of a new piece."""
        self.events = []
        if self.pending is None:
            self.sink.events = self.events
        return self.events

    def finish(self) -> list[Event]:
        """Return the events of the piece."""
        if self.pending is None:
            self.flush()
        return self.events

    def emit_text(self, text: str) -> None:
        """Emit text, as part of the answer or of the reasoning."""
        if text:
            self._text_parts.append(text)
            self.line.add(text)

    def emit_up_to(self, cursor: Cursor, pos: int, end: int) -> int:
        """Emit the text from `pos` to `end`; what follows waits for more text. Return `end`."""
        self.emit_text(cursor.buffer[pos:end])
        return cursor.wait_from(end)

    def flush(self) -> None:
        """Append one event with the text emitted since the last flush."""
        if self._text_parts:
            text = "".join(self._text_parts)
            self._text_parts.clear()
            self.events.append(Reasoning(text) if self.in_reasoning else Text(text))

    def mark_defect(self) -> None:
        """Append an empty `Text` after the text emitted so far: the place of a defect."""
        self.flush()
        self.events.append(Text(""))

    def get_pending(self) -> PendingCalls:
        """Return the pending calls, which must exist."""
        assert self.pending is not None
        return self.pending

    def begin_pending(self, kind: PendingKind) -> PendingCalls:
        """Keep pending what follows."""
        self.flush()
        self.pending = PendingCalls(kind, self.sink.call_count, self.sink.accepted_count)
        self.sink.buffered = True
        self.sink.events = self.pending.events
        return self.pending

    def release_as_text(self) -> None:
        """Emit the pending calls as text: they are quoted."""
        pending = self._end_pending()
        self.sink.reset(pending.calls_before, pending.accepted_before)
        self.emit_text("".join(pending.raw))

    def accept_calls(self) -> bool:
        """Emit the events of the pending calls; if a document of the conversation holds one, return False instead."""
        if self.documents is not None and any(map(self.documents.hold, self.get_pending().bodies())):
            return False
        self.events.extend(self._end_pending().events)
        return True

    def _end_pending(self) -> PendingCalls:
        pending = self.get_pending()
        self.pending = None
        self.sink.buffered = False
        self.sink.events = self.events
        return pending
