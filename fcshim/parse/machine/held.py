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
from fcshim.parse.machine.openers import Openers
from fcshim.parse.machine.output import Hold
from fcshim.parse.sink import CallSink

_SPACE = re.compile(r"\s*+")
_BACKTICKS_OR_BLANK = re.compile(r"`+|\n[ \t\r]*(?:\n|\Z)")


class HeldMachine(CallMachine):
    """The states of calls that are held; without `fenced_calls`, whatever stands in a fence is text."""

    def __init__(
        self, openers: Openers, sink: CallSink, limits: Limits, *, asked: Dialect | None, fenced_calls: bool
    ) -> None:
        super().__init__(openers, sink, limits, asked=asked)
        self._fenced_calls = fenced_calls

    def _fence_opened(self, line: str, pos: int) -> int:
        if self._fenced_calls:
            self._output.begin_hold("fence").add(line)
            self._state = self._fence_calls
        else:
            self._output.say(line)
            self._state = self._fence
        return pos

    def _fence_calls(self, pos: int) -> int:
        """In a fence that so far holds nothing but calls."""
        hold = self._output.held()
        pos = self._hold_space(pos)
        if pos == len(self._buffer):
            return pos
        if hold.size <= self._limits.hold:
            found = self._opening(pos)
            if found:
                return self._open(*found, pos, self._fence)
            if self._stall:
                return pos
            if hold.calls and self._buffer[pos] == self._fence_char:
                return self._fence_calls_end(hold, pos)
        self._output.release()
        self._state = self._fence
        return pos

    def _fence_calls_end(self, hold: Hold, pos: int) -> int:
        end = pos
        while end < len(self._buffer) and self._buffer[end] == self._fence_char and end - pos <= self._limits.line:
            end += 1
        line_end = self._closing_line(pos, end) if self._fence_run <= end - pos else 0
        if end == len(self._buffer) and end - pos <= self._limits.line:
            self._stall = True
        if self._stall:
            return pos
        if not line_end:
            self._output.release()
            self._state = self._fence
            return pos
        hold.add(self._buffer[pos:line_end])
        self._home = self._text
        self._state = self._only_space
        return line_end

    def _hold_space(self, pos: int) -> int:
        found = _SPACE.match(self._buffer, pos)
        assert found is not None
        self._output.held().add(found[0])
        return found.end()

    def _only_space(self, pos: int) -> int:
        """Behind calls that count only if nothing but white space (or further calls) follows them."""
        pos = self._hold_space(pos)
        if pos == len(self._buffer):
            return pos
        hold = self._output.held()
        if hold.kind in {"reasoning", "bare"} and hold.size <= self._limits.hold:
            found = self._opening(pos)
            if found:
                return self._open(*found, pos, self._home)
            if self._stall:
                return pos
        self._output.release()
        self._state = self._home
        return pos

    def _span_end(self, pos: int) -> int:
        """Behind a call in an open span or quotation: is it closed?"""
        hold, buffer = self._output.held(), self._buffer
        if hold.closing_quote and buffer[pos] == hold.closing_quote:
            return self._quoted(pos)
        if not self._output.line.runs:
            return self._not_quoted(pos)
        at = pos + hold.looked
        for found in _BACKTICKS_OR_BLANK.finditer(buffer, at):
            if found.end() == len(buffer) and found[0][-1:] != "\n":
                at = found.start()
                break
            if found[0][0] == "\n":
                if found.end() == len(buffer) and found[0].count("\n") < 2:
                    at = found.start()
                    break
                return self._not_quoted(pos)
            if found.end() - found.start() in self._output.line.runs:
                return self._quoted(pos)
        else:
            at = len(buffer)
        if len(buffer) - pos > self._limits.look_ahead:
            return self._not_quoted(pos)
        hold.looked = at - pos
        self._stall = True
        return pos

    def _quoted(self, pos: int) -> int:
        self._output.release()
        self._state = self._text
        return pos

    def _not_quoted(self, pos: int) -> int:
        self._output.accept()
        self._output.line.after_call()
        self._state = self._text
        return pos

    def _held_call_ended(self, hold: Hold) -> None:
        if self._sink.good == hold.good + hold.calls or hold.size > self._limits.hold:
            # The call was no call, or one with an error: nothing in this place counts.
            self._release()
            return
        hold.calls = self._sink.good - hold.good
        hold.looked = 0
        if self._section is None:
            self._state = self._behind_held(hold)

    def _release(self) -> None:
        """What was held is text, the section it is in included."""
        self._output.release()
        if self._section is not None:
            self._state = self._home = self._section.home
            self._section = None

    def _behind_held(self, hold: Hold) -> Callable[[int], int]:
        match hold.kind:
            case "fence":
                return self._fence_calls
            case "span":
                return self._span_end
            case "reasoning" | "bare":
                return self._only_space
