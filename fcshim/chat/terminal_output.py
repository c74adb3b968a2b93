"""Writes to the terminal: whole lines, pieces of a line, transient lines, the model's text as Markdown.

Rule: every text goes through `sanitize`; only a transient line, such as progress, is ever erased.
"""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text as Styled

from fcshim.sanitize import sanitize, sanitize_line

if TYPE_CHECKING:
    from fcshim.chat.markdown import MarkdownStream

_CLEAR_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
_SMALLEST = (20, 5)
"""Columns and rows of the smallest terminal on which text is rendered."""


class TerminalOutput:
    """The output of one console, and what its current line is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line_open = False  # the current line is not ended
        self._transient = False  # the current line is replaced by the next output
        self._markdown: MarkdownStream | None = None  # the answer that is being shown
        self.shows_waiting = False
        """Whether the current line says that the model has not answered yet."""

    @property
    def is_terminal(self) -> bool:
        """Whether the output is a terminal, not a file or a pipe."""
        return self._console.is_terminal

    @property
    def can_replace(self) -> bool:
        """Whether a line can be replaced."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._console.width

    def write(self, text: str, style: str = "") -> None:
        """Write text after what the current line has."""
        if text:
            self._end_answer()
            self._clear_transient()
            self._console.print(Styled(sanitize(text), style), end="", soft_wrap=True)
            self._line_open = not text.endswith("\n")

    def write_line(self, text: str, style: str = "") -> None:
        """Write text on separate lines."""
        self.end_line()
        self.write(text, style)
        self.end_line()

    def write_wrapped(self, text: str, style: str) -> None:
        """Write a message on separate lines; on a terminal it is wrapped between words."""
        self.end_line()
        shown = Styled(sanitize(text), style, overflow="fold")
        self._console.print(shown, soft_wrap=not self._console.is_terminal)

    def write_answer(self, text: str) -> None:
        """Write a piece of the model's text: rendered where the terminal has colours, else as it is."""
        if not renders_markdown(self._console):
            self.write(text)
        elif text:
            self._clear_transient()
            if self._markdown is None:
                from fcshim.chat.markdown import MarkdownStream  # noqa: PLC0415 - slow, and not always needed

                self.end_line()
                self._markdown = MarkdownStream(self._console)
            self._markdown.write(sanitize(text))

    def write_transient(self, text: str, *, waiting: bool = False) -> None:
        """Write a line that the next output replaces; only on a terminal, so that it never ends up in a file."""
        if self._console.is_terminal:
            self.end_line()
            shown = sanitize_line(text)[: self._console.width - 1]
            self._console.print(Styled(shown, "dim"), end="")
            self._line_open = self._transient = True
            self.shows_waiting = waiting

    def replace_line(self, row: Styled) -> None:
        """Replace the current line, which stays open."""
        self._clear_transient()
        self._console.control(_CLEAR_LINE)
        self._console.print(row, end="", no_wrap=True)
        self._line_open = True

    def end_line(self) -> None:
        """Begin a new line, unless nothing stands on the current one."""
        self._end_answer()
        self._clear_transient()
        if self._line_open:
            self._console.print()
            self._line_open = False

    def _end_answer(self) -> None:
        if self._markdown is not None:
            self._markdown.end()
            self._markdown = None

    def _clear_transient(self) -> None:
        if self._transient:
            self._console.control(_CLEAR_LINE)
            self._line_open = self._transient = self.shows_waiting = False


def renders_markdown(console: Console) -> bool:
    """Return whether text is rendered: on a large enough terminal that can move the cursor and has colours."""
    has_room = console.width >= _SMALLEST[0] and console.height >= _SMALLEST[1]
    return console.is_terminal and has_room and not console.is_dumb_terminal and not console.no_color
