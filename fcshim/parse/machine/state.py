"""What all states share: the current state and its text, the line that the text has come to, and the output.

Theory of operation. Pending calls are stored twice, as raw text and as events: `release_as_text` sends the text,
`accept_calls` the events. While calls are pending nothing else is emitted, so events keep the order of the text.

Rule: the tail that a state does not consume is short; it waits in `carry` and is read again with more text after it.
Adjacent text of one piece becomes one event, which precedes the event of what follows.
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
from fcshim.parse.machine.example_announcements import announces_example, introduces_example, may_announce_example
from fcshim.parse.machine.invented_results import begins_result
from fcshim.parse.machine.prompt_copies import CopyKind, kind_of_copy
from fcshim.parse.machine.quotations import (
    QUOTE_PAIRS,
    closing_line,
    ends_in_hunk,
    is_found_line,
    is_quoted_line,
    may_be_location,
    open_quotation,
)
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
    IN_OVERLONG_RUN = enum.auto()
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


BYTE_ORDER_MARK = "\ufeff"
"""Some runtimes put it at the start of a reply. It is text, and the line begins after it."""
_HEAD_SIZE = 96
"""Characters of a line that are kept if it may announce an example."""
_MAX_INDENT = 16
"""Characters of any other line that are kept: enough to recognise indentation, a block quote or a comment."""
_MAX_LINES = 64
_HEAD_AFTER_CALL = "    ."
"""Stands for the line before a call: indented, so that a list goes on after the call."""
_BLANK_LINE = re.compile(r"\n[ \t\r]*\n")
_UNINDENTED_LINE = re.compile(r"^ {0,3}(?:([-+*]|\d{1,9}[.)])(?=\s)|\S)", re.MULTILINE)
"""The beginning of a line that is not indented code, with the marker of a list item."""

_SURROGATES = re.compile("[\ud800-\udfff]+")


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
        return _SURROGATES.sub(_join, text)

    def close(self) -> str:
        """Return U+FFFD for a high surrogate that is still pending, else an empty string."""
        pending, self.pending = self.pending, ""
        return "\ufffd" if pending else ""


def _join(found: re.Match[str]) -> str:
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class LineContext:
    """The context of the next marker: the beginning of its line, the last character, and the open code spans."""

    __slots__ = (
        "_after_blank_line",
        "_after_paragraph",
        "_follows_call",
        "_has_call",
        "_head_size",
        "_in_hunk",
        "_last_line",
        "_last_text",
        "_lines",
        "_quotation_end",
        "_shows_result",
        "head",
        "open_backticks",
    )

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The beginnings of the last lines that ended, which `_read_lines` has not read."""
        self._after_blank_line = self._after_paragraph = False
        self._in_hunk = False
        """Whether the lines that `_read_lines` has read end in a hunk of a diff."""
        self._has_call = False
        """Whether a call has been read: only after one can a line show its result."""
        self._follows_call = False
        """Whether nothing but blank lines has been read since the last call."""
        self._shows_result = False
        """Whether a line after the last call begins an invented result."""
        self._quotation_end = ""
        """The line that closes the quotation which a line of quotes has opened."""
        self._last_line = ""
        """The last line that ended and is not blank; without its middle if it is long."""
        self.head = ""
        self._head_size = _MAX_INDENT
        """Characters of the current line that are kept: more where it may announce an example."""
        self._last_text = ""
        """The last piece; empty at the start of a text."""
        self.open_backticks: list[int] = []
        """Lengths of the backtick runs in this paragraph that are not closed."""

    @property
    def last_char(self) -> str:
        """The last character, an empty string at the start of a text."""
        return self._last_text[-1:]

    def add(self, text: str) -> None:
        """Add a piece of text."""
        if not self._last_text and text[0] == BYTE_ORDER_MARK:
            text = text[1:]
            if not text:
                return
        # CommonMark: a code span does not extend past its paragraph.
        if self.open_backticks and _BLANK_LINE.search(text if self.head.strip() else f"\n{self.head}{text}"):
            self.open_backticks.clear()
        if "\n" in text:
            newline = text.rfind("\n")
            self._lines.append(self.head + text[: newline + 1])
            if newline > _HEAD_SIZE or len(self._lines) > _MAX_LINES:
                self._read_lines()
            self.head = text[newline + 1 : newline + 1 + _HEAD_SIZE]
            self._head_size = _MAX_INDENT
            if len(self.head) >= _MAX_INDENT:
                self._choose_head_size()
        elif len(self.head) < self._head_size:
            self.head += text[:_HEAD_SIZE]
            if len(self.head) >= self._head_size == _MAX_INDENT:
                self._choose_head_size()
        self._last_text = text

    def _choose_head_size(self) -> None:
        """Keep more of a line only where it may matter: the concatenations would cost a tenth of the time of prose."""
        head = self.head[:_MAX_INDENT]
        if may_announce_example(head) or may_be_location(head):
            self._head_size = _HEAD_SIZE

    def _read_lines(self) -> None:
        """Record what the lines that ended say about the next one: whether it may be indented code, or is quoted."""
        if not self._lines:
            return
        lines = "".join(self._lines)
        self._lines.clear()
        last = lines[lines.rfind("\n", 0, -1) + 1 :]
        self._after_blank_line = len(last) <= _MAX_INDENT and last.isspace()
        self._quotation_end = open_quotation(lines, self._quotation_end)
        self._in_hunk = ends_in_hunk(lines, in_hunk=self._in_hunk)
        if unindented := _UNINDENTED_LINE.findall(lines):
            self._after_paragraph = not unindented[-1]
        if self._has_call:
            self._read_result(lines.removeprefix(_HEAD_AFTER_CALL))
        if not lines.isspace():
            lines = lines.rstrip()
            self._last_line = lines[lines.rfind("\n") + 1 :][:_HEAD_SIZE]

    def _read_result(self, lines: str) -> None:
        if lines.isspace():
            return
        self._shows_result = self._shows_result or begins_result(lines, follow_call=self._follows_call)
        self._follows_call = False

    def add_backticks(self, length: int) -> None:
        """Add a run of backticks: it closes the span that a run of equal length opened, or may open a span."""
        if length in self.open_backticks:
            del self.open_backticks[self.open_backticks.index(length) :]
        else:
            self.open_backticks.append(length)

    def at_line_start(self) -> bool:
        """Return whether the current line has only white space so far."""
        return len(self.head) < _MAX_INDENT and not self.head.strip()

    def is_indented_code(self) -> bool:
        """Return whether the current line, of which only the blanks are read, is Markdown code by indentation."""
        # CommonMark: a blank line stands before such a block. In a list the same blanks continue the item.
        self._read_lines()
        return self.head.startswith(("    ", "\t")) and self._after_blank_line and self._after_paragraph

    def is_first(self) -> bool:
        """Return whether nothing but white space has been read since the start of the text."""
        self._read_lines()
        return not self._last_line and self.at_line_start()

    def holds_only_calls(self) -> bool:
        """Return whether the current line has nothing but white space and calls so far."""
        return not self.head.removeprefix(_HEAD_AFTER_CALL).strip()

    def is_quoted(self) -> bool:
        """Return whether a call in the current line is shown: in a block quote, a comment, a table, a diff, a file."""
        if is_quoted_line(self.head[:_MAX_INDENT]) or is_found_line(self.head):
            return True
        self._read_lines()
        return self._in_hunk and self.head.startswith((" ", "+", "-"))

    def closing_quote(self) -> str:
        """Return what closes the quotation that is open directly before a call, or an empty string."""
        if not self.at_line_start():
            return QUOTE_PAIRS.get(self.last_char, "*/" if self.head in {"/* ", "/** "} else "")
        self._read_lines()
        return closing_line(self._last_line) or self._quotation_end

    def announces_example(self) -> bool:
        """Return whether the words before a call, or the line before it, say that it is an example."""
        if not self.at_line_start():
            return len(self.head) < _HEAD_SIZE and introduces_example(self.head)
        self._read_lines()
        return len(self._last_line) < _HEAD_SIZE and announces_example(self._last_line)

    def shows_result(self) -> bool:
        """Return whether the text since the last call shows a result, which the model can only have invented."""
        self._read_lines()
        return self._shows_result or begins_result(self.head, follow_call=False)

    def reset(self) -> None:
        """Reset the context to that of the start of a text."""
        self.head = self._last_text = ""
        self._head_size = _MAX_INDENT
        self._lines.clear()
        self._after_blank_line = self._after_paragraph = self._in_hunk = False
        self._follows_call = self._shows_result = False
        self._last_line = self._quotation_end = ""
        self.open_backticks.clear()

    def reset_after_call(self) -> None:
        """Reset the context after a call, to that of a position inside a line."""
        self._read_lines()
        self.head = _HEAD_AFTER_CALL
        self._has_call, self._follows_call, self._shows_result = True, True, False
        self._in_hunk = False
        self._head_size = _MAX_INDENT
        self._last_text = "."
        self.open_backticks.clear()


PendingKind = Literal["fence", "span", "reasoning", "bare", "wrapper", "quotable"]
"""`quotable`: a call without tags in the dialect that was asked for, quoted only if a document holds it."""

SHOWN_KINDS: frozenset[PendingKind] = frozenset({"fence", "bare"})
"""The kinds in which a call counts only if nothing follows it."""
_KINDS_OF_COPIES: frozenset[PendingKind] = frozenset({*SHOWN_KINDS, "wrapper", "quotable"})


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
    invented: int = 0
    """Calls of invented tools behind them, which are text."""
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

    def __init__(self, sink: CallSink, documents: Documents | None = None, on_copy: ReportDefect | None = None) -> None:
        self.documents = documents
        self._on_copy = on_copy
        self.events: list[Event] = []
        self.line = LineContext()
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

    @property
    def reports_copies(self) -> bool:
        """Whether what is copied from the prompt is reported."""
        return self._on_copy is not None

    def kind_of_copy(self, text: str, *, fenced: bool = False) -> CopyKind | None:
        """Return what a text that is no call copies from the prompt, if it begins the reply; else None."""
        if self._on_copy is None or not self.line.is_first():
            return None
        return kind_of_copy(text, self.sink.offers, fenced=fenced)

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
        text = "".join(pending.raw)
        self._report_pending_copy(pending, text)
        self.emit_text(text)

    def pending_is_quoted(self) -> bool:
        """Return whether a document of the conversation holds one of the pending calls."""
        return self.documents is not None and any(map(self.documents.hold, self.get_pending().bodies()))

    def pending_is_shown(self) -> bool:
        """Return whether the pending calls are the last of several that the reply shows with text between them.

        They may be alternatives, or later steps of a plan, which must not run before the first one.
        """
        return self.has_shown_calls and self.get_pending().kind in SHOWN_KINDS

    def accept_calls(self) -> bool:
        """Emit the events of the pending calls; if they are quoted or only shown, return False instead."""
        if self.pending_is_quoted() or self.pending_is_shown():
            return False
        self.events.extend(self._end_pending().events)
        return True

    def _end_pending(self) -> PendingCalls:
        pending = self.get_pending()
        self.pending = None
        self.sink.buffered = False
        self.sink.events = self.events
        return pending
