"""The states of calls: their bodies, and sections of several calls.

Theory of operation. A body reader consumes text. The consumed text is kept until it is known whether it was a call
(then it is dropped) or text (then it is emitted). Where a call may be quoted, the text and the call's events stay
pending (`Output`) until the context decides.

Rule: what turns out not to be a call is emitted as text from its first byte on, and is not searched for calls again.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

from fcshim.events import StopReason, Text
from fcshim.parse.body import BodyReader, BodyStatus
from fcshim.parse.defect import Defect, ReportDefect
from fcshim.parse.dialect import Dialect, compiled_closers
from fcshim.parse.limits import Limits
from fcshim.parse.machine.known_markers import (
    Opening,
    end_of_doubled,
    is_last_leftover,
    is_whole_tag,
    leftover_end,
)
from fcshim.parse.machine.openings import OpeningFinder
from fcshim.parse.machine.prompt_copies import is_placeholder, kind_of_copy
from fcshim.parse.machine.state import SHOWN_KINDS, Cursor, Output, PendingCalls, PendingKind, State
from fcshim.parse.markers import EndMarkers, compile_end_markers

NATURAL_STOPS: frozenset[StopReason] = frozenset({"complete", "stop_sequence", "tool_use"})
_SPACE = re.compile(r"\s*+")
_EVENTS_SIZE = 200
"""What a pending call counts for, in characters, beside its text: its events take memory too."""
_MAX_INVENTED_CALLS = 16
"""Calls of invented tools, behind calls that count, at which the reply ends: a small model may find no end."""
_MAX_BARE_CALLS = 64
"""Calls without tags, one behind the other, at which the reply ends: a small model may find no end."""
_GAP_LIMIT = 4
"""An extra end marker is dropped after a call only if fewer white space characters than this precede it."""
_MAX_MARKER = 64
_MAX_HEADER = 256
_SHORT_SPACE = re.compile(rf"\s{{0,{_GAP_LIMIT}}}")
_LAST_CHARACTERS = ("}", "]", ")", "```", "~~~")
_PLACEHOLDER = re.compile(
    r"""[:=({\[,]\s{0,8}["'“]?(?:<\w[^<>\n]{0,40}>|\.\.\.|…)["'”]?\s{0,8}[,)\]}]"""
    r'|"type"\s*:\s*"(?:string|integer|number|boolean|array)"'
)
"""The place of a value, or its type, in an explanation; in a longer value they are content, as in HTML."""
_QUOTED_NAME = re.compile(r"(?:[\"'“]|=>[ \t]{0,8})([^\W\d][\w.-]{0,127})[\"'”,]")
_MAX_NAMED = 2_000
"""Characters of an unreadable call in which the name of its tool is looked for."""
_NAME_AND_NEXT = re.compile(r"\s{0,32}(?:<(?:tool_|function_)?name>\s{0,32})?(?P<name>[^\W\d][\w.-]{0,127})[^\w.-]")
"""A name, also in an element of its own, and the character that ends it."""
_STATES_AFTER_PENDING: dict[PendingKind, State] = {
    "fence": State.IN_FENCE_OF_CALLS,
    "span": State.AFTER_CALL_IN_SPAN,
    "reasoning": State.AFTER_PENDING_CALLS,
    "bare": State.AFTER_PENDING_CALLS,
    "wrapper": State.AFTER_CALL,
}


@dataclass(slots=True)
class _CallSection:
    """A section of calls that is being read; `calls_before` is the sink's count when it began."""

    dialect: Dialect
    return_state: State
    calls_before: int
    raw: list[str] = field(default_factory=list)
    """Text that is neither emitted nor dropped yet: the section's start marker, white space between calls."""


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
        *,
        primary: Dialect | None,
        schema_enforced: bool,
        calls_last: bool,
        on_defect: ReportDefect | None,
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
        self._primary = primary
        self._schema_enforced = schema_enforced
        self._calls_last = calls_last
        self._on_defect = on_defect
        self._may_be_doubled = False
        """True at the start of a body: the start marker may follow itself."""
        self._opened_by_primary = False
        """True if a start marker of the primary dialect opened the body."""
        self._opened_in_line = False
        """True if a start marker that is a tag opened the body, and nothing but calls stands before it in its line."""
        self._end_markers: EndMarkers = compile_end_markers(())
        self._section: _CallSection | None = None
        self._raw: list[str] = []
        self._raw_size = 0
        self._refused = False
        """True if the remainder of the body is text, whatever calls it contains."""
        self._has_reported = False
        """True if a defect of the body was reported."""
        self._calls_unoffered = False
        """True from the report of a call of a tool that is not offered until the end of its text is reported."""
        self._calls_before = self._restarts_before = 0
        """The sink's counts when the body began."""
        self._consumed_text: Literal["keep", "drop", "emit"] = "keep"
        """What happens to the text that the body reader consumes: `keep` while it may be a call or text."""

    # Openings.

    def open_at_reply_start(self, pos: int) -> bool:
        """Open the call whose start marker the prompt ended with, if one begins at `pos`; may wait for more text."""
        primary = self._primary
        if primary is None or not primary.call.may_be_in_prompt or self._output.line.last_char or self._sink.call_count:
            return False
        begins = self._sink.begins_with_name(self._cursor.buffer[pos:])
        self._cursor.wait = begins is None
        if begins:
            self.await_document_search()
            self.open_body(primary, "", State.IN_TEXT)
        return begins is not False

    def begin(self, opening: Opening, marker: str, start: int) -> int:
        """Open the call or section at `start` in text, pending if it may be quoted or must come last in the reply."""
        line = self._output.line
        closing_quote, must_be_last = line.closing_quote(), opening.must_be_last or self._calls_last
        if closing_quote or line.open_backticks:
            if must_be_last or opening.end_markers:
                self._output.emit_text(marker)
                self._cursor.state = State.IN_TEXT
                return start + len(marker)
            self._output.begin_pending("span").closing_quote = closing_quote
        elif must_be_last or self.may_be_example():
            self._output.begin_pending("bare")
        elif opening.end_markers:
            self._output.begin_pending("wrapper").end_markers = opening.end_markers
        elif opening.dialect.bare or not self._openings.knows(marker):
            self.await_document_search()
        return self.open(opening, marker, start, State.IN_TEXT)

    def may_be_example(self) -> bool:
        """Return whether the context shows a call, unless nothing but calls follow."""
        line = self._output.line
        return (line.at_line_start() and line.is_indented_code()) or line.announces_example()

    def begin_fenced(self, dialect: Dialect, line: str) -> None:
        """Open the call that a fence line opens in the primary dialect, pending if it may be quoted."""
        closing_quote = self._output.line.closing_quote()
        if closing_quote:
            self._output.begin_pending("span").closing_quote = closing_quote
        elif self.may_be_example():
            self._output.begin_pending("bare")
        else:
            self.await_document_search()
        self.open_body(dialect, line, State.IN_TEXT)

    def await_document_search(self) -> None:
        """Keep a call pending if a document may hold it: without tags, or with tags that no document escapes."""
        documents = self._output.documents
        if documents is not None and documents.mention_a_tool:
            self._output.begin_pending("quotable")

    def open(self, opening: Opening, marker: str, pos: int, return_state: State) -> int:
        """Open the section or body at `pos`; `return_state` follows it. Return the position at which to continue."""
        if opening.section:
            self._buffer_or_flush(marker)
            self._section = section = _CallSection(opening.dialect, return_state, self._sink.call_count)
            if self._output.pending is None:
                section.raw.append(marker)
            self._cursor.state = State.IN_SECTION
        elif opening.starts_body:
            self.open_body(opening.dialect, "", return_state)
            return pos
        else:
            self.open_body(opening.dialect, marker, return_state)
        return pos + len(marker)

    def open_body(self, dialect: Dialect, marker: str, return_state: State) -> None:
        """Open the body that `marker` starts."""
        if self._output.pending is not None:
            self._output.pending.body_starts.append(self._output.pending.raw_size)
        self._buffer_or_flush(marker)
        # A grammar constrains only calls that begin with the dialect's own marker, not with another spelling of it.
        self._sink.schema_enforced = self._schema_enforced and dialect is self._primary and marker == dialect.call.open
        self._sink.wrapper_tool = self._openings.tool_of(self._section_marker()) or self._openings.tool_of(marker)
        self.body = dialect.body.reader(dialect, marker, self._sink, self._limits)
        # A second line of backticks is not a duplicate end marker: it opens the next fence.
        self._end_markers = compile_end_markers(()) if dialect.call.close.startswith("`") else compiled_closers(dialect)
        self._refused = self._has_reported = False
        self.start_marker = marker
        self._may_be_doubled = is_whole_tag(marker)
        self._opened_by_primary = bool(marker) and dialect is self._primary
        self._opened_in_line = self._stands_alone(marker)
        self._sink.unoffered_name = ""
        self._calls_before = self._sink.call_count
        self._restarts_before = self._sink.restarts
        self._raw = [marker]
        self._raw_size = 0
        if self._section is not None:
            self._raw[:0] = self._section.raw
            self._section.raw.clear()
        self._consumed_text = "keep"
        self.return_state = return_state
        self._cursor.state = State.IN_CALL

    def _section_marker(self) -> str:
        return "" if self._section is None else self._section.dialect.section.open

    def _buffer_or_flush(self, marker: str) -> None:
        if self._output.pending is None:
            self._output.flush()
        elif marker:
            self._output.pending.add(marker)

    # Sections.

    def in_section(self, pos: int) -> int:
        """Read between the calls of a section."""
        section, buffer = self._section, self._cursor.buffer
        assert section is not None
        found = _SPACE.match(buffer, pos)
        assert found is not None
        if found.end() > pos:
            self._add_section_space(section, found[0])
            if found.end() == len(buffer):
                return len(buffer)
            pos = found.end()
        doubled = _doubled_marker(section.dialect, buffer, pos)
        if doubled:
            self._add_section_space(section, doubled)
            return pos + len(doubled)
        found_call = self._openings.find_in_section(section.dialect, buffer, pos)
        if found_call is None or doubled is None:
            return self._cursor.wait_from(pos)
        if not isinstance(found_call, bool):
            opening, marker = found_call
            self.open_body(opening.dialect, marker, State.IN_SECTION)
            return pos + len(marker)
        closers = section.dialect.section.closers()
        end_marker = next((marker for marker in closers if buffer.startswith(marker, pos)), "")
        if not end_marker and any(marker.startswith(buffer[pos : pos + 64]) for marker in closers):
            return self._cursor.wait_from(pos)
        self._end_section(section, end_marker)
        return pos + len(end_marker)

    def close_section(self, tail: str, stop_reason: StopReason) -> str:
        """End the section, if one is open, with the reply, which ends with `tail`; return what of `tail` is text."""
        section = "".join(self._section.raw) if self._section is not None else ""
        if self._cursor.state in {State.IN_TEXT, State.IN_SECTION} and self._ends_in_opening(
            section + tail, stop_reason
        ):
            if stop_reason in NATURAL_STOPS:
                self.report_unreadable()
            return ""
        if self._section is None:
            after_call = self._cursor.state is State.AFTER_CALL
            return "" if after_call and (is_last_leftover(tail) or self._is_last_start(tail)) else tail
        is_partial = bool(tail) and any(marker.startswith(tail) for marker in self._section.dialect.section.closers())
        self._end_section(self._section, tail if is_partial else "")
        return "" if is_partial else tail

    def _add_section_space(self, section: _CallSection, space: str) -> None:
        if self._output.pending is not None:
            self._output.pending.add(space)
        else:
            section.raw.append(space)

    def _end_section(self, section: _CallSection, end_marker: str) -> None:
        """End the section: its markers are dropped if it contained calls, else they are text."""
        self._leave_section(section)
        pending = self._output.pending
        if pending is not None:
            pending.add(end_marker)
            if not pending.accepted or (pending.kind == "wrapper" and not end_marker):
                self._output.release_as_text()
            elif pending.kind == "wrapper":
                self._accept_wrapper()
            else:
                self._cursor.state = _STATES_AFTER_PENDING[pending.kind]
        elif self._sink.call_count == section.calls_before:
            self._output.emit_text("".join(section.raw) + end_marker)
            self._end_unoffered()
        elif not end_marker:
            self._output.emit_text("".join(section.raw))
        elif section.return_state is State.IN_TEXT:
            self._cursor.state = State.AFTER_CALL

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
            if end is None:
                return self._cursor.wait_from(pos)
            self._may_be_doubled = False
            self._record_consumed(buffer[pos:end])
            pos = end
        new = body.feed(buffer, pos)
        self._record_consumed(buffer[pos:new])
        return self.apply_status(body, new)

    def direct_reader(self) -> BodyReader | None:
        """Return the reader to which text may go directly, because what it consumes can no longer become text."""
        is_direct = self.body is not None and self._consumed_text == "drop" and self._output.pending is None
        return self.body.active_reader() if self.body is not None and is_direct else None

    def apply_status(self, body: BodyReader, pos: int) -> int:
        """Act on the body reader's status after it has read up to `pos`."""
        match body.status:
            case BodyStatus.READING:
                self._cursor.wait_from(pos)
            case BodyStatus.STARTED:
                self._consumed_text = "drop"
                self._clear_raw()
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
                self._emit_raw_as_text("")
                self.body = None
                self._cursor.state = self.return_state
                return pos
        if (self._output.pending.size if self._output.pending is not None else self._raw_size) > self._limits.hold:
            self._refuse(body)
            self._continue_as_text()
        return pos

    def close_body(self, body: BodyReader, tail: str, stop_reason: StopReason) -> str:
        """End the reply inside a body; return the text that must be parsed again."""
        body.close(tail, stop_reason)
        self._record_consumed(tail)
        if self._consumed_text == "keep" and self._ends_in_opening("".join(self._raw), stop_reason):
            self._raw.clear()
        if body.status is not BodyStatus.NOT_A_CALL:
            pending = self._output.pending
            if pending is not None and pending.kind in SHOWN_KINDS and stop_reason in NATURAL_STOPS:
                text = "".join(pending.raw)
                if text.rstrip().endswith(_LAST_CHARACTERS):  # what ends in prose is an explanation
                    self._report_failed_call(pending, text)
            self._end_body(body, 0, closing=True)
            self._cursor.buffer = ""
            return "" if self._consumed_text == "emit" else body.unread
        if stop_reason in NATURAL_STOPS:
            self._report_defect()
        self._emit_raw_as_text("")
        self.body = None
        return ""

    def _ends_in_opening(self, text: str, stop_reason: StopReason) -> bool:
        """Return whether the last text of the reply is the start of a call: markers alone, or a header that is cut."""
        openers = (*self._primary.openers(), *self._primary.section.openers()) if self._primary else ()
        rest = text.strip()
        if rest[:1] == "<" and rest[1:2].isalpha() and not self._output.line.holds_only_calls():
            return False  # a tag may be mentioned in a sentence
        while (opener := next((each for each in openers if is_whole_tag(each) and rest.startswith(each)), "")) and rest:
            rest = rest[len(opener) :].lstrip()
        is_cut = stop_reason not in NATURAL_STOPS and rest.startswith("<|") and rest.startswith(openers)
        return bool(text.strip()) and (not rest or (is_cut and len(rest) < _MAX_HEADER))

    def end_of_empty_section(self, marker: str, pos: int) -> int | None:
        """Return where a section of the selected dialect without a call ends; `pos` for none, None for more text."""
        if self._primary is None or marker not in self._primary.section.openers():
            return pos
        buffer, closers = self._cursor.buffer, compile_end_markers(self._primary.section.closers())
        space = _SPACE.match(buffer, pos)
        assert space is not None
        end = closers.end_of_marker(buffer, space.end())
        return None if end is None or space.end() == len(buffer) else end if end > space.end() else pos

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
        """Report the rejected call, unless it may be quoted or was reported before."""
        pending = self._output.pending
        quoted = (pending is not None and not self._names_call(pending)) or self._output.in_reasoning
        if quoted or self._consumed_text == "emit":
            return
        if pending is not None:
            self.report_unreadable(is_restarted=True)
            return
        name = self._sink.unoffered_name
        copy = "copied" if is_placeholder(name) else self._output.kind_of_copy("".join(self._raw))
        if copy is not None and self._output.reports_copies:
            self._output.report_copy(copy)
            self._has_reported = True
        elif (
            name or self._opened_by_primary or self._sink.wrapper_tool or (self._opened_in_line and self._quotes_tool())
        ):
            self._calls_unoffered = bool(name)
            if self._on_defect is not None:
                self._output.mark_defect()
                is_restarted = self._sink.restarts > self._restarts_before
                self._on_defect(Defect("unoffered", name) if name else Defect("unreadable", is_restarted=is_restarted))
            elif name:
                self._output.report_copy("unoffered", name)
            self._has_reported = True

    def _end_unoffered(self) -> None:
        """Report the end of the text of a call of a tool that is not offered, if it was reported."""
        if self._calls_unoffered and self._section is None:
            self._calls_unoffered = False
            self._output.report_copy("end")

    def _names_call(self, pending: PendingCalls) -> bool:
        """Return whether the tag of a pending call has the name of an offered tool, and does not begin an example."""
        return pending.kind == "bare" and bool(self._sink.wrapper_tool) and not self.may_be_example()

    def _report_failed_call(self, pending: PendingCalls, text: str) -> None:
        """Report a call with an error that becomes text, although it would be accepted without the error.

        An explanation, which shows places or types of values (`<city>`, `...`), is not reported.
        """
        has_failed = self._sink.accepted_count == pending.accepted_before + pending.accepted
        if self._sink.call_count <= self._calls_before or not has_failed:
            return
        if _PLACEHOLDER.search(text) is None and not self._output.pending_is_quoted():
            self.report_unreadable()

    def report_unknown_syntax(self, marker: str, pos: int) -> None:
        """Report text behind a start marker if an offered tool's name begins it, but no dialect's syntax goes on so."""
        at_line_start = marker == "<" and self._output.line.at_line_start()
        is_element = at_line_start and self._cursor.buffer.startswith(("name>", "tool_name>", "function_name>"), pos)
        is_named = (is_element and not self.may_be_example()) or self._stands_alone(marker)
        found = _NAME_AND_NEXT.match(self._cursor.buffer, pos - is_element) if is_named else None
        if found is not None and self._sink.offers_exactly(found["name"]):
            self.report_unreadable(is_restarted=True)

    def report_result(self) -> bool:
        """Report the tag of a tool's result that follows, unless it is quoted; return whether it was reported."""
        line = self._output.line
        quoted = line.closing_quote() or line.open_backticks or line.is_quoted() or self.may_be_example()
        if quoted or not self._output.reports_copies or not line.holds_only_calls():
            return False
        self._output.report_copy("result")
        return True

    def _stands_alone(self, marker: str) -> bool:
        """Return whether a marker is a whole tag before which nothing but calls stands in its line, and not quoted."""
        if self._on_defect is None or not is_whole_tag(marker) or not self._openings.knows(marker):
            return False
        line = self._output.line
        quoted = line.closing_quote() or line.open_backticks or self.may_be_example()
        return line.holds_only_calls() and not quoted

    def _quotes_tool(self) -> bool:
        """Return whether the name of an offered tool stands between quotes in the text of the body."""
        return any(map(self._sink.offers_exactly, _QUOTED_NAME.findall("".join(self._raw), 0, _MAX_NAMED)))

    def report_unreadable(self, *, is_restarted: bool = False) -> None:
        """Report that what follows was meant as a call; `is_restarted` as in `Defect`."""
        if self._on_defect is not None:
            self._output.mark_defect()
            self._on_defect(Defect("unreadable", is_restarted=is_restarted))

    def _emit_raw_as_text(self, unread: str) -> None:
        """Emit the kept text, except `unread` at its end."""
        if self._output.pending is not None:
            self._output.pending.remove_end(len(unread))
            if not self._end_at_result(self._output.pending) and not self._keep_beside_calls(self._output.pending):
                self._release_pending()
        else:
            _remove_unread(self._raw, unread)
            self._output.emit_text("".join(self._raw))
        self._clear_raw()

    def _end_at_result(self, pending: PendingCalls) -> bool:
        """End the reply if the last body is a result that the model invents after its calls; return whether it is."""
        body = "".join(pending.raw)[pending.body_starts[-1] :] if pending.accepted and pending.kind == "bare" else ""
        return kind_of_copy(body, self._sink.offers, fenced=False) == "result" and self._end_reply()

    def _end_reply(self) -> bool:
        """Emit the pending calls and end the reply; return whether they count."""
        if not self._output.accept_calls():
            return False
        self.body = self._section = None
        self._cursor.state = State.FINISHED
        return True

    def _is_beside_calls(self) -> bool:
        """Return whether the body is a call of no offered tool, and stands behind calls that count without it."""
        pending = self._output.pending
        is_beside = pending is not None and bool(pending.accepted) and pending.kind in {"bare", "fence"}
        return is_beside and bool(self._sink.unoffered_name)

    def _keep_beside_calls(self, pending: PendingCalls) -> bool:
        """Keep such a body as text behind the calls; return whether it is one. The reply ends at the last of many."""
        if not self._is_beside_calls() or pending.size > self._limits.hold:
            return False
        pending.events.append(Text("".join(pending.raw)[pending.body_starts[-1] :]))
        self._cursor.state = _STATES_AFTER_PENDING[pending.kind]
        pending.invented += 1
        if pending.invented == _MAX_INVENTED_CALLS:
            self._end_reply()
        return True

    def _end_body(self, body: BodyReader, pos: int, *, closing: bool = False) -> int:
        cursor = self._cursor
        unread = "" if self._consumed_text == "emit" else body.unread  # text that was emitted is not parsed again
        body.dispose()
        self.body = None
        cursor.state = self.return_state
        if self._consumed_text == "keep" and self._sink.call_count <= self._calls_before:
            if not self._has_reported:
                self._report_defect()
            self._emit_raw_as_text(unread)
            self._end_unoffered()
        elif self._output.pending is not None:
            self._output.pending.remove_end(len(unread))
            self._end_pending_call(self._output.pending, closed=closing and not unread)
        elif self._consumed_text != "emit":
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

    def after_call(self, pos: int) -> int:
        """Drop leftover markup after a call, with the white space before it."""
        cursor = self._cursor
        found = _SHORT_SPACE.match(cursor.buffer, pos)
        assert found is not None
        end = found.end()
        if self._section is None:
            duplicate = self._end_markers.marker_at(cursor.buffer, end)
            leftover = leftover_end(cursor.buffer, end) if end < len(cursor.buffer) else None
            if duplicate or (leftover is not None and leftover > end):
                return end + len(duplicate) if duplicate else leftover or end
            short = end - pos < _GAP_LIMIT
            waits = (leftover is None and short) or self._end_markers.is_partial(cursor.buffer, end)
            if waits or self._may_be_last_start(cursor.buffer, end):
                return cursor.wait_from(pos)
        cursor.state = self.return_state
        return pos

    def _may_be_last_start(self, text: str, pos: int) -> bool:
        """Return whether the text may be the call's start marker alone: at the end of a reply it is an end marker."""
        rest = text[pos : pos + _MAX_MARKER]
        partial = bool(rest) and self.start_marker.startswith(rest)
        return (partial and is_whole_tag(self.start_marker)) or self._is_last_start(rest)

    def _is_last_start(self, rest: str) -> bool:
        return is_whole_tag(self.start_marker) and len(rest) < _MAX_MARKER and rest.strip() == self.start_marker

    # Pending calls.

    def _end_pending_call(self, pending: PendingCalls, *, closed: bool) -> None:
        """End the body of a pending call; `closed` says that the reply ended with it."""
        if pending.kind == "quotable":
            self._end_quotable_call()
            return
        if self._sink.accepted_count == pending.accepted_before + pending.accepted or pending.size > self._limits.hold:
            # The last body was not a call, or a call with an error: nothing in this context is a call.
            text = "".join(pending.raw)
            if (pending.kind == "wrapper" and text.endswith(pending.end_markers)) or self._names_call(pending):
                self._report_failed_call(pending, text[pending.body_starts[-1] + len(self.start_marker) :])
            self._release_pending()
            return
        pending.accepted = self._sink.accepted_count - pending.accepted_before
        pending.size += _EVENTS_SIZE
        pending.searched = 0
        if self._section is not None:
            return
        if pending.kind == "bare" and len(pending.body_starts) == _MAX_BARE_CALLS and self._end_reply():
            return
        if pending.kind != "wrapper":
            self._cursor.state = _STATES_AFTER_PENDING[pending.kind]
        elif closed or "".join(pending.raw).endswith(pending.end_markers):
            self._accept_wrapper()
        else:
            self._release_pending()

    def _accept_wrapper(self) -> None:
        """Emit the events of the calls between an unknown tag and its end marker."""
        if self._output.accept_calls():
            self._output.line.reset_after_call()
            self._cursor.state = State.AFTER_CALL
        else:
            self._release_pending()

    def _end_quotable_call(self) -> None:
        if self._output.accept_calls():
            self._output.line.reset_after_call()
            self._cursor.state = State.AFTER_CALL
        else:
            self._output.release_as_text()

    def _release_pending(self) -> None:
        """Emit the pending calls, and the section they are in, as text."""
        self._output.release_as_text()
        if self._section is not None:
            self._leave_section(self._section)


def _doubled_marker(dialect: Dialect, text: str, pos: int) -> str | None:
    """Return the section's start marker at `pos`, which is doubled; None if more text is needed to decide."""
    openers = [marker for marker in dialect.section.openers() if marker not in dialect.openers()]
    found = next((marker for marker in openers if text.startswith(marker, pos)), "")
    partial = any(marker.startswith(text[pos : pos + _MAX_MARKER]) for marker in openers)
    return None if partial and not found else found


def _remove_unread(raw: list[str], unread: str) -> None:
    """Remove `unread`, which is parsed again, from the end of `raw`."""
    if unread:
        raw[:] = ["".join(raw)[: -len(unread)]]
