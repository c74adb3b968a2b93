"""What all states share: the current state and its text, the text that is held, and the output.

Theory of operation. The text of a call is held until it is known whether it was a call (then it is dropped) or text
(then it is emitted). Where a call may be quoted, its events stay pending, too: `accept_calls` sends them,
`release_as_text` the text. While calls are pending nothing else is emitted, so events keep the order of the text.

Rule: a state that needs more text raises `MoreNeeded` before it changes anything: the text from its position on waits,
and is read again with more text after it. Adjacent text of one piece becomes one event, which precedes the event of
what follows.
"""

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from fcshim.events import Event, Reasoning, Text
from fcshim.parse.defect import CopyDefectKind, Defect, ReportDefect
from fcshim.parse.documents import Documents
from fcshim.parse.machine.line_context import LineContext
from fcshim.parse.machine.prompt_copies import CopyKind, kind_of_copy
from fcshim.parse.sink import CallSink


class State(enum.IntEnum):
    """The states of the parser; the table at the head of `parse/stream.py` describes them."""

    BEFORE_ANSWER = enum.auto()
    IN_REASONING = enum.auto()
    IN_TEXT = enum.auto()
    IN_CALL = enum.auto()
    AFTER_CALL = enum.auto()
    IN_SECTION = enum.auto()
    IN_FENCE = enum.auto()
    IN_FENCE_OF_CALLS = enum.auto()
    AFTER_PENDING_CALLS = enum.auto()
    AFTER_CALL_IN_SPAN = enum.auto()
    IN_ECHOED_RESULT = enum.auto()
    AFTER_ROLE_MARKER = enum.auto()
    FINISHED = enum.auto()


class Cursor:
    """The state and its text: a state takes a position in `buffer` and returns the next one."""

    __slots__ = ("buffer", "carry", "state", "wait")

    def __init__(self) -> None:
        self.state = State.BEFORE_ANSWER
        self.buffer = ""
        self.carry = ""
        self.wait = False
        """True if the text from the returned position on can only be read together with more text."""

    def wait_from(self, pos: int) -> int:
        """Ask for more text after `buffer[pos:]`, unless that is empty; return `pos`."""
        self.wait = pos < len(self.buffer)
        return pos

    def take_carry(self) -> str:
        """Return the text that waits, and forget it."""
        carry, self.carry = self.carry, ""
        return carry


_SURROGATES = re.compile("[\ud800-\udfff]")


class SurrogateJoiner:
    """Joins surrogate pairs, also across pieces."""

    def __init__(self) -> None:
        self.pending = ""
        """A high surrogate at the end of a piece, or an empty string."""

    def feed(self, text: str) -> str:
        """Return the piece with its pairs joined; a high surrogate at its end waits for the next piece."""
        if self.pending:
            text, self.pending = self.pending + text, ""
        if _SURROGATES.search(text) is None:
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.pending = text[:-1], text[-1]
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def close(self) -> str:
        """Return U+FFFD for a high surrogate that is still pending, else an empty string."""
        pending, self.pending = self.pending, ""
        return "\ufffd" if pending else ""


PendingKind = Literal["fence", "span", "reasoning", "bare", "wrapper", "quotable"]
"""`quotable`: a call without tags in the dialect that was asked for, quoted only if a document holds it."""

SHOWN_KINDS: frozenset[PendingKind] = frozenset({"fence", "bare"})
"""The kinds in which a call counts only if nothing follows it."""
STATES_AFTER_PENDING: dict[PendingKind, State] = {
    "fence": State.IN_FENCE_OF_CALLS,
    "span": State.AFTER_CALL_IN_SPAN,
    "reasoning": State.AFTER_PENDING_CALLS,
    "bare": State.AFTER_PENDING_CALLS,
    "wrapper": State.AFTER_CALL,
}
_KINDS_OF_COPIES: frozenset[PendingKind] = frozenset({*SHOWN_KINDS, "wrapper", "quotable"})
_EVENTS_SIZE = 200
"""What a pending call counts for, in characters, beside its text: its events take memory too."""


@dataclass(slots=True)
class PendingCalls:
    """Calls that are not sent yet, because they may turn out to be quoted.

    `calls_before` and `accepted_before` are the sink's counts when the calls became pending.
    """

    kind: PendingKind
    calls_before: int
    accepted_before: int
    closing_quote: str = ""
    end_markers: tuple[str, ...] = ()
    """The end markers of an unknown tag around the calls."""
    body_starts: list[int] = field(default_factory=list)
    """Where in the held text the bodies begin."""
    events: list[Event] = field(default_factory=list)
    accepted: int = 0
    """Pending calls that ended without error."""
    invented: int = 0
    """Calls of invented tools behind them, which are text."""
    searched: int = 0
    """Characters after the last call that were already searched for the end of the code span."""


class HeldText:
    """Text that may be dropped or emitted."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.size = 0

    def add(self, text: str) -> None:
        """Add a piece."""
        self._parts.append(text)
        self.size += len(text)

    def remove_end(self, size: int) -> None:
        """Remove the last characters, which are parsed again."""
        if size:
            text = self.take()
            self.add(text[:-size])

    def text(self) -> str:
        """Return the text."""
        return "".join(self._parts)

    def take(self) -> str:
        """Return the text, and hold nothing."""
        text = self.text()
        self._parts.clear()
        self.size = 0
        return text


class Output:
    """Collects the events of one piece of text after the other."""

    def __init__(
        self, cursor: Cursor, sink: CallSink, documents: Documents | None = None, on_copy: ReportDefect | None = None
    ) -> None:
        self.documents = documents
        self._cursor = cursor
        self._on_copy = on_copy
        self.events: list[Event] = []
        self.line = LineContext()
        self.held = HeldText()
        self.pending: PendingCalls | None = None
        self.in_reasoning = False
        """True while emitted text is reasoning."""
        self.has_shown_calls = False
        """True if a call in a fence or without tags became text because of the text after it."""
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

    def emit_up_to(self, pos: int, end: int) -> int:
        """Emit the text from `pos` to `end`; what follows waits for more text. Return `end`."""
        self.emit_text(self._cursor.buffer[pos:end])
        return self._cursor.wait_from(end)

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

    @property
    def reports_copies(self) -> bool:
        """Whether what is copied from the prompt is reported."""
        return self._on_copy is not None

    def kind_of_copy(self, text: str, *, fenced: bool = False) -> CopyKind | None:
        """Return what a text that is no call copies from the prompt, if it begins the reply; else None."""
        if self._on_copy is None or not self.line.is_first():
            return None
        return kind_of_copy(text, self.sink.tools.offers, fenced=fenced)

    def report_copy(self, kind: CopyDefectKind, tool_name: str = "") -> None:
        """Report that what follows is copied from the prompt, or that it has ended. A call after it is accepted."""
        if self._on_copy is not None:
            self.mark_defect()
            self._on_copy(Defect(kind, tool_name, is_restarted=not tool_name))

    def _report_pending_copy(self, pending: PendingCalls, text: str) -> None:
        """Report the pending text if it begins the reply and is copied from the prompt."""
        if pending.kind not in _KINDS_OF_COPIES or pending.accepted:
            return
        is_fenced = pending.kind == "fence"
        kind = self.kind_of_copy(text.partition("\n")[2] if is_fenced else text, fenced=is_fenced)
        if kind is not None:
            self.report_copy(kind)

    def get_pending(self) -> PendingCalls:
        """Return the pending calls, which must exist."""
        assert self.pending is not None
        return self.pending

    def begin_pending(self, kind: PendingKind, *, closing_quote: str = "", end_markers: tuple[str, ...] = ()) -> None:
        """Keep pending what follows."""
        self.flush()
        self.pending = PendingCalls(kind, self.sink.call_count, self.sink.accepted_count, closing_quote, end_markers)
        self.sink.buffered = True
        self.sink.events = self.pending.events

    def held_size(self) -> int:
        """Return the characters that are held, and what the pending events take."""
        return self.held.size + (_EVENTS_SIZE * self.pending.accepted if self.pending is not None else 0)

    def release_as_text(self) -> None:
        """Emit the pending calls as text: they are quoted."""
        pending = self._end_pending()
        self.sink.reset(pending.calls_before, pending.accepted_before)
        text = self.held.take()
        self._report_pending_copy(pending, text)
        self.emit_text(text)

    def last_body(self) -> str:
        """Return the held text of the last pending body, with what follows it."""
        return self.held.text()[self.get_pending().body_starts[-1] :]

    def _bodies(self) -> Iterator[str]:
        held = self.held.text()
        for start, end in pairwise((*self.get_pending().body_starts, len(held))):
            yield held[start:end]

    def pending_is_quoted(self) -> bool:
        """Return whether a document of the conversation holds one of the pending calls."""
        return self.documents is not None and any(map(self.documents.hold, self._bodies()))

    def pending_is_shown(self) -> bool:
        """Return whether the pending calls are the last of several that the reply shows with text between them.

        They may be alternatives, or later steps of a plan, which must not run before the first one.
        """
        return self.has_shown_calls and self.get_pending().kind in SHOWN_KINDS

    def accept_calls(self, state: State) -> bool:
        """Emit the events of the pending calls and enter `state`; if they are quoted or only shown, return False."""
        if self.pending_is_quoted() or self.pending_is_shown():
            return False
        self.events.extend(self._end_pending().events)
        self.held.take()
        self.line.reset_after_call()
        self._cursor.state = state
        return True

    def _end_pending(self) -> PendingCalls:
        pending = self.get_pending()
        self.pending = None
        self.sink.buffered = False
        self.sink.events = self.events
        return pending
