"""The states of calls: their bodies, and sections of several calls.

Theory of operation. A body reader consumes text; what it consumed is kept until it is clear whether it was a call
(dropped) or text (said). What may be quoted is held, calls and all (`output`), until its surroundings are known.

Rule: what turns out not to be a call is text from its first byte on, and is not searched again.
Neighbours: `openers` says what a marker opens, body readers find the calls, `held` the places where they may be
quoted.
"""

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Literal

from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.defect import CallDefect
from fcshim.parse.dialect import Dialect
from fcshim.parse.end_markers import EndMarkers, compile_end_markers
from fcshim.parse.limits import Limits
from fcshim.parse.machine.code import CodeMachine
from fcshim.parse.machine.output import PendingCalls
from fcshim.parse.machine.start_markers import Opening, StartMarkers
from fcshim.parse.sink import CallSink

_SPACE = re.compile(r"\s*+")
_GAP_LIMIT = 4
"""White space of fewer characters may stand between a call and a closing marker that is one too many."""
_SHORT_SPACE = re.compile(rf"\s{{0,{_GAP_LIMIT}}}")


class _CallSection:
    """A section of calls that is being read."""

    def __init__(self, dialect: Dialect, return_state: Callable[[int], int], calls_before: int) -> None:
        self.dialect = dialect
        self.return_state = return_state
        self.calls_before = calls_before
        """The sink's, at its beginning."""
        self.raw: list[str] = []
        """What of it is neither said nor dropped yet: its opener, white space between calls."""


class CallMachine(CodeMachine):
    """The states of calls."""

    def __init__(self, start_markers: StartMarkers, sink: CallSink, limits: Limits, *, primary: Dialect | None) -> None:
        super().__init__(sink, limits)
        self._start_markers = start_markers
        self._primary = primary
        self._schema_enforced = False
        self._reports_defects = False
        self._opened_by_primary = False
        """True when a marker of the dialect that was asked for opened the body."""
        self._return_state: Callable[[int], int] = self._in_text
        self._body: BodyReader | None = None
        self._end_markers: EndMarkers = compile_end_markers(())
        self._section: _CallSection | None = None
        self._raw: list[str] = []
        self._raw_size = 0
        self._refused = False
        """True when nothing of the body counts any more."""
        self._calls_before = 0
        """Calls that the sink knew before this body."""
        self._consumed_text: Literal["keep", "drop", "say"] = "keep"

    # Openings.

    def _find_opening(self, pos: int) -> tuple[Opening, str] | None:
        """Give what opens exactly here, with its marker; stalls where that is not known yet."""
        buffer = self._buffer
        word = self._start_markers.line_start_marker_at(buffer, pos)
        found = self._start_markers.inline_marker_set.match(buffer, pos)
        marker = word or (
            found[0] if found else buffer[pos] if buffer[pos] in self._start_markers.body_start_chars else ""
        )
        rest = buffer[pos : pos + 32]
        if self._start_markers.inline_marker_set.is_partial(buffer, pos) or any(
            w != rest and w.startswith(rest) for w in self._start_markers.line_start_markers
        ):
            self._wait = True
            return None
        if not marker:
            return None
        picked = (
            self._start_markers.find_opening(f"\n{word}", buffer, pos - 1)
            if word
            else self._start_markers.find_opening(marker, buffer, pos)
        )
        self._wait = picked is None
        return (picked, marker) if isinstance(picked, Opening) else None

    def _open(self, opening: Opening, marker: str, pos: int, return_state: Callable[[int], int]) -> int:
        """Begin to read what opens at `pos`; `home` is the state that follows it. Gives the place to go on."""
        if opening.section:
            self._buffer_or_flush(marker)
            self._section = section = _CallSection(opening.dialect, return_state, self._sink.call_count)
            if self._output.pending is None:
                section.raw.append(marker)
            self._state = self._in_section
        elif opening.starts_body:
            self._open_body(opening.dialect, "", return_state)
            return pos
        else:
            self._open_body(opening.dialect, marker, return_state)
        return pos + len(marker)

    def _buffer_or_flush(self, marker: str) -> None:
        if self._output.pending is None:
            self._output.flush()
        elif marker:
            self._output.pending.add(marker)

    def _open_body(self, dialect: Dialect, marker: str, return_state: Callable[[int], int]) -> None:
        self._buffer_or_flush(marker)
        # A model is held to a format by that format's own marker: behind another spelling it is held to nothing.
        self._sink.schema_enforced = self._schema_enforced and dialect is self._primary and marker == dialect.open
        self._body = dialect.body.reader(dialect, marker, self._sink, self._limits)
        # Another line of backticks is no closing marker that comes twice: it opens the next fence.
        self._end_markers = compile_end_markers(() if dialect.close.startswith("`") else dialect.closers())
        self._refused = False
        self._opened_by_primary = bool(marker) and dialect is self._primary
        self._sink.unoffered_name = ""
        self._calls_before = self._sink.call_count
        self._raw = [marker]
        self._raw_size = 0
        if self._section is not None:
            self._raw[:0] = self._section.raw
            self._section.raw.clear()
        self._consumed_text = "keep"
        self._return_state = return_state
        self._state = self._in_call

    # Sections.

    def _in_section(self, pos: int) -> int:
        """Between the calls of a section."""
        section = self._section
        assert section is not None
        buffer = self._buffer
        found = _SPACE.match(buffer, pos)
        assert found is not None
        if found.end() > pos:
            self._add_section_space(section, found[0])
            if found.end() == len(buffer):
                return len(buffer)
            pos = found.end()
        for opener in section.dialect.openers():
            if buffer.startswith(opener, pos):
                self._open_body(section.dialect, opener, self._in_section)
                return pos + len(opener)
        if buffer.startswith(section.dialect.section_close, pos):
            end = pos + len(section.dialect.section_close)
            return self._end_section(section, buffer[pos:end], end)
        rest = buffer[pos : pos + 64]
        if any(marker.startswith(rest) for marker in (*section.dialect.openers(), section.dialect.section_close)):
            self._wait = True
            return pos
        return self._end_section(section, "", pos)

    def _add_section_space(self, section: _CallSection, space: str) -> None:
        if self._output.pending is not None:
            self._output.pending.add(space)
        else:
            section.raw.append(space)

    def _end_section(self, section: _CallSection, end_marker: str, pos: int) -> int:
        """The section is over: its marks are dropped if there were calls in it, else they are text."""
        self._section = None
        self._state = self._return_state = section.return_state
        hold = self._output.pending
        if hold is not None:
            hold.add(end_marker)
            if hold.accepted:
                self._state = self._state_after_pending(hold)
            else:
                self._output.release_as_text()
        elif self._sink.call_count == section.calls_before:
            self._output.emit_text("".join(section.raw) + end_marker)
        elif not end_marker:
            self._output.emit_text("".join(section.raw))
        return pos

    # Bodies.

    def _in_call(self, pos: int) -> int:
        body = self._body
        assert body is not None
        new = body.feed(self._buffer, pos)
        self._record_consumed(self._buffer[pos:new])
        return self._apply_status(body, new)

    def _apply_status(self, body: BodyReader, pos: int) -> int:
        """Do what the body reader's status says; `new` is where it stands."""
        match body.status:
            case BodyStatus.READING:
                self._wait = pos < len(self._buffer)
            case BodyStatus.STARTED:
                self._consumed_text = "drop"
                self._clear_raw()
            case BodyStatus.NOT_A_CALL:
                if self._output.pending is not None:
                    self._refuse(body)  # in a place that may be quoted all must be calls, or none is
                self._continue_as_text()
            case BodyStatus.CALL_ENDED:
                self._end_call()
            case BodyStatus.ENDED:
                return self._end_body(body, pos)
            case BodyStatus.NO_BODY:
                self._emit_raw_as_text("")
                self._body = None
                self._state = self._return_state
                return pos
        if (self._output.pending.size if self._output.pending is not None else self._raw_size) > self._limits.hold:
            self._refuse(body)
            self._continue_as_text()
        return pos

    def _end_call(self) -> None:
        """One call of the body is over; what was no call is said before the next one begins."""
        if self._refused:
            return
        self._consumed_text = "keep"
        self._clear_raw()
        if self._output.pending is None:
            self._output.flush()

    def _refuse(self, body: BodyReader) -> None:
        body.refuse()
        self._refused = True

    def _record_consumed(self, piece: str) -> None:
        """Put what the body reader consumed where it may be needed."""
        if self._output.pending is not None:
            self._output.pending.add(piece)
        elif self._consumed_text == "keep":
            self._raw.append(piece)
            self._raw_size += len(piece)
        elif self._consumed_text == "say":
            self._output.emit_text(piece)

    def _clear_raw(self) -> None:
        self._raw.clear()
        self._raw_size = 0

    def _continue_as_text(self) -> None:
        self._report_defect()
        self._emit_raw_as_text("")
        self._consumed_text = "say"

    def _report_defect(self) -> None:
        """Say, where that is wanted, that what was meant as a call is none."""
        if (
            not self._reports_defects
            or self._consumed_text == "say"
            or self._output.pending is not None
            or self._output.in_reasoning
        ):
            return
        if self._sink.unoffered_name:
            self._output.emit_defect(CallDefect("", fault="unoffered", name=self._sink.unoffered_name))
        elif self._opened_by_primary:
            self._output.emit_defect(CallDefect("", fault="unreadable"))

    def _emit_raw_as_text(self, unread: str) -> None:
        """What was read is text after all, all but `rest`."""
        if self._output.pending is not None:
            _remove_unread(self._output.pending.raw, unread)
            self._release_pending()
        else:
            _remove_unread(self._raw, unread)
            self._output.emit_text("".join(self._raw))
        self._clear_raw()

    def _end_body(self, body: BodyReader, pos: int) -> int:
        rest = "" if self._consumed_text == "say" else body.unread  # else it was said already
        body.dispose()
        self._body = None
        self._state = self._return_state
        if self._consumed_text == "keep" and self._sink.call_count <= self._calls_before:
            self._report_defect()
            self._emit_raw_as_text(rest)
        elif self._output.pending is not None:
            _remove_unread(self._output.pending.raw, rest)
            self._end_pending_call(self._output.pending)
        elif self._consumed_text != "say":
            self._output.line.reset_after_call()
            self._state = self._after_call
        if rest and self._buffer.endswith(rest, 0, pos):
            return pos - len(rest)
        if rest:
            self._buffer = rest + self._buffer[pos:]
            return 0
        return pos

    def _after_call(self, pos: int) -> int:
        """A closing marker that comes twice, or where none is needed, is dropped with the space before it."""
        found = _SHORT_SPACE.match(self._buffer, pos)
        assert found is not None
        end = found.end()
        if self._section is None and self._end_markers.max_length:
            closer = self._end_markers.marker_at(self._buffer, end)
            if closer:
                return end + len(closer)
            short = end - pos < _GAP_LIMIT
            if (end == len(self._buffer) and short) or self._end_markers.is_partial(self._buffer, end):
                self._wait = True
                return pos
        self._state = self._return_state
        return pos

    # What is held.

    @abstractmethod
    def _end_pending_call(self, pending: PendingCalls) -> None:
        """The body of a call that is held is over."""

    @abstractmethod
    def _state_after_pending(self, pending: PendingCalls) -> Callable[[int], int]:
        """Give the state behind calls that are held."""

    @abstractmethod
    def _release_pending(self) -> None:
        """What was held is text, the section it is in included."""


def _remove_unread(raw: list[str], unread: str) -> None:
    """Take `rest`, which is to be read again, away from the end."""
    if unread:
        raw[:] = ["".join(raw)[: -len(unread)]]
