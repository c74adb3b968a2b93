"""The state of calls: their bodies.

Theory of operation. A body reader consumes text, which is held (`Output`) until it is known whether it was a call or
text. Where a call may be quoted, its text and its events stay pending until the context decides.

Rule: what turns out not to be a call is emitted as text from its first byte on, and is not searched for calls again.
"""

from dataclasses import dataclass
from typing import Literal

from fcshim.events import StopReason, Text
from fcshim.parse.body import NATURAL_STOPS, BodyReader, BodyStatus
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.machine.known_markers import Opening, end_of_doubled, is_whole_tag
from fcshim.parse.machine.parts import MachineParts, StateGroup
from fcshim.parse.machine.prompt_copies import kind_of_copy
from fcshim.parse.machine.state import SHOWN_KINDS, STATES_AFTER_PENDING, PendingCalls, State
from fcshim.parse.markers import EndMarkers, compile_end_markers

_MAX_INVENTED_CALLS = 16
"""Calls of invented tools, behind calls that count, at which the reply ends: a small model may find no end."""
_MAX_BARE_CALLS = 64
"""Calls without tags, one behind the other, at which the reply ends: a small model may find no end."""
_LAST_CHARACTERS = ("}", "]", ")", "```", "~~~")


@dataclass(slots=True)
class CallSection:
    """A section of calls that is being read; `calls_before` is the sink's count when it began.

    Its start marker, and the white space between its calls, are held.
    """

    dialect: Dialect
    return_state: State
    calls_before: int


class CallStates(StateGroup):
    """Reads the body of one call after the other; `body` is the reader of the current one, `section` is around it.

    `schema_enforced`: a grammar constrains the calls of the primary dialect. `calls_last`: a call counts only if
    nothing but calls follows it.
    """

    def __init__(self, parts: MachineParts, *, schema_enforced: bool, calls_last: bool) -> None:
        super().__init__(parts)
        self.body: BodyReader | None = None
        self.section: CallSection | None = None
        self.return_state = State.IN_TEXT
        self.start_marker = ""
        """The start marker of the last body."""
        self.end_markers: EndMarkers = compile_end_markers(())
        self._schema_enforced = schema_enforced
        self._calls_last = calls_last
        self._may_be_doubled = False
        """True at the start of a body: the start marker may follow itself."""
        self._refused = False
        """True if the remainder of the body is text, whatever calls it contains."""
        self._calls_before = 0
        """The sink's count when the body began."""
        self._consumed_text: Literal["hold", "drop", "emit"] = "hold"
        """What happens to the text that the body reader consumes: `hold` while it may be a call or text."""

    # Openings.

    def begin(self, opening: Opening, marker: str, start: int) -> int:
        """Open the call or section at `start` in text, pending if it may be quoted or must come last in the reply."""
        output, must_be_last = self._output, opening.must_be_last or self._calls_last
        closing_quote = output.line.closing_quote()
        is_quoted = bool(closing_quote or output.line.open_backticks)
        if is_quoted and (must_be_last or opening.end_markers):
            output.emit_text(marker)
            self._cursor.state = State.IN_TEXT
            return start + len(marker)
        if is_quoted:
            output.begin_pending("span", closing_quote=closing_quote)
        elif must_be_last or output.line.may_be_example():
            output.begin_pending("bare")
        elif opening.end_markers:
            output.begin_pending("wrapper", end_markers=opening.end_markers)
        elif opening.dialect.bare or not self._openings.knows(marker):
            self.await_document_search()
        return self.open(opening, marker, start, State.IN_TEXT)

    def await_document_search(self) -> None:
        """Keep a call pending if a document may hold it: without tags, or with tags that no document escapes."""
        documents = self._output.documents
        if documents is not None and documents.mention_a_tool:
            self._output.begin_pending("quotable")

    def open(self, opening: Opening, marker: str, pos: int, return_state: State) -> int:
        """Open the section or body at `pos`; `return_state` follows it. Return the position at which to continue."""
        if not opening.section:
            marker = "" if opening.starts_body else marker
            self.open_body(opening.dialect, marker, return_state)
            return pos + len(marker)
        if self._output.pending is None:
            self._output.flush()
        self._output.held.add(marker)
        self.section = CallSection(opening.dialect, return_state, self._sink.call_count)
        self._cursor.state = State.IN_SECTION
        return pos + len(marker)

    def open_body(self, dialect: Dialect, marker: str, return_state: State) -> None:
        """Open the body after a start marker, which is held; `return_state` follows it."""
        if self._output.pending is not None:
            self._output.pending.body_starts.append(self._output.held.size)
        else:
            self._output.flush()
        self._output.held.add(marker)
        # A grammar constrains only calls that begin with the dialect's own marker, not with another spelling of it.
        self._sink.schema_enforced = self._schema_enforced and dialect is self._primary and marker == dialect.call.open
        section_marker = "" if self.section is None else self.section.dialect.section.open
        self._sink.wrapper_tool = self._openings.tool_of(section_marker) or self._openings.tool_of(marker)
        self.body = dialect.body.reader(dialect, marker, self._sink, self._limits)
        # A second line of backticks is not a duplicate end marker: it opens the next fence.
        self.end_markers = compile_end_markers(()) if dialect.call.close.startswith("`") else compiled_closers(dialect)
        self.start_marker = marker
        self._may_be_doubled = is_whole_tag(marker)
        self._reports.begin_body(dialect, marker)
        self._sink.unoffered_name = ""
        self._calls_before = self._sink.call_count
        self._refused = False
        self._consumed_text = "hold"
        self.return_state = return_state
        self._cursor.state = State.IN_CALL

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
            case BodyStatus.CALL_ENDED if not self._refused:  # text is emitted before the next call begins
                self._drop_held()
                self._consumed_text = "hold"
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
            self._reports.report_failed(pending, held.text())
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

    def _emit_held(self, unread: str) -> None:
        """Emit the held text, except `unread` at its end; a result that the model invents ends the reply instead."""
        self._output.held.remove_end(len(unread))
        pending = self._output.pending
        if pending is None:
            self._output.emit_text(self._output.held.take())
            return
        last = self._output.last_body() if pending.accepted and pending.kind == "bare" else ""
        is_result = kind_of_copy(last, self._sink.tools.offers, fenced=False) == "result"
        if not (is_result and self._end_reply()) and not self._keep_beside_calls(pending):
            self._release_pending()

    def end_unoffered(self) -> None:
        """Report the end of a call of a tool that is not offered, unless a section goes on."""
        if self.section is None:
            self._reports.end_unoffered()

    def _end_reply(self) -> bool:
        """Emit the pending calls and end the reply; return whether they count."""
        counts = self._output.accept_calls(State.FINISHED)
        if counts:
            self.body = self.section = None
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
        self._cursor.state = STATES_AFTER_PENDING[pending.kind]
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
            self.end_unoffered()
        elif pending is not None:
            self._output.held.remove_end(len(unread))
            self._end_pending_call(pending, closed=closing and not unread)
        elif self._consumed_text != "emit":
            self._output.held.take()
            self._output.line.reset_after_call()
            cursor.state = State.AFTER_CALL
        else:
            self.end_unoffered()
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
            self.accept_or_release()
        elif has_failed or self._output.held_size() > self._limits.hold:
            # The last body was not a call, or a call with an error: nothing in this context is a call.
            is_closed = pending.kind == "wrapper" and held.text().endswith(pending.end_markers)
            if is_closed or self._reports.names_call(pending):
                self._reports.report_failed(pending, self._output.last_body()[len(self.start_marker) :])
            self._release_pending()
        else:
            pending.accepted = self._sink.accepted_count - pending.accepted_before
            pending.searched = 0
            if self.section is None:
                self._go_on_after_pending(pending, closed=closed)

    def _go_on_after_pending(self, pending: PendingCalls, *, closed: bool) -> None:
        if pending.kind == "bare" and len(pending.body_starts) == _MAX_BARE_CALLS and self._end_reply():
            return
        if pending.kind != "wrapper":
            self._cursor.state = STATES_AFTER_PENDING[pending.kind]
        elif closed or self._output.held.text().endswith(pending.end_markers):
            self.accept_or_release()
        else:
            self._release_pending()

    def accept_or_release(self) -> None:
        """Emit the events of pending calls, unless they are quoted."""
        if not self._output.accept_calls(State.AFTER_CALL):
            self._release_pending()

    def _release_pending(self) -> None:
        """Emit the pending calls, and the section they are in, as text."""
        self._output.release_as_text()
        if self.section is not None:
            self.leave_section(self.section)

    def leave_section(self, section: CallSection) -> None:
        """Go on with what follows the section."""
        self.section = None
        self._cursor.state = self.return_state = section.return_state
