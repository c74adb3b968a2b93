"""The states of contexts in which calls may be quoted: fences, code spans, quotation marks, reasoning, bare text.

Theory of operation. In such a context the text and the events of calls stay pending until its end shows whether it was
a quotation. Either all calls of the context are accepted, or all of it is text.

Rule: released text is emitted from its first byte on; accepted events are sent in their order.
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
    """The states of pending calls; without `fenced_calls` the content of every fence is text."""

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
        """Read in a fence that so far contains only calls."""
        pending = self._output.get_pending()
        pos = self._buffer_space(pos)
        if pos == len(self._buffer):
            return pos
        if pending.size <= self._limits.hold:
            found = self._find_opening(pos)
            if found:
                return self._open(*found, pos, self._in_fence)
            if self._wait:
                return pos
            if pending.accepted and self._buffer[pos] == self._fence_char:
                return self._end_fence_of_calls(pending, pos)
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
        """Read after calls that count only if nothing but white space or further calls follow them."""
        pos = self._buffer_space(pos)
        if pos == len(self._buffer):
            return pos
        pending = self._output.get_pending()
        if pending.kind in {"reasoning", "bare"} and pending.size <= self._limits.hold:
            found = self._find_opening(pos)
            if found:
                return self._open(*found, pos, self._return_state)
            if self._wait:
                return pos
        self._output.release_as_text()
        self._state = self._return_state
        return pos

    def _after_call_in_span(self, pos: int) -> int:
        """Search the end of the open code span or quotation that a call stands in: if it closes, the call is quoted."""
        pending, buffer = self._output.get_pending(), self._buffer
        if pending.closing_quote and buffer[pos] == pending.closing_quote:
            return self._release_quoted(pos)
        if not self._output.line.open_backticks:
            return self._accept_unquoted(pos)
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
                return self._accept_unquoted(pos)
            if found.end() - found.start() in self._output.line.open_backticks:
                return self._release_quoted(pos)
        else:
            at = len(buffer)
        if len(buffer) - pos > self._limits.look_ahead:
            return self._accept_unquoted(pos)
        pending.searched = at - pos
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
            # The last body was not a call, or a call with an error: nothing in this context is a call.
            self._release_pending()
            return
        pending.accepted = self._sink.accepted_count - pending.accepted_before
        pending.searched = 0
        if self._section is None:
            self._state = self._state_after_pending(pending)

    def _release_pending(self) -> None:
        """Emit the pending calls, and the section they are in, as text."""
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
