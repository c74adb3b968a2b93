"""Markdown code in the text: runs of backticks, code spans, fences.

Rule: the content of a fence is text up to its closing line; the subclass decides whether a fence may contain calls.
"""

from abc import abstractmethod

from fcshim.parse.limits import Limits
from fcshim.parse.machine.loop import TagMachine
from fcshim.parse.sink import CallSink


class CodeMachine(TagMachine):
    """The states of fenced code, and the reading of one run of backticks or tildes."""

    def __init__(self, sink: CallSink, limits: Limits) -> None:
        super().__init__(sink, limits)
        self._overlong_char = ""
        self._fence_char = ""
        self._fence_length = 0

    @abstractmethod
    def _in_text(self, pos: int) -> int:
        """Read the answer's text; also the state after a fence."""

    @abstractmethod
    def _open_fence(self, line: str, pos: int) -> int:
        """Enter a fence whose opening line ends at `pos`; return the position at which to continue."""

    def _read_run(self, start: int, end: int) -> int:
        """Read a run of backticks or tildes: part of the text, or the beginning of a fence line."""
        buffer, length = self._buffer, end - start
        if length > self._limits.line:
            self._overlong_char = buffer[start]
            self._output.emit_text(buffer[start:end])
            return end
        fence = self._output.line.at_line_start()
        if end == len(buffer) and (fence or buffer[start] == "`"):
            self._wait = True
            return start
        if fence and length >= 3:
            line_end = self._find_fence_line_end(start, end)
            if self._wait:
                return start
            if line_end:
                self._fence_char, self._fence_length = buffer[start], length
                self._output.line.open_backticks.clear()
                return self._open_fence(buffer[start:line_end], line_end)
        self._output.emit_text(buffer[start:end])
        if buffer[start] == "`":
            self._output.line.add_backticks(length)
        return end

    def _skip_overlong_run(self, pos: int) -> int:
        """Emit the remainder of a run that is longer than a fence line may be."""
        end = pos
        while end < len(self._buffer) and self._buffer[end] == self._overlong_char:
            end += 1
        self._output.emit_text(self._buffer[pos:end])
        if end < len(self._buffer):
            self._overlong_char = ""
        return end

    def _find_fence_line_end(self, start: int, end: int) -> int:
        """Return the end of the fence line that begins at `start`, or 0 if it is none; waits if more text is needed."""
        newline = self._buffer.find("\n", end, start + self._limits.line)
        info = self._buffer[end : newline if newline >= 0 else start + self._limits.line]
        # CommonMark: the info string of a fence of backticks contains no backtick, else the run opens a code span.
        if self._buffer[start] == "`" and "`" in info:
            return 0
        self._wait = newline < 0 and len(self._buffer) - start < self._limits.line
        return newline + 1

    def _in_fence(self, pos: int) -> int:
        """Emit the content of a fence; only its closing line is searched."""
        buffer, char = self._buffer, self._fence_char
        if self._overlong_char:
            pos = self._skip_overlong_run(pos)
        start = buffer.find(char, pos)
        if start < 0:
            self._output.emit_text(buffer[pos:])
            return len(buffer)
        self._output.emit_text(buffer[pos:start])
        end = start
        while end < len(buffer) and buffer[end] == char:
            end += 1
        if end - start > self._limits.line:
            self._overlong_char = char
        elif self._output.line.at_line_start():
            if end == len(buffer):
                self._wait = True
                return start
            if end - start >= self._fence_length:
                return self._end_fence(start, end)
        self._output.emit_text(buffer[start:end])
        return end

    def _end_fence(self, start: int, end: int) -> int:
        line_end = self._find_closing_fence_end(start, end)
        if self._wait:
            return start
        self._output.emit_text(self._buffer[start : line_end or end])
        if line_end:
            self._state = self._in_text
        return line_end or end

    def _find_closing_fence_end(self, start: int, end: int) -> int:
        """Return the end of the closing fence line, or 0 if it is none; waits if more text is needed."""
        line_end = self._find_fence_line_end(start, end)
        if self._buffer[end : line_end or start + self._limits.line].strip():
            self._wait = False
            return 0
        return line_end
