"""The states of code: runs of backticks or tildes, and fences whose content is text."""

from collections.abc import Callable

from fcshim.parse.machine.parts import StateGroup
from fcshim.parse.machine.state import State
from fcshim.parse.markers import END_TOKENS, MarkerSet
from fcshim.parse.scanner import MoreNeeded

_END_TOKENS = MarkerSet(END_TOKENS)


class CodeStates(StateGroup):
    """Reads runs of backticks or tildes; `fence_char` and `fence_length` describe the line that opened the fence."""

    fence_char = ""
    fence_length = 0

    def read_run(self, start: int, end: int, open_fence: Callable[[str, int], int]) -> int:
        """Read a run: part of the text, or the beginning of a fence line, which `open_fence` gets with its end."""
        buffer, line = self._cursor.buffer, self._output.line
        char, is_first = buffer[start], line.at_line_start()
        # A run behind its own character goes on with one that is longer than a fence line may be.
        is_whole = line.last_char != char and end - start <= self._limits.line
        if is_whole and end == len(buffer) and (is_first or char == "`"):
            raise MoreNeeded
        line_end = self._fence_line_end(start, 3) if is_whole and is_first else 0
        if line_end:
            return open_fence(buffer[start:line_end], line_end)
        self._output.emit_text(buffer[start:end])
        if is_whole and char == "`":
            line.add_backticks(end - start)
        return end

    def enter(self, line: str) -> None:
        """Record the fence that `line` opens."""
        self.fence_char, self.fence_length = line[0], len(line) - len(line.lstrip(line[0]))
        self._output.line.open_backticks.clear()

    def in_fence(self, pos: int) -> int:
        """Emit the content of a fence."""
        buffer = self._cursor.buffer
        start = buffer.find(self.fence_char, pos)
        if start != pos:
            end = start if start >= 0 else len(buffer)
            self._output.emit_text(buffer[pos:end])
            return end
        is_first = self._output.line.at_line_start()
        line_end = self._fence_line_end(pos, self.fence_length, closes=True) if is_first else 0
        end = line_end or self._run_end(pos)
        self._output.emit_text(buffer[pos:end])
        if line_end:
            self._cursor.state = State.IN_TEXT
        return end

    def opening_line_end(self, pos: int) -> int:
        """Return the end of the line at `pos` that opens a fence, or 0 if it is none. Raises `MoreNeeded`."""
        return self._fence_line_end(pos, 3) if self._cursor.buffer[pos] in "`~" else 0

    def closing_line_end(self, pos: int) -> int:
        """Return the end of the fence's closing line at `pos`, or 0 if it is none. Raises `MoreNeeded`."""
        end = self._run_end(pos)
        if end - pos >= self.fence_length and _END_TOKENS.read(self._cursor.buffer, end):
            return end  # the model ended its turn without a newline
        return self._fence_line_end(pos, self.fence_length, closes=True)

    def closes_at_end(self, tail: str) -> bool:
        """Return whether `tail`, with which the reply ends, is the fence's closing line."""
        return len(tail) >= self.fence_length and not tail.strip().strip(self.fence_char)

    def _run_end(self, pos: int) -> int:
        buffer, end = self._cursor.buffer, pos
        while end < len(buffer) and buffer[end] == buffer[pos]:
            end += 1
        return end

    def _fence_line_end(self, start: int, least: int, *, closes: bool = False) -> int:
        """Return the end of the fence line at `start`, with at least so many characters in its run, or 0."""
        buffer, limit, end = self._cursor.buffer, self._limits.line, self._run_end(start)
        if end == len(buffer) and end - start <= limit:
            raise MoreNeeded
        newline = buffer.find("\n", end, start + limit)
        info = buffer[end : newline if newline >= 0 else start + limit]
        # CommonMark: the info string of a fence of backticks contains no backtick, else the run opens a code span.
        is_line = not info.strip() if closes else buffer[start] == "~" or "`" not in info
        if end - start < least or not is_line:
            return 0
        if newline < 0 and len(buffer) - start < limit:
            raise MoreNeeded
        return newline + 1
