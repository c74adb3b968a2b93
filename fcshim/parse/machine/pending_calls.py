"""The states of contexts in which calls may be quoted: code fences and spans, quotation marks, reasoning, bare text.

Theory of operation. In such a context the text and the events of calls stay pending until its end shows whether it was
a quotation. Either all calls of the context are accepted, or all of it is text. In a fence whose content is text only
its closing line is searched.

Rule: released text is emitted from its first byte on; accepted events are sent in their order.
"""

import re

from fcshim.parse.machine.calls import CallStates
from fcshim.parse.machine.code import CodeStates
from fcshim.parse.machine.example_announcements import announces_example
from fcshim.parse.machine.invented_results import begins_result_line
from fcshim.parse.machine.known_markers import FURTHER_TURNS, is_last_leftover, leftover_end
from fcshim.parse.machine.parts import MachineParts, StateGroup
from fcshim.parse.machine.quotations import QUOTING_LANGUAGES
from fcshim.parse.machine.sections import SHORT_SPACE
from fcshim.parse.machine.state import SHOWN_KINDS, PendingCalls, State
from fcshim.parse.scanner import SPACE, MoreNeeded, Scanner, decided

_MAX_WORD = 24
_SEPARATORS = re.compile(r"[\s;,]*+")
"""Between calls without markers; Llama's models join them with semicolons."""
_CLOSING_BACKTICKS = re.compile(r"`{1,8}\s{0,8}")
"""The end of a fence or span around the arguments of a ReAct call, before the line of its result."""
_BACKTICKS_OR_BLANK = re.compile(r"`+|\n[ \t\r]*(?:\n|\Z)")


class PendingCallStates(StateGroup):
    """Decides about pending calls; without `fenced_calls` the content of every fence is text."""

    def __init__(self, parts: MachineParts, code: CodeStates, calls: CallStates, *, fenced_calls: bool) -> None:
        super().__init__(parts)
        self._code = code
        self._calls = calls
        self._fenced_calls = fenced_calls

    def open_fence(self, line: str, pos: int) -> int:
        """Enter the fence whose `line` ends at `pos`; in the primary dialect the line itself may open a call."""
        opening = self._start_markers.fence_openings.get(line.strip())
        begins = opening is not None and decided(opening.dialect.body.begins(self._cursor.buffer, pos))
        self._code.enter(line)
        if opening is not None and begins:
            return self._calls.begin(opening, line, pos - len(line))
        if self._fenced_calls and _language(line) not in QUOTING_LANGUAGES:
            self._output.begin_pending("fence")
            self._output.held.add(line)
            self._cursor.state = State.IN_FENCE_OF_CALLS
        else:
            self._output.emit_text(line)
            self._cursor.state = State.IN_FENCE
        return pos

    def in_fence_of_calls(self, pos: int) -> int:
        """Read in a fence that so far contains only calls."""
        pending, buffer = self._output.get_pending(), self._cursor.buffer
        end = self._hold_space(pos)
        if end == pos and not pending.body_starts:
            end = self._skip_comment(pos)
        if end > pos:
            return end
        if not self._is_full():
            call = self._openings.find_next(buffer, pos)
            if call is not None:
                return self._calls.open(*call, pos, State.IN_FENCE)
            if buffer[pos] != self._code.fence_char:
                end = self._hold_leftover(pending, pos)
                if end > pos:
                    return end
            elif pending.accepted and (end := self._code.closing_line_end(pos)):
                self._output.held.add(buffer[pos:end])
                self._calls.return_state = State.IN_TEXT
                self._cursor.state = State.AFTER_PENDING_CALLS
                return end
        return self._release(pos, State.IN_FENCE)

    def _skip_comment(self, pos: int) -> int:
        """Return the end of a comment's line before the first call of a fence, unless it announces an example."""
        buffer, limit = self._cursor.buffer, self._limits.line
        if not Scanner(buffer, pos).skip("#", "//"):
            return pos
        end = buffer.find("\n", pos, pos + limit) + 1
        if not end and len(buffer) - pos < limit:
            raise MoreNeeded
        if not end or announces_example(buffer[pos:end].strip("#/ \r\n")):
            return pos
        self._output.held.add(buffer[pos:end])
        return end

    def after_pending_calls(self, pos: int) -> int:
        """Read after calls that count only if nothing but white space or further calls follow them."""
        pending, buffer = self._output.get_pending(), self._cursor.buffer
        end = self._hold_space(pos, _SEPARATORS if pending.kind == "bare" else SPACE)
        if end > pos:
            return end
        # A further turn or a tool's result ends the reply, but an example may show a call with its result.
        is_result = not self._output.line.may_be_example() and self._start_markers.result_marker_set.read(buffer, pos)
        if is_result or FURTHER_TURNS.read(buffer, pos):
            return self._end_reply(pos)
        if pending.kind in {"reasoning", "bare"} and not self._is_full():
            call = self._openings.find_next(buffer, pos)
            if call is not None:
                return self._calls.open(*call, pos, self._calls.return_state)
        scan = Scanner(buffer, pos)
        if pending.kind != "fence":
            scan.take(_CLOSING_BACKTICKS)
        if not self._output.line.may_be_example() and begins_result_line(buffer, scan.pos):
            return self._read_result_line(pending, pos, scan.pos)
        end = self._hold_leftover(pending, pos)
        return end if end > pos else self._open_next_fence(pending, pos)

    def _open_next_fence(self, pending: PendingCalls, pos: int) -> int:
        """Enter a further fence, if its line stands at `pos`: its calls count together with those before it."""
        end = self._code.opening_line_end(pos) if pending.kind == "fence" else 0
        line = self._cursor.buffer[pos:end]
        if not end or _language(line) in QUOTING_LANGUAGES:
            return self._release(pos, self._calls.return_state)
        self._output.held.add(line)
        self._code.enter(line)
        self._cursor.state = State.IN_FENCE_OF_CALLS
        return end

    def _read_result_line(self, pending: PendingCalls, pos: int, start: int) -> int:
        """Read the line of an invented result: a tag ends the reply; a word may also stand in an explanation."""
        word = self._cursor.buffer[start : start + _MAX_WORD].lower()
        if word[0] == "<" or "observation" in word:
            return self._end_reply(pos)
        if pending.kind == "bare" and pending.accepted:
            self._reports.report_unreadable()
        return self._release(pos, State.AFTER_ROLE_MARKER)

    def _end_reply(self, pos: int) -> int:
        """Accept the calls and end the reply: the model goes on to invent a result, or a further turn."""
        if not self._output.accept_calls(State.FINISHED):
            return self._release(pos, self._calls.return_state)
        return len(self._cursor.buffer)

    def after_call_in_span(self, pos: int) -> int:
        """Search the end of the open code span or quotation that a call stands in: if it closes, the call is quoted."""
        pending = self._output.get_pending()
        scan = Scanner(self._cursor.buffer, pos)
        if pending.closing_quote and scan.take(SHORT_SPACE) is not None and scan.skip(pending.closing_quote):
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
        raise MoreNeeded

    def close(self, pending: PendingCalls, tail: str, *, natural: bool) -> str:
        """End the reply, whose last text is `tail`; return the text that must be parsed again."""
        if pending.kind == "span" and pending.accepted:
            self._accept(0)
            return tail
        closed = not tail or is_last_leftover(tail) or (pending.kind == "fence" and self._code.closes_at_end(tail))
        if not (natural and pending.accepted and closed and self._output.accept_calls(State.IN_TEXT)):
            if natural and pending.accepted and closed and self._output.pending_is_shown():
                self._reports.report_unreadable()
            self._output.release_as_text()
            self._output.emit_text(tail)
        return ""

    def _is_full(self) -> bool:
        return self._output.held_size() > self._limits.hold

    def _hold_space(self, pos: int, space: re.Pattern[str] = SPACE) -> int:
        found = space.match(self._cursor.buffer, pos)
        assert found is not None
        self._output.held.add(found[0])
        return found.end()

    def _hold_leftover(self, pending: PendingCalls, pos: int) -> int:
        """Hold leftover markup after a call with the call, and return its end."""
        end = leftover_end(self._cursor.buffer, pos) if pending.accepted and not self._is_full() else pos
        self._output.held.add(self._cursor.buffer[pos:end])
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
        return pos if self._output.accept_calls(State.IN_TEXT) else self._release(pos, State.IN_TEXT)


def _language(fence_line: str) -> str:
    """Return the first word of a fence's info string, in lower case."""
    info = fence_line.strip("`~ \t\r\n").split(maxsplit=1)
    return info[0].lower() if info else ""
