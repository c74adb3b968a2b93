"""Repaints the last rows of a terminal's output while they change.

Rule: only the cells that differ are painted again. Rows that have scrolled away cannot be changed: new rows that would
differ there are not shown.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile

from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments

_ERASE_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)).segment


class LiveRows:
    """The last rows of a console; nothing else writes to it until `finish` or `leave`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: list[list[Segment]] = []
        self._width = 0

    @property
    def open(self) -> bool:
        """Whether the last row is not ended."""
        return bool(self._rows)

    @property
    def width(self) -> int:
        """The columns of a row. The last one stays free, where terminals differ."""
        return max(self._console.width - 1, 2)

    @property
    def count(self) -> int:
        """How many rows are shown."""
        return len(self._rows)

    def render(self, *parts: RenderableType) -> list[list[Segment]]:
        """Return the rows of these renderables."""
        options = self._console.options.update(width=self.width)
        return [row for part in parts for row in self._console.render_lines(part, options, pad=False)]

    def show(self, new: list[list[Segment]]) -> bool:
        """Replace the rows that are shown; return false, and change nothing, if those have scrolled away."""
        if self._rows and self._width != self.width:
            self.leave()  # the terminal was resized, so the positions of the rows are unknown
        self._width = self.width
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._rows, new, strict=False)))
        painted = same == max(len(new), len(self._rows)) or self._repaint(new, same)
        self._rows = new if painted else self._rows
        return painted

    def finish(self, *parts: RenderableType) -> bool:
        """Show the final rows, so that the next ones begin on a new line; return false as `show` does."""
        painted = self.show(self.render(*parts))
        if painted:
            self.leave()
        return painted

    def leave(self) -> None:
        """Keep what is shown; the next rows begin on a new line."""
        if self._rows:
            self._console.print()
        self._rows = []

    def release(self) -> None:
        """Keep what is shown; other output continues the last row."""
        self._rows = []

    def _repaint(self, new: Sequence[list[Segment]], same: int) -> bool:
        """Paint `new` from the first row that differs, if it is still there; the cursor stays at the end."""
        count = len(self._rows)
        if count and same == count - 1 and (tail := _appended(self._rows[-1], new[same:])) is not None:
            self._print([*tail, *_below(new[count:])])
        elif same == count:
            self._print(_below(new[same:])[0 if count else 1 :])
        else:
            first = min(same, len(new) - 1)
            if first < count - self._console.height + 1:
                return False
            above = count - 1 - first
            up = [Control((ControlType.CURSOR_UP, above)).segment] if above > 0 else []
            erased = _below([[_ERASE_LINE]] * (count - first))[1:]
            self._print([*up, *erased, *up, *_below(new[first:])[1:]])
        return True

    def _print(self, segments: Sequence[Segment]) -> None:
        self._console.print(Segments(segments), end="", soft_wrap=True)


def _below(rows: Iterable[Sequence[Segment]]) -> list[Segment]:
    """Return the segments of rows, each after a line feed."""
    return [segment for row in rows for segment in (Segment.line(), *row)]


def _appended(old: Sequence[Segment], new: Sequence[Sequence[Segment]]) -> list[Segment] | None:
    """Return the text appended to a row; None if the row changed in another way."""
    if not new or not old or len(new[0]) < len(old) or list(old[:-1]) != list(new[0][: len(old) - 1]):
        return None
    end, grown = old[-1], new[0][len(old) - 1]
    if end.style != grown.style or not grown.text.startswith(end.text):
        return None
    return [Segment(grown.text[len(end.text) :], grown.style), *new[0][len(old) :]]
