"""The states of Markdown code in the text: runs of backticks or tildes, and fences whose content is text.

Rule: in such a fence only its closing line is searched.
"""

from collections.abc import Callable

from fcshim.parse.limits import Limits
from fcshim.parse.machine.cursor import Cursor, State
from fcshim.parse.machine.output import Output


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

    def closing_line_end(self, pos: int) -> int:
        """Return the end of the fence's closing line at `pos`, or 0 if it is none; waits if more text is needed."""
        buffer = self._cursor.buffer
        end = self._run_end(pos, self.fence_char)
        line_end = self._find_closing_line_end(pos, end) if end - pos >= self.fence_length else 0
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
