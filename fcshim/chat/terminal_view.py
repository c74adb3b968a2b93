"""Renders a turn: text as it arrives, calls while they are written, results folded, and at last its figures.

Rule: a long call takes one row, before and after its end; `/call` and the question before it show it whole.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Styled

from fcshim.agent import RoundEnded
from fcshim.chat.call_markup import MarkupSetAside
from fcshim.chat.conversation import ChatEvent
from fcshim.chat.question import Row, describe_arguments, read_object
from fcshim.chat.terminal_output import TerminalOutput
from fcshim.codecs.prompt_progress import PromptProgress
from fcshim.events import (
    JSON,
    Error,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    total_usage,
)
from fcshim.messages import MediaPart, ToolMessage
from fcshim.sanitize import sanitize_line
from fcshim.tools import CallFinished, CallProgressed, CallStarted, ToolProgress

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
        self.output = TerminalOutput(console)
        self._show_text = show_text
        self._round_calls = 0  # in this round
        self._set_aside = False  # in this round
        self._call: CallRow | None = None  # the call that arrives
        self._streaming = False  # the text or the call that is being written has not ended
        self._reports: list[tuple[str, str]] = []  # texts and styles that wait for its end

    def show(self, event: ChatEvent) -> None:
        """Show one event."""
        if isinstance(event, Usage):  # some servers send it with each piece
            return
        self._streaming = isinstance(event, Text | Reasoning | ToolCallStart | ToolCallChunk)
        self._write(event)
        if not self._streaming:
            self._show_reports()

    def show_waiting(self) -> None:
        """Show a transient sign that the model has not answered yet."""
        self.output.write_transient("⋯", waiting=True)

    def update_waiting(self, figures: str) -> None:
        """Add figures to the sign that the model has not answered yet, if it is what the terminal shows."""
        if self.output.shows_waiting:
            self.output.write_transient(f"⋯ {figures}", waiting=True)

    def end_turn(self) -> None:
        """End the turn: the next output begins on a new line."""
        self._set_aside = self._streaming = False
        self._call = None
        self.output.end_line()
        self._show_reports()

    def report(self, text: str, *, failed: bool) -> None:
        """Print a report about something else than the turn, once the text or the call being written has ended."""
        self._reports.append((text, "red" if failed else "dim"))
        if not self._streaming:
            self._show_reports()

    def note(self, text: str) -> None:
        """Print a note of fcshim."""
        self.output.write_wrapped(text, "dim")

    def error(self, text: str) -> None:
        """Print an error message."""
        self.output.write_wrapped(text, "red")

    def write_line(self, text: str) -> None:
        """Print text of fcshim on separate lines."""
        self.output.write_line(text)

    def write_rows(self, rows: Iterable[Row]) -> None:
        """Print rows that fit the terminal, one per line."""
        for row in rows:
            self.output.write_line(row.text, row.style)

    def show_full_result(self, number: int) -> None:
        """Print a whole result, by its number from 1."""
        for part in self.results[number - 1].content:
            self.output.write_line(f"[{part.media_type}]" if isinstance(part, MediaPart) else part.text)

    def show_full_call(self, number: int) -> None:
        """Print a whole call, by its number from 1, with every character shown or named."""
        call = self.calls[number - 1]
        self.write_rows(describe_arguments(call.tool_call_name, call.tool_call_arguments_complete, self.output.width))

    def _write(self, event: ChatEvent) -> None:
        match event:
            case Text():
                self.output.write_answer(event.text if self._show_text else "")
            case Reasoning():
                self.output.write(event.text, "dim italic")
            case ToolCallStart() | ToolCallChunk() | ToolCallEnd():
                self._show_call(event)
            case CallProgressed():
                self._show_progress(event.progress)
            case CallFinished():
                self._show_result(event.message)
            case CallStarted():
                self.output.write_transient(f"  ⋯ {event.call.tool_call_name}")
            case MarkupSetAside():
                self._set_aside = True
            case RoundEnded():
                self._end_round(event)
            case Usage() | Stop() | Error():
                pass

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
            self.output.write_line(event.answer)  # a tool's final result, which was not streamed

    def _show_call(self, event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> None:
        match event:
            case ToolCallStart():
                self._round_calls += 1
                self.output.end_line()
                self._begin_call(event.tool_call_name)
            case ToolCallChunk():
                self._show_arguments(event.tool_call_arguments_chunk)
            case ToolCallEnd():
                self._end_call(event)

    def _begin_call(self, name: str) -> None:
        """Begin the row of a call; a pipe or file gets the whole call, since it has no `/call`."""
        folds = self._show_text and self.output.can_replace
        self._call = CallRow(name, self.output.width) if folds else None
        if self._call is not None and not self._call.fits:
            self.output.replace_line(self._call.growing())
        else:
            self.output.write("● ", "cyan")
            self.output.write(name + " ", "bold")

    def _show_arguments(self, chunk: str) -> None:
        if self._call is not None:
            self._call.add(chunk)
        if self._call is None or self._call.fits:
            self.output.write(chunk, "dim")
        else:
            self.output.replace_line(self._call.growing())

    def _end_call(self, event: ToolCallEnd) -> None:
        self.calls.append(event)
        if self._call is not None and not self._call.fits:
            hint = f"/call {len(self.calls)}"
            self.output.replace_line(self._call.ended(event.tool_call_arguments_complete, hint))
        if event.error is not None:
            self.output.write(f" {event.error.kind}, so it does not run: {event.error.message}", "red")
        self.output.end_line()
        self._call = None

    def _show_reports(self) -> None:
        reports, self._reports = self._reports, []
        for text, style in reports:
            self.output.write_wrapped(text, style)

    def _show_progress(self, progress: ToolProgress) -> None:
        total = "" if progress.total is None else f"/{progress.total:g}"
        self.output.write_transient(f"  ⋯ {progress.done:g}{total} {progress.message}")

    def _show_result(self, message: ToolMessage) -> None:
        self.results.append(message)
        self.output.end_line()
        lines: list[str] = []
        for part in message.content:
            shown = f"[{part.media_type}]" if isinstance(part, MediaPart) else part.text.rstrip("\n")
            lines += shown.split("\n")
        style = "red" if message.is_error else "green"
        for number, line in enumerate(lines[:FOLDED_LINES] or ["(no output)"]):
            self.output.write("  ⎿ " if not number else "    ", style)
            if self._round_calls > 1 and not number:  # several calls: say which one
                self.output.write(f"{message.name}: ", style)
            self.output.write(line[:_LINE_LIMIT] + ("…" if len(line) > _LINE_LIMIT else ""), "dim")
            self.output.end_line()
        if len(lines) > FOLDED_LINES or any(len(line) > _LINE_LIMIT for line in lines):
            more = len(lines) - FOLDED_LINES
            hidden = count_of(more, "more line") if more > 0 else "the rest"
            self.note(f"    … {hidden}: /result {len(self.results)}")


_VALUE_SIZE = 40
"""Characters of each long value in the row of a whole call: the other arguments have room beside it."""
_HEAD_SIZE = 1_000
"""Characters of the arguments that are kept while they arrive: more than a row, and usually with the path."""
_PATH_KEYS = ("path", "file_path", "notebook_path")
_PATH = re.compile(rf'"(?:{"|".join(_PATH_KEYS)})"\s*:\s*("(?:[^"\\]|\\.)*")')


class CallRow:
    """The row of a call whose arguments arrive; `add` takes them."""

    def __init__(self, name: str, width: int) -> None:
        self._name = name
        self._width = width
        self._head = ""
        self._size = 0

    def add(self, chunk: str) -> None:
        """Take some more arguments; only their beginning is kept."""
        self._size += len(chunk)
        if len(self._head) < _HEAD_SIZE:
            self._head += chunk

    @property
    def fits(self) -> bool:
        """Whether the arguments so far fit in one row."""
        row = f"● {self._name} {self._head}"
        return self._size < self._width and "\n" not in row and cell_len(sanitize_line(row)) < self._width

    def growing(self) -> Styled:
        """Return the row of the arguments so far: the path once it is known, else the beginning."""
        found = _PATH.search(self._head)
        path = found and read_object(f'{{"path": {found[1]}}}')
        return self._row(path["path"] if path else self._head, f"… {self._size:,} characters")

    def ended(self, arguments: str, hint: str) -> Styled:
        """Return the row of a whole call; `hint` says how to show all of it."""
        return self._row(_summary(arguments), f" {len(arguments):,} characters: {hint}")

    def _row(self, about: str, size: str) -> Styled:
        """Return a row that fits, with the size at its end."""
        row = Styled.assemble(("● ", "cyan"), (sanitize_line(self._name), "bold"), (f" {sanitize_line(about)}", "dim"))
        row.truncate(max(self._width - cell_len(size) - 1, 2), overflow="crop" if size[0] == "…" else "ellipsis")
        return row.append(size, "dim")


def _summary(arguments: str) -> str:
    """Return the path that a whole call names, else its arguments with each long value shortened."""
    values = read_object(arguments)
    if values is None:
        return arguments  # of a call with an error
    paths = (value for name in _PATH_KEYS if isinstance(value := values.get(name), str))
    return next(paths, None) or f"{{{', '.join(_members(values))}}}"


def _members(values: Mapping[str, JSON]) -> Iterator[str]:
    for name, value in values.items():
        text = json.dumps(value, ensure_ascii=False)
        cut = text if len(text) <= _VALUE_SIZE else f"{text[:_VALUE_SIZE]}…"
        yield f"{json.dumps(name, ensure_ascii=False)}: {cut}"


_MIN_SECONDS = 0.1
"""Seconds of the model's work from which a speed is shown."""


class TurnFigures:
    """Measures a turn: tokens in and out, time, speed, and how much of the model's context is in use.

    Token counts come from the upstream only. Time spent on questions to the user is excluded. The speed is that of the
    whole reply, from the request to its end: the text of a call may come in one piece. `clock` is in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = self._round_began = clock()
        self._asked = 0.0  # seconds in which the user was asked
        self._asked_in_round = 0.0
        self._worked = 0.0  # seconds from requests to the ends of their replies
        self._usages: list[Usage] = []
        self._usage: Usage | None = None  # of this reply: an upstream may correct it until the reply's end

    def count(self, event: ChatEvent) -> None:
        """Count an event."""
        match event:
            case Usage():
                self._usage = event
            case Stop():
                self._worked += self._clock() - self._round_began - self._asked_in_round
            case RoundEnded():
                self._round_began, self._asked_in_round = self._clock(), 0.0
                if self._usage is not None:
                    self._usages.append(self._usage)
                    self._usage = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time of this block."""
        began = self._clock()
        try:
            yield
        finally:
            seconds = self._clock() - began
            self._asked += seconds
            self._asked_in_round += seconds

    def waiting_line(self, progress: PromptProgress | None, prompt_tokens: int) -> str:
        """Return what is known while nothing of the reply has come: the server's progress, or time and size.

        `prompt_tokens` is an estimate; 0 if the prompt is not written yet.
        """
        if progress is not None and progress.processed < progress.total:
            return str(progress)
        seconds = f"{self._clock() - self._round_began:.0f} s"
        return f"{seconds}, about {prompt_tokens:,} tokens in the prompt" if prompt_tokens else seconds

    def line(self, context_length: int = 0) -> str:
        """Return the figures in one line.

        `1,204 tokens in, 86 out, 3.2 s, 27 tokens/s, 1,290 of 8,192 in the context`; `context_length` 0: not known.
        """
        seconds = f"{self._clock() - self._started - self._asked:.1f} s"
        usage = total_usage(self._usages)
        if usage is None or not usage.input_tokens + usage.output_tokens:
            return seconds
        figures = [f"{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out", seconds]
        if self._worked >= _MIN_SECONDS:
            figures.append(f"{usage.output_tokens / self._worked:.0f} tokens/s")
        last = self._usages[-1]
        used, limit = last.input_tokens + last.output_tokens, f" of {context_length:,}" if context_length else ""
        return ", ".join([*figures, f"{used:,}{limit} in the context"])
