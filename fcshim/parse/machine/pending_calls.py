"""The states of contexts in which calls may be quoted: code fences and spans, quotation marks, reasoning, bare text.

Theory of operation. In such a context the text and the events of calls stay pending until its end shows whether it was
a quotation. Either all calls of the context are accepted, or all of it is text. In a fence whose content is text only
its closing line is searched.

Rule: released text is emitted from its first byte on; accepted events are sent in their order.
"""

import re
from collections.abc import Callable

from fcshim.parse.limits import Limits
from fcshim.parse.machine.calls import CallStates
from fcshim.parse.machine.example_announcements import announces_example
from fcshim.parse.machine.invented_results import begins_result_line
from fcshim.parse.machine.known_markers import FURTHER_TURNS, StartMarkers, is_last_leftover, leftover_end
from fcshim.parse.machine.openings import OpeningFinder
from fcshim.parse.machine.quotations import QUOTING_LANGUAGES
from fcshim.parse.machine.state import SHOWN_KINDS, Cursor, Output, PendingCalls, State
from fcshim.parse.markers import END_TOKENS, MarkerSet


class CodeStates:
    """Reads runs of backticks or tildes; `fence_char` and `fence_length` describe the line that opened the fence."""

    def __init__(self, cursor: Cursor, output: Output, limits: Limits) -> None:
        self.fence_char = ""
        self.fence_length = 0
        self._cursor = cursor
        self._output = output
        self._limits = limits
        self._run_char = ""
        self._state_after_run = State.IN_TEXT

    def read_run(self, start: int, end: int, open_fence: Callable[[str, int], int]) -> int:
        """Read a run: part of the text, or the beginning of a fence line, which `open_fence` gets with its end."""
        cursor, line = self._cursor, self._output.line
        buffer, length = cursor.buffer, end - start
        if length > self._limits.line:
            return self._begin_overlong_run(start, end, State.IN_TEXT)
        fence = line.at_line_start()
        if end == len(buffer) and (fence or buffer[start] == "`"):
            return cursor.wait_from(start)
        if fence and length >= 3:
            line_end = self._find_fence_line_end(start, end)
            if cursor.wait:
                return start
            if line_end:
                self.fence_char, self.fence_length = buffer[start], length
                line.open_backticks.clear()
                return open_fence(buffer[start:line_end], line_end)
        self._output.emit_text(buffer[start:end])
        if buffer[start] == "`":
            line.add_backticks(length)
        return end

    def _begin_overlong_run(self, start: int, end: int, state_after: State) -> int:
        """Emit a run that is longer than a fence line may be, as far as it has come."""
        self._run_char, self._state_after_run = self._cursor.buffer[start], state_after
        self._cursor.state = State.IN_OVERLONG_RUN
        self._output.emit_text(self._cursor.buffer[start:end])
        return end

    def in_overlong_run(self, pos: int) -> int:
        """Emit the remainder of an overlong run."""
        end = self._run_end(pos, self._run_char)
        self._output.emit_text(self._cursor.buffer[pos:end])
        if end < len(self._cursor.buffer):
            self._cursor.state = self._state_after_run
        return end

    def _run_end(self, pos: int, char: str) -> int:
        buffer = self._cursor.buffer
        while pos < len(buffer) and buffer[pos] == char:
            pos += 1
        return pos

    def _find_fence_line_end(self, start: int, end: int) -> int:
        """Return the end of the fence line that begins at `start`, or 0 if it is none; waits if more text is needed."""
        buffer = self._cursor.buffer
        newline = buffer.find("\n", end, start + self._limits.line)
        info = buffer[end : newline if newline >= 0 else start + self._limits.line]
        # CommonMark: the info string of a fence of backticks contains no backtick, else the run opens a code span.
        if buffer[start] == "`" and "`" in info:
            return 0
        self._cursor.wait = newline < 0 and len(buffer) - start < self._limits.line
        return newline + 1

    def in_fence(self, pos: int) -> int:
        """Emit the content of a fence."""
        buffer = self._cursor.buffer
        start = buffer.find(self.fence_char, pos)
        if start < 0:
            self._output.emit_text(buffer[pos:])
            return len(buffer)
        self._output.emit_text(buffer[pos:start])
        end = self._run_end(start, self.fence_char)
        if end - start > self._limits.line:
            return self._begin_overlong_run(start, end, State.IN_FENCE)
        if self._output.line.at_line_start():
            if end == len(buffer):
                return self._cursor.wait_from(start)
            if end - start >= self.fence_length:
                return self._end_fence(start, end)
        self._output.emit_text(buffer[start:end])
        return end

    def _end_fence(self, start: int, end: int) -> int:
        line_end = self._find_closing_line_end(start, end)
        if self._cursor.wait:
            return start
        self._output.emit_text(self._cursor.buffer[start : line_end or end])
        if line_end:
            self._cursor.state = State.IN_TEXT
        return line_end or end

    def opening_line_end(self, pos: int) -> int:
        """Return the end of the line at `pos` that opens a fence, or 0 if it is none; waits if more text is needed."""
        buffer = self._cursor.buffer
        end = self._run_end(pos, buffer[pos])
        if buffer[pos] not in "`~" or end - pos > self._limits.line:
            return 0
        if end == len(buffer):
            self._cursor.wait = True
            return 0
        return self._find_fence_line_end(pos, end) if end - pos >= 3 else 0

    def enter(self, line: str) -> None:
        """Record the fence that `line` opens."""
        self.fence_char, self.fence_length = line[0], len(line) - len(line.lstrip(line[0]))

    def closing_line_end(self, pos: int) -> int:
        """Return the end of the fence's closing line at `pos`, or 0 if it is none; waits if more text is needed."""
        buffer = self._cursor.buffer
        end = self._run_end(pos, self.fence_char)
        if end - pos < self.fence_length:
            line_end = 0
        elif _END_TOKENS.match(buffer, end):
            return end  # the model ended its turn without a newline
        else:
            line_end = self._find_closing_line_end(pos, end)
            self._cursor.wait |= _END_TOKENS.is_partial(buffer, end)
        if end == len(buffer) and end - pos <= self._limits.line:
            self._cursor.wait = True
        return line_end

    def closes_at_end(self, tail: str) -> bool:
        """Return whether `tail`, with which the reply ends, is the fence's closing line."""
        return len(tail) >= self.fence_length and not tail.strip().strip(self.fence_char)

    def _find_closing_line_end(self, start: int, end: int) -> int:
        """Return the end of the closing fence line, or 0 if it is none; waits if more text is needed."""
        line_end = self._find_fence_line_end(start, end)
        if self._cursor.buffer[end : line_end or start + self._limits.line].strip():
            self._cursor.wait = False
            return 0
        return line_end


_SPACE = re.compile(r"\s*+")
_SHORT_SPACE = re.compile(r"\s{0,4}")
_MAX_WORD = 24
_SEPARATORS = re.compile(r"[\s;,]*+")
"""Between calls without markers; Llama's models join them with semicolons."""
_END_TOKENS = MarkerSet(END_TOKENS)
_CLOSING_BACKTICKS = re.compile(r"`{1,8}\s{0,8}")
"""The end of a fence or span around the arguments of a ReAct call, before the line of its result."""
_BACKTICKS_OR_BLANK = re.compile(r"`+|\n[ \t\r]*(?:\n|\Z)")


class PendingCallStates:
    """Decides about pending calls; without `fenced_calls` the content of every fence is text."""

    def __init__(
        self,
        cursor: Cursor,
        output: Output,
        limits: Limits,
        start_markers: StartMarkers,
        openings: OpeningFinder,
        code: CodeStates,
        calls: CallStates,
        *,
        fenced_calls: bool,
    ) -> None:
        self._cursor = cursor
        self._output = output
        self._limits = limits
        self._start_markers = start_markers
        self._openings = openings
        self._code = code
        self._calls = calls
        self._fenced_calls = fenced_calls

    def open_fence(self, line: str, pos: int) -> int:
        """Enter the fence whose `line` ends at `pos`; in the primary dialect the line itself may open a call."""
        opening = self._start_markers.fence_openings.get(line.strip())
        begins = opening.dialect.body.begins(self._cursor.buffer, pos) if opening is not None else False
        if begins is None:
            return self._cursor.wait_from(pos - len(line))
        if opening is not None and begins:
            self._calls.begin_fenced(opening.dialect, line)
        elif self._fenced_calls and _language(line) not in QUOTING_LANGUAGES:
            self._output.begin_pending("fence").add(line)
            self._cursor.state = State.IN_FENCE_OF_CALLS
        else:
            self._output.emit_text(line)
            self._cursor.state = State.IN_FENCE
        return pos

    def in_fence_of_calls(self, pos: int) -> int:
        """Read in a fence that so far contains only calls."""
        pending, cursor = self._output.get_pending(), self._cursor
        start = pos = self._add_space(pending, pos)
        if not pending.body_starts and pos < len(cursor.buffer):
            pos = self._skip_comment(pending, pos)
        if pos == len(cursor.buffer) or pos > start or cursor.wait:
            return pos
        if pending.size <= self._limits.hold:
            found = self._openings.find_next(cursor.buffer, pos)
            if found is None:
                return cursor.wait_from(pos)
            if not isinstance(found, bool):
                return self._calls.open(*found, pos, State.IN_FENCE)
            end = self._skip_leftover(pending, pos) if cursor.buffer[pos] != self._code.fence_char else pos
            if end > pos or cursor.wait:
                return end
            if pending.accepted and cursor.buffer[pos] == self._code.fence_char:
                return self._end_fence_of_calls(pending, pos)
        return self._release(pos, State.IN_FENCE)

    def _skip_comment(self, pending: PendingCalls, pos: int) -> int:
        """Return the end of a comment's line before the first call of a fence, unless it announces an example."""
        buffer, limit = self._cursor.buffer, self._limits.line
        is_comment = buffer[pos] == "#" or "//".startswith(buffer[pos : pos + 2])
        end = buffer.find("\n", pos, pos + limit) + 1 if is_comment else 0
        self._cursor.wait = is_comment and not end and len(buffer) - pos < limit
        if announces_example(buffer[pos:end].strip("#/ \r\n")):
            return pos
        pending.add(buffer[pos:end])
        return max(pos, end)

    def _end_fence_of_calls(self, pending: PendingCalls, pos: int) -> int:
        line_end = self._code.closing_line_end(pos)
        if self._cursor.wait:
            return pos
        if not line_end:
            return self._release(pos, State.IN_FENCE)
        pending.add(self._cursor.buffer[pos:line_end])
        self._calls.return_state = State.IN_TEXT
        self._cursor.state = State.AFTER_PENDING_CALLS
        return line_end

    def after_pending_calls(self, pos: int) -> int:
        """Read after calls that count only if nothing but white space or further calls follow them."""
        pending, cursor = self._output.get_pending(), self._cursor
        pos = self._add_space(pending, pos, _SEPARATORS if pending.kind == "bare" else _SPACE)
        if pos == len(cursor.buffer):
            return pos
        further = self._begins_turn(pending, pos)
        if further:
            return self._end_reply(pos)
        if pending.kind in {"reasoning", "bare"} and pending.size <= self._limits.hold:
            found = None if further is None else self._openings.find_next(cursor.buffer, pos)
            if found is None:
                return cursor.wait_from(pos)
            if not isinstance(found, bool):
                return self._calls.open(*found, pos, self._calls.return_state)
        shows_result = not self._calls.may_be_example() and begins_result_line(cursor.buffer, pos)
        if shows_result:
            return self._read_result_line(pending, pos)
        end = self._skip_leftover(pending, pos)
        cursor.wait |= further is None or shows_result is None
        return end if end > pos or cursor.wait else self._open_next_fence(pending, pos)

    def _open_next_fence(self, pending: PendingCalls, pos: int) -> int:
        """Enter a further fence, if its line stands at `pos`: its calls count together with those before it."""
        end = self._code.opening_line_end(pos) if pending.kind == "fence" else 0
        if self._cursor.wait:
            return pos
        line = self._cursor.buffer[pos:end]
        if not end or _language(line) in QUOTING_LANGUAGES:
            return self._release(pos, self._calls.return_state)
        pending.add(line)
        self._code.enter(line)
        self._cursor.state = State.IN_FENCE_OF_CALLS
        return end

    def _begins_turn(self, pending: PendingCalls, pos: int) -> bool | None:
        """Return whether a further turn or a tool's result begins at `pos`; None if more text is needed to decide."""
        buffer = self._cursor.buffer
        results = self._start_markers.result_marker_set
        # An example may show a call with its result.
        sets = (FURTHER_TURNS,) if self._calls.may_be_example() else (FURTHER_TURNS, results)
        if any(markers.match(buffer, pos) for markers in sets):
            return True
        if any(markers.is_partial(buffer, pos) for markers in sets):
            return None
        if pending.kind not in {"reasoning", "bare"}:
            return False
        fence = _CLOSING_BACKTICKS.match(buffer, pos)
        if fence is not None and fence.end() == len(buffer):
            return None
        at = pos if fence is None else fence.end()
        return self._start_markers.result_line_at(self._calls.start_marker, buffer, at)

    def _read_result_line(self, pending: PendingCalls, pos: int) -> int:
        """Read the line of an invented result: a tag ends the reply; a word may also stand in an explanation."""
        if self._cursor.buffer[pos] == "<" or "observation" in self._cursor.buffer[pos : pos + _MAX_WORD].lower():
            return self._end_reply(pos)
        if pending.kind == "bare" and pending.accepted:
            self._calls.report_unreadable()
        return self._release(pos, State.AFTER_ROLE_MARKER)

    def _end_reply(self, pos: int) -> int:
        """Accept the calls and end the reply: the model goes on to invent a result, or a further turn."""
        if not self._output.accept_calls():
            return self._release(pos, self._calls.return_state)
        self._cursor.state = State.FINISHED
        return len(self._cursor.buffer)

    def after_call_in_span(self, pos: int) -> int:
        """Search the end of the open code span or quotation that a call stands in: if it closes, the call is quoted."""
        pending, buffer = self._output.get_pending(), self._cursor.buffer
        closes = _is_next(pending.closing_quote, buffer, pos)
        if closes is None:
            return self._cursor.wait_from(pos)
        if closes:
            return self._release(pos, State.IN_TEXT)
        return self._find_span_end(pending, pos)

    def _find_span_end(self, pending: PendingCalls, pos: int) -> int:
        """Search the backticks that close the open code span after a call."""
        buffer = self._cursor.buffer
        open_backticks = self._output.line.open_backticks
        if not open_backticks:
            return self._accept(pos)
        at = pos + pending.searched
        for found in _BACKTICKS_OR_BLANK.finditer(buffer, at):
            if found.end() == len(buffer) and found[0][-1:] != "\n":
                at = found.start()
                break
            if found[0][0] == "\n":
                # CommonMark: a code span ends with its paragraph, so a blank line means that the backticks opened none.
                if found.end() == len(buffer) and found[0].count("\n") < 2:
                    at = found.start()
                    break
                return self._accept(pos)
            if found.end() - found.start() in open_backticks:
                return self._release(pos, State.IN_TEXT)
        else:
            at = len(buffer)
        if len(buffer) - pos > self._limits.look_ahead:
            return self._accept(pos)
        pending.searched = at - pos
        return self._cursor.wait_from(pos)

    def close(self, pending: PendingCalls, tail: str, *, natural: bool) -> str:
        """End the reply, whose last text is `tail`; return the text that must be parsed again."""
        if pending.kind == "span" and pending.accepted:
            self._accept(0)
            return tail
        closed = not tail or is_last_leftover(tail) or (pending.kind == "fence" and self._code.closes_at_end(tail))
        if not (natural and pending.accepted and closed and self._output.accept_calls()):
            if natural and pending.accepted and closed and self._output.pending_is_shown():
                self._calls.report_unreadable()
            self._output.release_as_text()
            self._output.emit_text(tail)
        return ""

    def _add_space(self, pending: PendingCalls, pos: int, space: re.Pattern[str] = _SPACE) -> int:
        found = space.match(self._cursor.buffer, pos)
        assert found is not None
        pending.add(found[0])
        return found.end()

    def _skip_leftover(self, pending: PendingCalls, pos: int) -> int:
        """Keep leftover markup after a call with the call, and return its end; `wait` if more text is needed."""
        may_follow = pending.accepted and pending.size <= self._limits.hold
        end = leftover_end(self._cursor.buffer, pos) if may_follow else pos
        if end is None:
            return self._cursor.wait_from(pos)
        pending.add(self._cursor.buffer[pos:end])
        return end

    def _release(self, pos: int, state: State) -> int:
        """The calls are quoted: emit them as text, and go on in `state`."""
        pending = self._output.get_pending()
        self._output.has_shown_calls |= bool(pending.accepted) and pending.kind in SHOWN_KINDS
        self._output.release_as_text()
        self._cursor.state = state
        return pos

    def _accept(self, pos: int) -> int:
        """The calls of a code span or quotation are not quoted: emit their events."""
        if not self._output.accept_calls():
            return self._release(pos, State.IN_TEXT)
        self._output.line.reset_after_call()
        self._cursor.state = State.IN_TEXT
        return pos


def _language(fence_line: str) -> str:
    """Return the first word of a fence's info string, in lower case."""
    info = fence_line.strip("`~ \t\r\n").split(maxsplit=1)
    return info[0].lower() if info else ""


def _is_next(mark: str, text: str, pos: int) -> bool | None:
    """Return whether a mark stands at `pos`, or after white space; None if more text is needed to decide."""
    found = _SHORT_SPACE.match(text, pos)
    if not mark or found is None:
        return False
    ahead = text[found.end() : found.end() + len(mark)]
    if ahead == mark:
        return True
    return None if mark.startswith(ahead) else False
