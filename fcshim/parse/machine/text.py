"""The states outside calls: the start of the reply, reasoning, the answer's text, tool results that the model repeats.

Theory of operation. Reasoning tags count only at the start of the reply or after other reasoning. The policy decides
whether markup of a call inside reasoning is a call: never (`ignore`), only if the reasoning never ends and the call
comes last (`recover`), or always (`promote`).

Rule: reasoning is emitted as reasoning, byte for byte; its tags are dropped. No text is searched twice; only a tail
that is a proper prefix of a marker waits.
"""

import re
from typing import Literal

from fcshim.parse.machine.calls import CallStates
from fcshim.parse.machine.code import CodeStates
from fcshim.parse.machine.known_markers import (
    CHAT_TURN_MARKERS,
    PARTIAL_LIST_ITEM,
    REASONING_TAGS,
    reasoning_end_tag,
)
from fcshim.parse.machine.line_context import BYTE_ORDER_MARK
from fcshim.parse.machine.openings import FoundOpening
from fcshim.parse.machine.parts import MachineParts, StateGroup
from fcshim.parse.machine.pending_calls import PendingCallStates
from fcshim.parse.machine.quotations import QUOTATION_STARTS, read_quotation
from fcshim.parse.machine.sections import SHORT_SPACE
from fcshim.parse.machine.state import State
from fcshim.parse.markers import marker_set
from fcshim.parse.scanner import MoreNeeded, Scanner, decided

ReasoningPolicy = Literal["ignore", "recover", "promote"]

_SPACE = re.compile(rf"[\s{BYTE_ORDER_MARK}]*+")
_LOOK_AHEAD = 64
"""Characters at the start of the answer that are compared with tags: the longest tag has 39."""


class ReasoningStates(StateGroup):
    """Separates the reasoning from the answer."""

    def __init__(self, parts: MachineParts, calls: CallStates, policy: ReasoningPolicy) -> None:
        super().__init__(parts)
        self._own_tags = parts.primary.turn.reasoning if parts.primary else ()
        self._tags = (*self._own_tags, *REASONING_TAGS)
        self._calls = calls
        self._policy = policy
        self._end_tag = ""
        self._markers = parts.start_markers.all_markers
        """The markers that are searched in reasoning."""

    def before_answer(self, pos: int) -> int:
        """Read the start of the reply, or what follows reasoning."""
        buffer = self._cursor.buffer
        found = _SPACE.match(buffer, pos)
        if found is not None and found.end() > pos:
            self._output.emit_text(found[0])
            return found.end()
        ahead = buffer[pos : pos + _LOOK_AHEAD]
        known = self._start_markers
        markers = (*(start_tag for start_tag, _ in self._tags), *known.line_start_markers, *known.first_headers)
        if any(marker != ahead and marker.startswith(ahead) for marker in markers):
            raise MoreNeeded
        skipped = self._skip_tag(ahead, pos)
        if skipped > pos:
            return skipped
        if self._output.line.at_line_start():
            call: FoundOpening = None
            marker = known.line_start_marker_at(buffer, pos)
            if marker:  # no newline precedes it
                opening = known.find_opening(f"\n{marker}", buffer, pos - 1)
                call = (opening, marker) if opening else None
            elif ahead[0] not in known.body_start_chars:
                call = self._openings.find_line(buffer, pos)
            if call is not None:
                return self._calls.begin(*call, pos)
        if not self._open_after_prompt(pos):
            self._cursor.state = State.IN_TEXT
        return pos

    def _open_after_prompt(self, pos: int) -> bool:
        """Open the call whose start marker the prompt ended with, if one begins at `pos`."""
        primary = self._primary
        if primary is None or not primary.call.may_be_in_prompt or self._output.line.last_char or self._sink.call_count:
            return False
        begins = decided(self._sink.tools.begins_with_name(self._cursor.buffer[pos:]))
        if begins:
            self._calls.await_document_search()
            self._calls.open_body(primary, "", State.IN_TEXT)
        return begins

    def _skip_tag(self, ahead: str, pos: int) -> int:
        """Enter reasoning that opens at `pos`, or drop the first header; return its end, or `pos` if there is none."""
        for start_tag, end_tag in self._tags:
            if ahead.startswith(start_tag):
                self.enter(end_tag)
                return pos + len(start_tag)
        return pos + len(next((header for header in self._start_markers.first_headers if ahead.startswith(header)), ""))

    def enter_with(self, start_tag: str) -> None:
        """Enter the reasoning that a start tag at the end of the prompt has opened. Raises `ConfigError`."""
        self.enter(reasoning_end_tag(start_tag, self._own_tags))

    def enter(self, end_tag: str) -> None:
        """Enter the reasoning that `end_tag` ends."""
        self._output.flush()
        self._output.in_reasoning = True
        self._end_tag = end_tag
        markers = () if self._policy == "ignore" else self._start_markers.inline_markers
        self._markers = marker_set((end_tag, *self._start_markers.answer_headers, *markers))
        self._cursor.state = State.IN_REASONING

    def in_reasoning(self, pos: int) -> int:
        """Emit reasoning up to a marker."""
        cursor, buffer = self._cursor, self._cursor.buffer
        found = self._markers.search(buffer, pos)
        if found is None:
            return self._output.emit_up_to(pos, self._markers.partial_start(buffer, pos))
        start, end = found.span()
        if start > pos:
            self._output.emit_text(buffer[pos:start])
            return start
        if self._markers.is_partial(buffer, start):
            raise MoreNeeded
        if found[0] in self._start_markers.answer_headers:
            end = start  # it ends the reasoning, too
        elif found[0] != self._end_tag:
            return self._begin_call(found[0], start, end)
        self._output.flush()
        self._output.in_reasoning = False
        self._output.line.reset()
        cursor.state = State.BEFORE_ANSWER
        return end

    def _begin_call(self, marker: str, start: int, end: int) -> int:
        opening = self._start_markers.find_opening(marker, self._cursor.buffer, start)
        if opening is None:
            self._output.emit_text(marker)
            return end
        if self._policy == "recover":
            self._output.begin_pending("reasoning")
        return self._calls.open(opening, marker, start, State.IN_REASONING)


class TextStates(StateGroup):
    """Searches the answer for markers."""

    def __init__(
        self, parts: MachineParts, code: CodeStates, calls: CallStates, pending_calls: PendingCallStates
    ) -> None:
        super().__init__(parts)
        self._code = code
        self._calls = calls
        self._pending_calls = pending_calls
        self._result_end_tag = ""
        self._reported_result = False

    def find_plain_end(self, text: str) -> int:
        """Return the end of a piece of plain text, which may end with a proper marker prefix; else -1."""
        markers, head = self._start_markers, self._output.line.head
        # Inside a line fewer characters can begin a marker, but that pattern matches only up to a newline.
        in_line = head and not head.isspace()
        found = (markers.plain_text_in_line if in_line else markers.plain_text).match(text)
        assert found is not None
        end = found.end()
        if end == len(text) or markers.all_markers.is_partial(text, end):
            return end
        if in_line:
            found = markers.plain_text.match(text)
            assert found is not None
            end = found.end()
            if end == len(text) or markers.all_markers.is_partial(text, end):
                return end
        return self._find_item_end(text, end)

    def _find_item_end(self, text: str, start: int) -> int:
        """Return `start` if a list item at the end of the text may become a call, its end if it is plain; else -1."""
        item = PARTIAL_LIST_ITEM.match(text, start)
        newline = text.rfind("\n", 0, start)
        if item is None or text[newline + 1 : start].strip() or not (newline >= 0 or self._output.line.at_line_start()):
            return -1
        if item["name"] is None or self._sink.tools.may_begin_call(item["name"]):
            return start
        found = self._start_markers.plain_text_in_line.match(text, start)
        assert found is not None
        end = found.end()
        return end if end == len(text) or self._start_markers.all_markers.is_partial(text, end) else -1

    def in_text(self, pos: int) -> int:
        """Emit text up to a marker or a run of backticks or tildes."""
        buffer, markers = self._cursor.buffer, self._start_markers.all_markers
        found = markers.search(buffer, pos)
        if found is None:
            return self._output.emit_up_to(pos, markers.partial_start(buffer, pos))
        start, end, marker = found.start(), found.end(), found[0]
        if len(buffer) - start < markers.max_length:
            tail = markers.partial_start(buffer, pos, start)
            if tail < start:  # the match may be part of a longer marker that is not complete yet
                return self._output.emit_up_to(pos, tail)
        if start > pos:
            self._output.emit_text(buffer[pos:start])
            return start
        if self._sink.accepted_count and self._output.line.shows_result():
            self._cursor.state = State.AFTER_ROLE_MARKER
            return start
        if marker[0] in "`~":
            return self._read_run(start, end)
        if markers.is_partial(buffer, start):
            raise MoreNeeded
        return self._read_marker(marker, start, end)

    def _read_marker(self, marker: str, start: int, end: int) -> int:
        if marker in QUOTATION_STARTS or (marker == "<" and self._output.line.at_line_start()):
            return self._read_quotation(marker, start, end)
        if marker in self._start_markers.openings or marker in self._start_markers.line_start_chars:
            return self._read_start_marker(marker, start, end)
        if marker in self._start_markers.result_tags:
            return self._read_result_tag(marker, end)
        if marker in CHAT_TURN_MARKERS and self._sink.accepted_count and self._output.line.holds_only_calls():
            self._cursor.state = State.FINISHED
            return len(self._cursor.buffer)
        if marker in self._start_markers.markup:
            self._openings.in_answer = marker in self._start_markers.answer_headers
            self._cursor.state = State.BEFORE_ANSWER
        else:
            self._output.emit_text(marker)
            self._cursor.state = State.AFTER_ROLE_MARKER
        return end

    def _read_start_marker(self, marker: str, start: int, end: int) -> int:
        """Open a call, or emit the marker as text if it is quoted or opens nothing here."""
        found = None
        if marker not in self._start_markers.line_start_chars:
            found = self._openings.find(marker, self._cursor.buffer, start)
        elif self._output.line.at_line_start():
            found = self._openings.find_at_line_start(marker, self._cursor.buffer, start)
        if found is None:
            section_end = self._end_of_empty_section(marker, end)
            if section_end > end:
                return section_end
            self._reports.report_unknown_syntax(marker, end)
            if marker[0] == "\n":
                end = start + 1  # a quotation may begin with the same characters
                marker = "\n"
        if found is None or (marker[0] != "\n" and self._output.line.is_quoted()):
            self._output.emit_text(marker)
            return end
        opening, marker = found
        if marker[0] == "\n":
            self._output.emit_text("\n")
            start, marker = start + 1, marker[1:]
        return self._calls.begin(opening, marker, start)

    def _end_of_empty_section(self, marker: str, pos: int) -> int:
        """Return where a section of the selected dialect without a call ends; `pos` for none. Raises `MoreNeeded`."""
        if self._primary is None or marker not in self._primary.section.openers():
            return pos
        scan = Scanner(self._cursor.buffer, pos)
        scan.take()
        return scan.pos if scan.skip(*self._primary.section.closers()) else pos

    def _read_run(self, start: int, end: int) -> int:
        """Read backticks or tildes: they may open a call in a code span at the start of a line, a span or a fence."""
        if self._cursor.buffer[start] == "`" and self._output.line.at_line_start():
            found = self._openings.find_line(self._cursor.buffer, start)
            if found is not None:
                return self._calls.begin(*found, start)
        return self._code.read_run(start, end, self._pending_calls.open_fence)

    def _read_result_tag(self, marker: str, end: int) -> int:
        """Read the start tag of a tool result: after a call the model invents a result, else it repeats one."""
        if self._sink.accepted_count:
            self._cursor.state = State.FINISHED
            return len(self._cursor.buffer)
        self._reported_result = marker in self._start_markers.result_markers and self._reports.report_result()
        self._output.emit_text(marker)
        self._result_end_tag = self._start_markers.result_tags[marker]
        self._cursor.state = State.IN_ECHOED_RESULT
        return end

    def _read_quotation(self, marker: str, start: int, end: int) -> int:
        """Begin a comment or an element in which calls are quoted, unless an offered tool has the element's name."""
        buffer, at_line_start = self._cursor.buffer, self._output.line.at_line_start()
        element = self._openings.find_element(buffer, start) if at_line_start else None
        tag_end, end_tag = read_quotation(buffer, start)
        if element is not None:
            return self._read_start_marker("<", start, end)
        quotes = bool(end_tag) and at_line_start
        if end_tag and not at_line_start:  # within a line, only where a start marker follows
            scan = Scanner(buffer, tag_end)
            scan.take(SHORT_SPACE)
            quotes = bool(self._start_markers.inline_marker_set.read(buffer, scan.pos))
        # The first character of `[code` or `\verb` may open a call by itself; a tag such as `<pre` is text as a whole.
        may_open = marker == "<" or (marker[0] != "<" and marker[0] in self._start_markers.line_start_chars)
        if not quotes and may_open:
            return self._read_start_marker(marker[0], start, start + 1)
        if not quotes:
            self._output.emit_text(marker)
            return end
        self._output.emit_text(buffer[start:tag_end])
        self._result_end_tag, self._reported_result = end_tag, False
        self._cursor.state = State.IN_ECHOED_RESULT
        return tag_end

    def in_echoed_result(self, pos: int) -> int:
        """Emit a tool result that the model repeats, up to its end tag."""
        cursor, buffer, end_tag = self._cursor, self._cursor.buffer, self._result_end_tag
        at = buffer.find(end_tag, pos)
        if at < 0:
            return self._output.emit_up_to(pos, marker_set((end_tag,)).partial_start(buffer, pos))
        self._output.emit_text(buffer[pos : at + len(end_tag)])
        if self._reported_result and end_tag:
            self._output.report_copy("end")
        cursor.state = State.IN_TEXT
        return at + len(end_tag)

    def after_role_marker(self, pos: int) -> int:
        """Emit all that follows a role marker or an invented result."""
        return self._output.emit_up_to(pos, len(self._cursor.buffer))
