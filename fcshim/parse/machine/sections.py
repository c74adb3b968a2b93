"""The states between calls: in a section of several, and after a call."""

import re

from fcshim.events import StopReason
from fcshim.parse.body import NATURAL_STOPS
from fcshim.parse.machine.calls import CallSection, CallStates
from fcshim.parse.machine.known_markers import is_last_leftover, is_whole_tag, leftover_end
from fcshim.parse.machine.parts import MachineParts, StateGroup
from fcshim.parse.machine.state import STATES_AFTER_PENDING, State
from fcshim.parse.scanner import SPACE, MoreNeeded, Scanner

_MAX_MARKER = 64
SHORT_SPACE = re.compile(r"\s{0,4}")
"""White space before an extra end marker that is dropped after a call."""


class SectionStates(StateGroup):
    """Reads what stands between calls."""

    def __init__(self, parts: MachineParts, calls: CallStates) -> None:
        super().__init__(parts)
        self._calls = calls

    def in_section(self, pos: int) -> int:
        """Read between the calls of a section."""
        section, buffer, held = self._calls.section, self._cursor.buffer, self._output.held
        assert section is not None
        found = SPACE.match(buffer, pos)
        if found is not None and found.end() > pos:
            held.add(found[0])
            return found.end()
        scan = Scanner(buffer, pos)
        openers = section.dialect.openers()
        doubled = scan.skip(*(marker for marker in section.dialect.section.openers() if marker not in openers))
        if doubled:
            held.add(doubled)
            return scan.pos
        call = self._openings.find_in_section(section.dialect, buffer, pos)
        if call is not None:
            self._calls.open_body(call[0].dialect, call[1], State.IN_SECTION)
            return pos + len(call[1])
        self._end_section(section, scan.skip(*section.dialect.section.closers()))
        return scan.pos

    def _end_section(self, section: CallSection, end_marker: str) -> None:
        """End the section: its markers are dropped if it contained calls, else they are text."""
        output = self._output
        self._calls.leave_section(section)
        pending = output.pending
        output.held.add(end_marker)
        if pending is None and (not end_marker or self._sink.call_count == section.calls_before):
            output.emit_text(output.held.take())
            self._calls.end_unoffered()
        elif pending is None:
            output.held.take()
            if section.return_state is State.IN_TEXT:
                self._cursor.state = State.AFTER_CALL
        elif not pending.accepted or (pending.kind == "wrapper" and not end_marker):
            output.release_as_text()
        elif pending.kind == "wrapper":
            self._calls.accept_or_release()
        else:
            self._cursor.state = STATES_AFTER_PENDING[pending.kind]

    def after_call(self, pos: int) -> int:
        """Drop leftover markup after a call, with the white space before it."""
        buffer, start_marker = self._cursor.buffer, self._calls.start_marker
        if self._calls.section is None:
            scan = Scanner(buffer, pos)
            scan.take(SHORT_SPACE)
            end = scan.pos + len(self._calls.end_markers.read(buffer, scan.pos))
            end = end if end > scan.pos else leftover_end(buffer, scan.pos)
            if end > scan.pos:
                return end
            rest = buffer[end : end + _MAX_MARKER]
            # At the end of a reply the start marker alone is an end marker.
            is_start = start_marker.startswith(rest) and is_whole_tag(start_marker)
            if is_start or self._is_last_start(rest):
                raise MoreNeeded
        self._cursor.state = self._calls.return_state
        return pos

    def _is_last_start(self, rest: str) -> bool:
        marker = self._calls.start_marker
        return is_whole_tag(marker) and len(rest) < _MAX_MARKER and rest.strip() == marker

    def close(self, tail: str, stop_reason: StopReason) -> str:
        """End the reply, which ends with `tail`, and the section that is open; return what of `tail` is text."""
        state, section = self._cursor.state, self._calls.section
        text = self._output.held.text() + tail
        if state in {State.IN_TEXT, State.IN_SECTION} and self._reports.ends_in_opening(text, stop_reason):
            if stop_reason in NATURAL_STOPS:
                self._reports.report_unreadable()
            return ""
        if section is None:
            is_leftover = is_last_leftover(tail) or self._is_last_start(tail)
            return "" if state is State.AFTER_CALL and is_leftover else tail
        is_partial = bool(tail) and any(marker.startswith(tail) for marker in section.dialect.section.closers())
        self._end_section(section, tail if is_partial else "")
        return "" if is_partial else tail
