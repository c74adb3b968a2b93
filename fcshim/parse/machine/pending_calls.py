"""Places where calls may be quoted: fences, code spans, quotation marks, reasoning, bare text.

Theory of operation. What stands there is held, calls and all, until its surroundings say whether it was quoted; in such
a place either all are calls, or none is.

Rule: what is released is text from its first byte on; what is accepted is sent in its order.
Neighbours: `calls` reads the calls, `output` holds them, `code` knows fences.
"""

import re
from collections.abc import Callable

from fcshim.parse.dialect import Dialect
from fcshim.parse.limits import Limits
from fcshim.parse.machine.calls import CallMachine
from fcshim.parse.machine.output import PendingCalls
from fcshim.parse.machine.start_markers import StartMarkers
from fcshim.parse.sink import CallSink

_SPACE = re.compile(r"\s*+")
_BACKTICKS_OR_BLANK = re.compile(r"`+|\n[ \t\r]*(?:\n|\Z)")


class PendingCallMachine(CallMachine):
    """The states of calls that are held; without `fenced_calls`, whatever stands in a fence is text."""

    def __init__(
        self,
        start_markers: StartMarkers,
        sink: CallSink,
        limits: Limits,
        *,
        primary: Dialect | None,
        fenced_calls: bool,
    ) -> None:
        super().__init__(start_markers, sink, limits, primary=primary)
        self._fenced_calls = fenced_calls

    def _open_fence(self, line: str, pos: int) -> int:
        if self._fenced_calls:
            self._output.begin_pending("fence").add(line)
            self._state = self._in_fence_of_calls
        else:
            self._output.emit_text(line)
            self._state = self._in_fence
        return pos

    def _in_fence_of_calls(self, pos: int) -> int:
        """In a fence that so far holds nothing but calls."""
        hold = self._output.get_pending()
        pos = self._buffer_space(pos)
        if pos == len(self._buffer):
            return pos
        if hold.size <= self._limits.hold:
            found = self._find_opening(pos)
            if found:
                return self._open(*found, pos, self._in_fence)
            if self._wait:
                return pos
            if hold.accepted and self._buffer[pos] == self._fence_char:
                return self._end_fence_of_calls(hold, pos)
        self._output.release_as_text()
        self._state = self._in_fence
        return pos

    def _end_fence_of_calls(self, pending: PendingCalls, pos: int) -> int:
        end = pos
        while end < len(self._buffer) and self._buffer[end] == self._fence_char and end - pos <= self._limits.line:
            end += 1
        line_end = self._find_closing_fence_end(pos, end) if self._fence_length <= end - pos else 0
        if end == len(self._buffer) and end - pos <= self._limits.line:
            self._wait = True
        if self._wait:
            return pos
        if not line_end:
            self._output.release_as_text()
            self._state = self._in_fence
            return pos
        pending.add(self._buffer[pos:line_end])
        self._return_state = self._in_text
        self._state = self._after_pending_calls
        return line_end

    def _buffer_space(self, pos: int) -> int:
        found = _SPACE.match(self._buffer, pos)
        assert found is not None
        self._output.get_pending().add(found[0])
        return found.end()

    def _after_pending_calls(self, pos: int) -> int:
        """Behind calls that count only if nothing but white space (or further calls) follows them."""
        pos = self._buffer_space(pos)
        if pos == len(self._buffer):
            return pos
        hold = self._output.get_pending()
        if hold.kind in {"reasoning", "bare"} and hold.size <= self._limits.hold:
            found = self._find_opening(pos)
            if found:
                return self._open(*found, pos, self._return_state)
            if self._wait:
                return pos
        self._output.release_as_text()
        self._state = self._return_state
        return pos

    def _after_call_in_span(self, pos: int) -> int:
        """Behind a call in an open span or quotation: is it closed?"""
        hold, buffer = self._output.get_pending(), self._buffer
        if hold.closing_quote and buffer[pos] == hold.closing_quote:
            return self._release_quoted(pos)
        if not self._output.line.open_backticks:
            return self._accept_unquoted(pos)
        at = pos + hold.searched
        for found in _BACKTICKS_OR_BLANK.finditer(buffer, at):
            if found.end() == len(buffer) and found[0][-1:] != "\n":
                at = found.start()
                break
            if found[0][0] == "\n":
                if found.end() == len(buffer) and found[0].count("\n") < 2:
                    at = found.start()
                    break
                return self._accept_unquoted(pos)
            if found.end() - found.start() in self._output.line.open_backticks:
                return self._release_quoted(pos)
        else:
            at = len(buffer)
        if len(buffer) - pos > self._limits.look_ahead:
            return self._accept_unquoted(pos)
        hold.searched = at - pos
        self._wait = True
        return pos

    def _release_quoted(self, pos: int) -> int:
        self._output.release_as_text()
        self._state = self._in_text
        return pos

    def _accept_unquoted(self, pos: int) -> int:
        self._output.accept_calls()
        self._output.line.reset_after_call()
        self._state = self._in_text
        return pos

    def _end_pending_call(self, pending: PendingCalls) -> None:
        if self._sink.accepted_count == pending.accepted_before + pending.accepted or pending.size > self._limits.hold:
            # The call was no call, or one with an error: nothing in this place counts.
            self._release_pending()
            return
        pending.accepted = self._sink.accepted_count - pending.accepted_before
        pending.searched = 0
        if self._section is None:
            self._state = self._state_after_pending(pending)

    def _release_pending(self) -> None:
        """What was held is text, the section it is in included."""
        self._output.release_as_text()
        if self._section is not None:
            self._state = self._return_state = self._section.return_state
            self._section = None

    def _state_after_pending(self, pending: PendingCalls) -> Callable[[int], int]:
        match pending.kind:
            case "fence":
                return self._in_fence_of_calls
            case "span":
                return self._after_call_in_span
            case "reasoning" | "bare":
                return self._after_pending_calls
