"""The states of calls: their bodies, and sections of several calls.

Theory of operation. A body reader consumes text, which is held (`Output`) until it is known whether it was a call or
text. Where a call may be quoted, its text and its events stay pending until the context decides.

Rule: what turns out not to be a call is emitted as text from its first byte on, and is not searched for calls again.
"""

import re
from dataclasses import dataclass
from typing import Literal

from fcshim.events import StopReason, Text
from fcshim.parse.body import NATURAL_STOPS, BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.limits import Limits
from fcshim.parse.machine.known_markers import Opening, end_of_doubled, is_last_leftover, is_whole_tag, leftover_end
from fcshim.parse.machine.openings import OpeningFinder
from fcshim.parse.machine.prompt_copies import kind_of_copy
from fcshim.parse.machine.reports import DefectReports
from fcshim.parse.machine.state import SHOWN_KINDS, Cursor, Output, PendingCalls, PendingKind, State
from fcshim.parse.markers import EndMarkers, compile_end_markers
from fcshim.parse.scanner import SPACE, MoreNeeded, Scanner, decided

_MAX_INVENTED_CALLS = 16
"""Calls of invented tools, behind calls that count, at which the reply ends: a small model may find no end."""
_MAX_BARE_CALLS = 64
"""Calls without tags, one behind the other, at which the reply ends: a small model may find no end."""
_MAX_MARKER = 64
SHORT_SPACE = re.compile(r"\s{0,4}")
"""White space before an extra end marker that is dropped after a call."""
_LAST_CHARACTERS = ("}", "]", ")", "```", "~~~")
_STATES_AFTER_PENDING: dict[PendingKind, State] = {
    "fence": State.IN_FENCE_OF_CALLS,
    "span": State.AFTER_CALL_IN_SPAN,
    "reasoning": State.AFTER_PENDING_CALLS,
    "bare": State.AFTER_PENDING_CALLS,
    "wrapper": State.AFTER_CALL,
}


@dataclass(slots=True)
class _CallSection:
    """A section of calls that is being read; `calls_before` is the sink's count when it began.

    Its start marker, and the white space between its calls, are held.
    """

    dialect: Dialect
    return_state: State
    calls_before: int


class CallStates:
    """Reads the body of one call after the other; `body` is the reader of the current one.

    `schema_enforced`: a grammar constrains the calls of the `primary` dialect. `calls_last`: a call counts only if
    nothing but calls follows it.
    """

    def __init__(
        self,
        cursor: Cursor,
        output: Output,
        limits: Limits,
        openings: OpeningFinder,
        reports: DefectReports,
        *,
        primary: Dialect | None,
        schema_enforced: bool,
        calls_last: bool,
    ) -> None:
        self.body: BodyReader | None = None
        self.return_state = State.IN_TEXT
        self.start_marker = ""
        """The start marker of the last body."""
        self._cursor = cursor
        self._output = output
        self._sink = output.sink
        self._limits = limits
        self._openings = openings
        self._reports = reports
        self._primary = primary
        self._schema_enforced = schema_enforced
        self._calls_last = calls_last
        self._may_be_doubled = False
        """True at the start of a body: the start marker may follow itself."""
        self._end_markers: EndMarkers = compile_end_markers(())
        self._section: _CallSection | None = None
        self._refused = False
        """True if the remainder of the body is text, whatever calls it contains."""
        self._calls_before = 0
        """The sink's count when the body began."""
        self._consumed_text: Literal["hold", "drop", "emit"] = "hold"
        """What happens to the text that the body reader consumes: `hold` while it may be a call or text."""

    # Openings.

    def open_at_reply_start(self, pos: int) -> bool:
        """Open the call whose start marker the prompt ended with, if one begins at `pos`."""
        primary = self._primary
        if primary is None or not primary.call.may_be_in_prompt or self._output.line.last_char or self._sink.call_count:
            return False
        begins = decided(self._sink.tools.begins_with_name(self._cursor.buffer[pos:]))
        if begins:
            self._await_document_search()
            self._open_body(primary, "", State.IN_TEXT)
        return begins

    def begin(self, opening: Opening, marker: str, start: int) -> int:
        """Open the call or section at `start` in text, pending if it may be quoted or must come last in the reply."""
        must_be_last = opening.must_be_last or self._calls_last
        if (must_be_last or opening.end_markers) and (
            self._output.line.closing_quote() or self._output.line.open_backticks
        ):
            self._output.emit_text(marker)
            self._cursor.state = State.IN_TEXT
            return start + len(marker)
        if not self._await_end_of_quotation(must_be_last=must_be_last):
            if opening.end_markers:
                self._output.begin_pending("wrapper", end_markers=opening.end_markers)
            elif opening.dialect.bare or not self._openings.knows(marker):
                self._await_document_search()
        return self.open(opening, marker, start, State.IN_TEXT)

    def begin_fenced(self, dialect: Dialect, line: str) -> None:
        """Open the call that a fence line opens in the primary dialect, pending if it may be quoted."""
        if not self._await_end_of_quotation(must_be_last=False):
            self._await_document_search()
        self._open_body(dialect, line, State.IN_TEXT)

    def _await_end_of_quotation(self, *, must_be_last: bool) -> bool:
        """Keep a call pending that its context may quote, or that must come last; return whether it is pending."""
        line = self._output.line
        closing_quote = line.closing_quote()
        if closing_quote or line.open_backticks:
            self._output.begin_pending("span", closing_quote=closing_quote)
        elif must_be_last or line.may_be_example():
            self._output.begin_pending("bare")
        return self._output.pending is not None

    def _await_document_search(self) -> None:
        """Keep a call pending if a document may hold it: without tags, or with tags that no document escapes."""
        documents = self._output.documents
        if documents is not None and documents.mention_a_tool:
            self._output.begin_pending("quotable")

    def open(self, opening: Opening, marker: str, pos: int, return_state: State) -> int:
        """Open the section or body at `pos`; `return_state` follows it. Return the position at which to continue."""
        if not opening.section:
            marker = "" if opening.starts_body else marker
            self._open_body(opening.dialect, marker, return_state)
            return pos + len(marker)
        if self._output.pending is None:
            self._output.flush()
        self._output.held.add(marker)
        self._section = _CallSection(opening.dialect, return_state, self._sink.call_count)
        self._cursor.state = State.IN_SECTION
        return pos + len(marker)

    def open_without_context(self, dialect: Dialect, marker: str) -> None:
        """Open the body of a call that nothing quotes, in text."""
        self._open_body(dialect, marker, State.IN_TEXT)

    def _open_body(self, dialect: Dialect, marker: str, return_state: State) -> None:
        if self._output.pending is not None:
            self._output.pending.body_starts.append(self._output.held.size)
        else:
            self._output.flush()
        self._output.held.add(marker)
        # A grammar constrains only calls that begin with the dialect's own marker, not with another spelling of it.
        self._sink.schema_enforced = self._schema_enforced and dialect is self._primary and marker == dialect.call.open
        section_marker = "" if self._section is None else self._section.dialect.section.open
        self._sink.wrapper_tool = self._openings.tool_of(section_marker) or self._openings.tool_of(marker)
        self.body = dialect.body.reader(dialect, marker, self._sink, self._limits)
        # A second line of backticks is not a duplicate end marker: it opens the next fence.
        self._end_markers = compile_end_markers(()) if dialect.call.close.startswith("`") else compiled_closers(dialect)
        self.start_marker = marker
        self._may_be_doubled = is_whole_tag(marker)
        self._reports.begin_body(dialect, marker)
        self._sink.unoffered_name = ""
        self._calls_before = self._sink.call_count
        self._refused = False
        self._consumed_text = "hold"
        self.return_state = return_state
        self._cursor.state = State.IN_CALL

    # Sections.

    def in_section(self, pos: int) -> int:
        """Read between the calls of a section."""
        section, buffer, held = self._section, self._cursor.buffer, self._output.held
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
            self._open_body(call[0].dialect, call[1], State.IN_SECTION)
            return pos + len(call[1])
        self._end_section(section, scan.skip(*section.dialect.section.closers()))
        return scan.pos

    def close_section(self, tail: str, stop_reason: StopReason) -> str:
        """End the section, if one is open, with the reply, which ends with `tail`; return what of `tail` is text."""
        state, section = self._cursor.state, self._section
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

    def end_of_empty_section(self, marker: str, pos: int) -> int:
        """Return where a section of the selected dialect without a call ends; `pos` for none. Raises `MoreNeeded`."""
        if self._primary is None or marker not in self._primary.section.openers():
            return pos
        scan = Scanner(self._cursor.buffer, pos)
        scan.take()
        return scan.pos if scan.skip(*self._primary.section.closers()) else pos

    def _end_section(self, section: _CallSection, end_marker: str) -> None:
        """End the section: its markers are dropped if it contained calls, else they are text."""
        self._leave_section(section)
        pending = self._output.pending
        self._output.held.add(end_marker)
        if pending is None and (not end_marker or self._sink.call_count == section.calls_before):
            self._output.emit_text(self._output.held.take())
            self._end_unoffered()
        elif pending is None:
            self._output.held.take()
            if section.return_state is State.IN_TEXT:
                self._cursor.state = State.AFTER_CALL
        elif not pending.accepted or (pending.kind == "wrapper" and not end_marker):
            self._output.release_as_text()
        elif pending.kind == "wrapper":
            self._accept_or_release()
        else:
            self._cursor.state = _STATES_AFTER_PENDING[pending.kind]

    def _leave_section(self, section: _CallSection) -> None:
        self._section = None
        self._cursor.state = self.return_state = section.return_state

    # Bodies.

    def in_call(self, pos: int) -> int:
        """Read the body of a call."""
        body, buffer = self.body, self._cursor.buffer
        assert body is not None
        if self._may_be_doubled:
            end = end_of_doubled(self.start_marker, buffer, pos)
            self._may_be_doubled = False
            self._record_consumed(buffer[pos:end])
            pos = end
        new = body.feed(buffer, pos)
        self._record_consumed(buffer[pos:new])
        return self.apply_status(body, new)

    def direct_reader(self) -> BodyReader | None:
        """Return the reader to which text may go directly, because what it consumes can no longer become text."""
        is_direct = self._consumed_text == "drop" and self._output.pending is None
        return self.body.active_reader() if self.body is not None and is_direct else None

    def apply_status(self, body: BodyReader, pos: int) -> int:
        """Act on the body reader's status after it has read up to `pos`."""
        match body.status:
            case BodyStatus.READING:
                self._cursor.wait_from(pos)
            case BodyStatus.STARTED:
                self._drop_held()
                self._consumed_text = "drop"
            case BodyStatus.NOT_A_CALL:
                if self._output.pending is not None:
                    self._refuse(body)  # in one quotation either every body is a call, or none is
                if not self._is_beside_calls():
                    self._continue_as_text()
            case BodyStatus.CALL_ENDED:
                self._end_call()
            case BodyStatus.ENDED:
                return self._end_body(body, pos)
            case BodyStatus.NO_BODY:
                self._emit_held("")
                self.body = None
                self._cursor.state = self.return_state
                return pos
        if self._output.held_size() > self._limits.hold:
            self._refuse(body)
            self._continue_as_text()
        return pos

    def _end_call(self) -> None:
        """End one call of the body; what was not a call is emitted before the next one begins."""
        if not self._refused:
            self._drop_held()
            self._consumed_text = "hold"

    def _drop_held(self) -> None:
        """Drop the text of a call that has begun or ended; pending text may still be emitted."""
        if self._output.pending is None:
            self._output.held.take()
            self._output.flush()

    def close_body(self, body: BodyReader, tail: str, stop_reason: StopReason) -> str:
        """End the reply inside a body; return the text that must be parsed again."""
        body.close(tail, stop_reason)
        self._record_consumed(tail)
        pending, held = self._output.pending, self._output.held
        if pending is None and self._reports.ends_in_opening(held.text(), stop_reason):
            held.take()
        if body.status is BodyStatus.NOT_A_CALL:
            if stop_reason in NATURAL_STOPS:
                self._report_rejected()
            self._emit_held("")
            self.body = None
            return ""
        # What ends in prose is an explanation.
        shows_call = pending is not None and pending.kind in SHOWN_KINDS and stop_reason in NATURAL_STOPS
        if pending is not None and shows_call and held.text().rstrip().endswith(_LAST_CHARACTERS):
            self._report_failed(pending, held.text())
        self._end_body(body, 0, closing=True)
        self._cursor.buffer = ""
        return "" if self._consumed_text == "emit" else body.unread

    def _refuse(self, body: BodyReader) -> None:
        body.refuse()
        self._refused = True

    def _record_consumed(self, piece: str) -> None:
        """Hold, drop or emit a piece that the body reader consumed."""
        if self._output.pending is not None or self._consumed_text == "hold":
            self._output.held.add(piece)
        elif self._consumed_text == "emit":
            self._output.emit_text(piece)

    def _continue_as_text(self) -> None:
        self._report_rejected()
        self._emit_held("")
        self._consumed_text = "emit"

    def _report_rejected(self) -> None:
        if self._consumed_text != "emit":
            self._reports.report_rejected()

    def _report_failed(self, pending: PendingCalls, text: str) -> None:
        if self._sink.call_count > self._calls_before:
            self._reports.report_failed(pending, text)

    def _emit_held(self, unread: str) -> None:
        """Emit the held text, except `unread` at its end."""
        self._output.held.remove_end(len(unread))
        pending = self._output.pending
        if pending is None:
            self._output.emit_text(self._output.held.take())
        elif not self._end_at_result(pending) and not self._keep_beside_calls(pending):
            self._release_pending()

    def _end_unoffered(self) -> None:
        if self._section is None:
            self._reports.end_unoffered()

    def _end_at_result(self, pending: PendingCalls) -> bool:
        """End the reply if the last body is a result that the model invents after its calls; return whether it is."""
        body = self._output.last_body() if pending.accepted and pending.kind == "bare" else ""
        return kind_of_copy(body, self._sink.tools.offers, fenced=False) == "result" and self._end_reply()

    def _end_reply(self) -> bool:
        """Emit the pending calls and end the reply; return whether they count."""
        counts = self._output.accept_calls(State.FINISHED)
        if counts:
            self.body = self._section = None
        return counts

    def _is_beside_calls(self) -> bool:
        """Return whether the body is a call of no offered tool, and stands behind calls that count without it."""
        pending = self._output.pending
        is_beside = pending is not None and bool(pending.accepted) and pending.kind in SHOWN_KINDS
        return is_beside and bool(self._sink.unoffered_name)

    def _keep_beside_calls(self, pending: PendingCalls) -> bool:
        """Keep such a body as text behind the calls; return whether it is one. The reply ends at the last of many."""
        if not self._is_beside_calls() or self._output.held_size() > self._limits.hold:
            return False
        pending.events.append(Text(self._output.last_body()))
        self._cursor.state = _STATES_AFTER_PENDING[pending.kind]
        pending.invented += 1
        if pending.invented == _MAX_INVENTED_CALLS:
            self._end_reply()
        return True

    def _end_body(self, body: BodyReader, pos: int, *, closing: bool = False) -> int:
        cursor, pending = self._cursor, self._output.pending
        unread = "" if self._consumed_text == "emit" else body.unread  # text that was emitted is not parsed again
        body.dispose()
        self.body = None
        cursor.state = self.return_state
        if self._consumed_text == "hold" and self._sink.call_count <= self._calls_before:
            if not self._reports.has_reported:
                self._report_rejected()
            self._emit_held(unread)
            self._end_unoffered()
        elif pending is not None:
            self._output.held.remove_end(len(unread))
            self._end_pending_call(pending, closed=closing and not unread)
        elif self._consumed_text != "emit":
            self._output.held.take()
            self._output.line.reset_after_call()
            cursor.state = State.AFTER_CALL
        else:
            self._end_unoffered()
        if unread and cursor.buffer.endswith(unread, 0, pos):
            return pos - len(unread)
        if unread:
            cursor.buffer = unread + cursor.buffer[pos:]
            return 0
        return pos

    def _end_pending_call(self, pending: PendingCalls, *, closed: bool) -> None:
        """End the body of a pending call; `closed` says that the reply ended with it."""
        held = self._output.held
        has_failed = self._sink.accepted_count == pending.accepted_before + pending.accepted
        if pending.kind == "quotable":
            self._accept_or_release()
        elif has_failed or self._output.held_size() > self._limits.hold:
            # The last body was not a call, or a call with an error: nothing in this context is a call.
            is_closed = pending.kind == "wrapper" and held.text().endswith(pending.end_markers)
            if is_closed or self._reports.names_call(pending):
                self._report_failed(pending, self._output.last_body()[len(self.start_marker) :])
            self._release_pending()
        else:
            pending.accepted = self._sink.accepted_count - pending.accepted_before
            pending.searched = 0
            if self._section is None:
                self._go_on_after_pending(pending, closed=closed)

    def _go_on_after_pending(self, pending: PendingCalls, *, closed: bool) -> None:
        if pending.kind == "bare" and len(pending.body_starts) == _MAX_BARE_CALLS and self._end_reply():
            return
        if pending.kind != "wrapper":
            self._cursor.state = _STATES_AFTER_PENDING[pending.kind]
        elif closed or self._output.held.text().endswith(pending.end_markers):
            self._accept_or_release()
        else:
            self._release_pending()

    def _accept_or_release(self) -> None:
        """Emit the events of pending calls, unless they are quoted."""
        if not self._output.accept_calls(State.AFTER_CALL):
            self._release_pending()

    def _release_pending(self) -> None:
        """Emit the pending calls, and the section they are in, as text."""
        self._output.release_as_text()
        if self._section is not None:
            self._leave_section(self._section)

    def after_call(self, pos: int) -> int:
        """Drop leftover markup after a call, with the white space before it."""
        buffer = self._cursor.buffer
        if self._section is None:
            scan = Scanner(buffer, pos)
            scan.take(SHORT_SPACE)
            end = scan.pos + len(self._end_markers.read(buffer, scan.pos))
            end = end if end > scan.pos else leftover_end(buffer, scan.pos)
            if end > scan.pos:
                return end
            rest = buffer[end : end + _MAX_MARKER]
            # At the end of a reply the start marker alone is an end marker.
            is_start = self.start_marker.startswith(rest) and is_whole_tag(self.start_marker)
            if is_start or self._is_last_start(rest):
                raise MoreNeeded
        self._cursor.state = self.return_state
        return pos

    def _is_last_start(self, rest: str) -> bool:
        return is_whole_tag(self.start_marker) and len(rest) < _MAX_MARKER and rest.strip() == self.start_marker
