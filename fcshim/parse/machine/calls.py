"""The states of calls: their bodies, and sections of several calls.

Theory of operation. A body reader consumes text. The consumed text is kept until it is known whether it was a call
(then it is dropped) or text (then it is emitted). Where a call may be quoted, the text and the call's events stay
pending (`output`) until the context decides.

Rule: what turns out not to be a call is emitted as text from its first byte on, and is not searched for calls again.
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
"""An extra end marker is dropped after a call only if fewer white space characters than this precede it."""
_SHORT_SPACE = re.compile(rf"\s{{0,{_GAP_LIMIT}}}")


class _CallSection:
    """A section of calls that is being read."""

    def __init__(self, dialect: Dialect, return_state: Callable[[int], int], calls_before: int) -> None:
        self.dialect = dialect
        self.return_state = return_state
        self.calls_before = calls_before
        """The sink's count when the section began."""
        self.raw: list[str] = []
        """Text that is neither emitted nor dropped yet: the section's start marker, white space between calls."""


class CallMachine(CodeMachine):
    """The states of calls."""

    def __init__(self, start_markers: StartMarkers, sink: CallSink, limits: Limits, *, primary: Dialect | None) -> None:
        super().__init__(sink, limits)
        self._start_markers = start_markers
        self._primary = primary
        self._schema_enforced = False
        self._reports_defects = False
        self._opened_by_primary = False
        """True if a start marker of the primary dialect opened the body."""
        self._return_state: Callable[[int], int] = self._in_text
        self._body: BodyReader | None = None
        self._end_markers: EndMarkers = compile_end_markers(())
        self._section: _CallSection | None = None
        self._raw: list[str] = []
        self._raw_size = 0
        self._refused = False
        """True if the remainder of the body is text, whatever calls it contains."""
        self._calls_before = 0
        """The sink's count when the body began."""
        self._consumed_text: Literal["keep", "drop", "emit"] = "keep"
        """What happens to the text that the body reader consumes: `keep` while it may be a call or text."""

    # Openings.

    def _find_opening(self, pos: int) -> tuple[Opening, str] | None:
        """Return what opens exactly at `pos`, with its marker; waits if more text is needed."""
        buffer = self._buffer
        line_start_marker = self._start_markers.line_start_marker_at(buffer, pos)
        found = self._start_markers.inline_marker_set.match(buffer, pos)
        marker = line_start_marker or (
            found[0] if found else buffer[pos] if buffer[pos] in self._start_markers.body_start_chars else ""
        )
        ahead = buffer[pos : pos + 32]
        if self._start_markers.inline_marker_set.is_partial(buffer, pos) or any(
            other != ahead and other.startswith(ahead) for other in self._start_markers.line_start_markers
        ):
            self._wait = True
            return None
        if not marker:
            return None
        opening = (
            self._start_markers.find_opening(f"\n{line_start_marker}", buffer, pos - 1)
            if line_start_marker
            else self._start_markers.find_opening(marker, buffer, pos)
        )
        self._wait = opening is None
        return (opening, marker) if isinstance(opening, Opening) else None

    def _open(self, opening: Opening, marker: str, pos: int, return_state: Callable[[int], int]) -> int:
        """Open the section or body at `pos`; `return_state` follows it. Return the position at which to continue."""
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
        # A grammar constrains only calls that begin with the dialect's own marker, not with another spelling of it.
        self._sink.schema_enforced = self._schema_enforced and dialect is self._primary and marker == dialect.open
        self._body = dialect.body.reader(dialect, marker, self._sink, self._limits)
        # A second line of backticks is not a duplicate end marker: it opens the next fence.
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
        """Read between the calls of a section."""
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
        for marker in section.dialect.openers():
            if buffer.startswith(marker, pos):
                self._open_body(section.dialect, marker, self._in_section)
                return pos + len(marker)
        if buffer.startswith(section.dialect.section_close, pos):
            end = pos + len(section.dialect.section_close)
            return self._end_section(section, buffer[pos:end], end)
        ahead = buffer[pos : pos + 64]
        if any(marker.startswith(ahead) for marker in (*section.dialect.openers(), section.dialect.section_close)):
            self._wait = True
            return pos
        return self._end_section(section, "", pos)

    def _add_section_space(self, section: _CallSection, space: str) -> None:
        if self._output.pending is not None:
            self._output.pending.add(space)
        else:
            section.raw.append(space)

    def _end_section(self, section: _CallSection, end_marker: str, pos: int) -> int:
        """End the section: its markers are dropped if it contained calls, else they are text."""
        self._section = None
        self._state = self._return_state = section.return_state
        pending = self._output.pending
        if pending is not None:
            pending.add(end_marker)
            if pending.accepted:
                self._state = self._state_after_pending(pending)
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
        """Act on the body reader's status after it has read up to `pos`."""
        match body.status:
            case BodyStatus.READING:
                self._wait = pos < len(self._buffer)
            case BodyStatus.STARTED:
                self._consumed_text = "drop"
                self._clear_raw()
            case BodyStatus.NOT_A_CALL:
                if self._output.pending is not None:
                    self._refuse(body)  # in one quotation either every body is a call, or none is
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
        """End one call of the body; what was not a call is emitted before the next one begins."""
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
        """Keep, drop or emit a piece that the body reader consumed."""
        if self._output.pending is not None:
            self._output.pending.add(piece)
        elif self._consumed_text == "keep":
            self._raw.append(piece)
            self._raw_size += len(piece)
        elif self._consumed_text == "emit":
            self._output.emit_text(piece)

    def _clear_raw(self) -> None:
        self._raw.clear()
        self._raw_size = 0

    def _continue_as_text(self) -> None:
        self._report_defect()
        self._emit_raw_as_text("")
        self._consumed_text = "emit"

    def _report_defect(self) -> None:
        """Emit a `CallDefect` for the rejected call, if the caller asked for these events."""
        if (
            not self._reports_defects
            or self._consumed_text == "emit"
            or self._output.pending is not None
            or self._output.in_reasoning
        ):
            return
        if self._sink.unoffered_name:
            self._output.emit_defect(CallDefect("", fault="unoffered", name=self._sink.unoffered_name))
        elif self._opened_by_primary:
            self._output.emit_defect(CallDefect("", fault="unreadable"))

    def _emit_raw_as_text(self, unread: str) -> None:
        """Emit the kept text, except `unread` at its end."""
        if self._output.pending is not None:
            _remove_unread(self._output.pending.raw, unread)
            self._release_pending()
        else:
            _remove_unread(self._raw, unread)
            self._output.emit_text("".join(self._raw))
        self._clear_raw()

    def _end_body(self, body: BodyReader, pos: int) -> int:
        unread = "" if self._consumed_text == "emit" else body.unread  # text that was emitted is not parsed again
        body.dispose()
        self._body = None
        self._state = self._return_state
        if self._consumed_text == "keep" and self._sink.call_count <= self._calls_before:
            self._report_defect()
            self._emit_raw_as_text(unread)
        elif self._output.pending is not None:
            _remove_unread(self._output.pending.raw, unread)
            self._end_pending_call(self._output.pending)
        elif self._consumed_text != "emit":
            self._output.line.reset_after_call()
            self._state = self._after_call
        if unread and self._buffer.endswith(unread, 0, pos):
            return pos - len(unread)
        if unread:
            self._buffer = unread + self._buffer[pos:]
            return 0
        return pos

    def _after_call(self, pos: int) -> int:
        """Drop a duplicate or superfluous end marker after a call, with the white space before it."""
        found = _SHORT_SPACE.match(self._buffer, pos)
        assert found is not None
        end = found.end()
        if self._section is None and self._end_markers.max_length:
            duplicate = self._end_markers.marker_at(self._buffer, end)
            if duplicate:
                return end + len(duplicate)
            short = end - pos < _GAP_LIMIT
            if (end == len(self._buffer) and short) or self._end_markers.is_partial(self._buffer, end):
                self._wait = True
                return pos
        self._state = self._return_state
        return pos

    # Pending calls.

    @abstractmethod
    def _end_pending_call(self, pending: PendingCalls) -> None:
        """End the body of a pending call."""

    @abstractmethod
    def _state_after_pending(self, pending: PendingCalls) -> Callable[[int], int]:
        """Return the state that follows pending calls."""

    @abstractmethod
    def _release_pending(self) -> None:
        """Emit the pending calls, and the section they are in, as text."""


def _remove_unread(raw: list[str], unread: str) -> None:
    """Remove `unread`, which is parsed again, from the end of `raw`."""
    if unread:
        raw[:] = ["".join(raw)[: -len(unread)]]
