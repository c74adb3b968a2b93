"""Renders a turn: text as it arrives, calls while they are written, results folded.

Rule: text from outside always goes through `sanitize`; only a transient line, such as progress, is ever erased.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text as Styled

from fcshim.agent import RoundEnded
from fcshim.chat.call_markup import MarkupSetAside
from fcshim.chat.call_row import CallRow
from fcshim.chat.conversation import ChatEvent
from fcshim.chat.question import Row, describe_arguments
from fcshim.events import Error, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import MediaPart, ToolMessage
from fcshim.sanitize import sanitize, sanitize_line
from fcshim.tools import CallFinished, CallProgressed, CallStarted, ToolProgress

if TYPE_CHECKING:
    from fcshim.chat.markdown import MarkdownStream

_CLEAR_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
_SMALLEST = (20, 5)
"""Columns and rows of the smallest terminal on which text is rendered."""
FOLDED_LINES = 4
"""Lines of a result that are shown at first."""
_LINE_LIMIT = 200
"""Characters of one such line."""


def count_of(count: int, noun: str) -> str:
    """Return `no tools`, `1 tool`, `2 tools`."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


_CUT_OFF = {
    "max_tokens": "The reply was cut off at the limit of tokens: `go on` continues it; /compact helps a full context.",
    "content_filter": "The endpoint's content filter cut the reply off: ask in other words.",
}


class TerminalView:
    """Renders to one console; with `show_text` false the caller prints the model's text."""

    def __init__(self, console: Console, *, show_text: bool = True) -> None:
        self.results: list[ToolMessage] = []
        """Every result so far, for `show_full_result`."""
        self.calls: list[ToolCallEnd] = []
        """Every call so far, for `show_full_call`."""
        self._console = console
        self._show_text = show_text
        self._line_open = False  # the current line is not ended
        self._round_calls = 0  # in this round
        self._waiting = False  # that line says that the model has not answered yet
        self._transient = False  # the current line is replaced by the next output
        self._set_aside = False  # in this round
        self._markdown: MarkdownStream | None = None  # the text that is being shown
        self._call: CallRow | None = None  # the call that arrives
        self._reports: list[tuple[str, str]] = []  # texts and styles that wait for the end of its row

    def show(self, event: ChatEvent) -> None:
        """Show one event."""
        match event:
            case Text():
                self._show_answer(event.text if self._show_text else "")
            case Reasoning():
                self._print(event.text, "dim italic")
            case ToolCallStart() | ToolCallChunk() | ToolCallEnd():
                self._show_call(event)
            case CallProgressed():
                self._show_progress(event.progress)
            case CallFinished():
                self._show_result(event.message)
            case CallStarted():
                self._show_transient(f"  ⋯ {event.call.tool_call_name}")
            case MarkupSetAside():
                self._set_aside = True
            case RoundEnded():
                self._end_round(event)
            case Usage() | Stop() | Error():
                pass

    def show_waiting(self) -> None:
        """Show a transient sign that the model has not answered yet."""
        self._show_transient("⋯")
        self._waiting = self._transient

    def update_waiting(self, figures: str) -> None:
        """Add figures to the sign that the model has not answered yet, if it is what the terminal shows."""
        if self._waiting:
            self._show_transient(f"⋯ {figures}")
            self._waiting = True

    def end_turn(self) -> None:
        """End the turn: the next output begins on a new line."""
        self._set_aside = False
        self._end_line()
        self._end_row()

    def report(self, text: str, *, failed: bool) -> None:
        """Print a report about something else than the turn; the row of a call is not broken by it."""
        self._reports.append((text, "red" if failed else "dim"))
        if self._call is None:
            self._end_row()

    def note(self, text: str) -> None:
        """Print a note of fcshim."""
        self._print_wrapped(text, "dim")

    def error(self, text: str) -> None:
        """Print an error message."""
        self._print_wrapped(text, "red")

    def write_line(self, text: str) -> None:
        """Print text of fcshim on separate lines."""
        self._print_line(text)

    @property
    def is_terminal(self) -> bool:
        """Whether the output is a terminal, not a file or a pipe."""
        return self._console.is_terminal

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return self._console.width

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Print rows that fit the terminal, one per line."""
        for row in rows:
            self._print_line(row.text, row.style)

    def show_full_result(self, number: int) -> None:
        """Print a whole result, by its number from 1."""
        for part in self.results[number - 1].content:
            self._print_line(f"[{part.media_type}]" if isinstance(part, MediaPart) else part.text)

    def show_full_call(self, number: int) -> None:
        """Print a whole call, by its number from 1, with every character shown or named."""
        call = self.calls[number - 1]
        self.write_rows(describe_arguments(call.tool_call_name, call.tool_call_arguments_complete, self.width))

    def _print_wrapped(self, text: str, style: str) -> None:
        """Print a message on separate lines; on a terminal it is wrapped between words."""
        self._end_line()
        shown = Styled(sanitize(text), style, overflow="fold")
        self._console.print(shown, soft_wrap=not self._console.is_terminal)

    def _end_round(self, event: RoundEnded) -> None:
        self._round_calls = 0
        if self._set_aside and event.answer is None:
            self.note("A part of the reply was a call that cannot run; the others ran. /raw shows it.")
        if event.answer is not None and event.reply.stop_reason in _CUT_OFF and not self._set_aside:
            self.note(_CUT_OFF[event.reply.stop_reason])
        self._set_aside = False
        if event.answer is None:
            self.show_waiting()
        elif event.answer != event.reply.text and self._show_text:
            self._print_line(event.answer)  # a tool's final result, which was not streamed

    def _show_answer(self, text: str) -> None:
        """Show a piece of the model's text: rendered where the terminal has colours, else as it is."""
        if not renders_markdown(self._console):
            self._print(text)
        elif text:
            self._clear_transient()
            if self._markdown is None:
                from fcshim.chat.markdown import MarkdownStream  # noqa: PLC0415 - slow, and not always needed

                self._end_line()
                self._markdown = MarkdownStream(self._console)
            self._markdown.write(sanitize(text))

    def _end_answer(self) -> None:
        if self._markdown is not None:
            self._markdown.end()
            self._markdown = None

    def _show_call(self, event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> None:
        match event:
            case ToolCallStart():
                self._round_calls += 1
                self._end_line()
                self._begin_call(event.tool_call_name)
            case ToolCallChunk():
                self._show_arguments(event.tool_call_arguments_chunk)
            case ToolCallEnd():
                self._end_call(event)

    def _begin_call(self, name: str) -> None:
        """Begin the row of a call; a pipe or file gets the whole call, since it has no `/call`."""
        folds = self._show_text and self._console.is_terminal and not self._console.is_dumb_terminal
        self._call = CallRow(name, self.width) if folds else None
        if self._call is not None and not self._call.fits:
            self._show_call_row(self._call.growing())
        else:
            self._print("● ", "cyan")
            self._print(name + " ", "bold")

    def _show_arguments(self, chunk: str) -> None:
        if self._call is not None:
            self._call.add(chunk)
        if self._call is None or self._call.fits:
            self._print(chunk, "dim")
        else:
            self._show_call_row(self._call.growing())

    def _end_call(self, event: ToolCallEnd) -> None:
        self.calls.append(event)
        if self._call is not None and not self._call.fits:
            hint = f"/call {len(self.calls)}"
            self._show_call_row(self._call.ended(event.tool_call_arguments_complete, hint))
        if event.error is not None:
            self._print(f" {event.error.kind}, so it does not run: {event.error.message}", "red")
        self._end_line()
        self._end_row()

    def _end_row(self) -> None:
        self._call = None
        reports, self._reports = self._reports, []
        for text, style in reports:
            self._print_wrapped(text, style)

    def _show_call_row(self, row: Styled) -> None:
        """Replace the row of the call; the last one stays on the screen."""
        self._clear_transient()
        self._console.control(_CLEAR_LINE)
        self._console.print(row, end="", no_wrap=True)
        self._line_open = True

    def _show_progress(self, progress: ToolProgress) -> None:
        total = "" if progress.total is None else f"/{progress.total:g}"
        self._show_transient(f"  ⋯ {progress.done:g}{total} {progress.message}")

    def _show_result(self, message: ToolMessage) -> None:
        self.results.append(message)
        self._end_line()
        lines = [line for part in message.content for line in _part_lines(part)]
        style = "red" if message.is_error else "green"
        for number, line in enumerate(lines[:FOLDED_LINES] or ["(no output)"]):
            self._print("  ⎿ " if not number else "    ", style)
            if self._round_calls > 1 and not number:  # several calls: say which one
                self._print(f"{message.name}: ", style)
            self._print(line[:_LINE_LIMIT] + ("…" if len(line) > _LINE_LIMIT else ""), "dim")
            self._end_line()
        if len(lines) > FOLDED_LINES or any(len(line) > _LINE_LIMIT for line in lines):
            more = len(lines) - FOLDED_LINES
            hidden = count_of(more, "more line") if more > 0 else "the rest"
            self.note(f"    … {hidden}: /result {len(self.results)}")

    def _show_transient(self, text: str) -> None:
        """Show a line that the next output replaces; only on a terminal, so that it never ends up in a file."""
        if self._console.is_terminal:
            self._end_line()
            shown = sanitize_line(text)[: self._console.width - 1]
            self._console.print(Styled(shown, "dim"), end="")
            self._line_open = self._transient = True

    def _print_line(self, text: str, style: str = "") -> None:
        self._end_line()
        self._print(text, style)
        self._end_line()

    def _print(self, text: str, style: str = "") -> None:
        if text:
            self._end_answer()
            self._clear_transient()
            shown = Styled(sanitize(text), style)
            self._console.print(shown, end="", soft_wrap=True)
            self._line_open = not text.endswith("\n")

    def _end_line(self) -> None:
        self._end_answer()
        self._clear_transient()
        if self._line_open:
            self._console.print()
            self._line_open = False

    def _clear_transient(self) -> None:
        """Erase the transient line."""
        if self._transient:
            self._console.control(_CLEAR_LINE)
            self._line_open = self._transient = self._waiting = False


def renders_markdown(console: Console) -> bool:
    """Return whether text is rendered: on a large enough terminal that can move the cursor and has colours."""
    has_room = console.width >= _SMALLEST[0] and console.height >= _SMALLEST[1]
    return console.is_terminal and has_room and not console.is_dumb_terminal and not console.no_color


def _part_lines(part: object) -> list[str]:
    if isinstance(part, MediaPart):
        return [f"[{part.media_type}]"]
    text: str = getattr(part, "text", "")
    return text.rstrip("\n").split("\n")
