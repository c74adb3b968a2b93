"""What a dialect is: one text format in which models write calls, as data.

Rule: a marker is written in its row and nowhere else; grammars, templates and parsers receive it from there.
Neighbours: `dialects` is the table of rows, `stream` reads a dialect's calls, `prompt` asks for them.
"""

from dataclasses import dataclass
from typing import Protocol

from fcshim.parse.body import BodyReader
from fcshim.parse.limits import Limits
from fcshim.parse.markers import MarkerSet, marker_set
from fcshim.parse.sink import CallSink


class Body(Protocol):
    """The language in which a dialect's calls are written: data, that knows the reader for it."""

    @property
    def grammar(self) -> str:
        """Name the file under `grammars/` that says what such a body may look like."""

    def begins(self, text: str, pos: int) -> bool | None:
        """Say whether a body can begin at `text[pos:]`, behind an opening marker; None while that is not known yet.

        Asked where dialects share an opening marker. It looks at a bounded number of characters.
        """

    def reader(self, dialect: "Dialect", start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Make the reader of the one body that `opener` opened."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One format: its markers, and the language of its bodies.

    `open` and `close` surround one call as it is asked for; either may be empty. `result_open` (an unfinished tag,
    attributes may follow) and `result_close` surround a tool's result; both are empty where a dialect has no such tags.
    """

    name: str
    summary: str
    open: str
    close: str
    body: Body
    result_open: str = ""
    result_close: str = ""
    opens: tuple[str, ...] = ()
    """Other spellings of `open` that are read; one that begins with a line end counts at the start of a line."""
    closes: tuple[str, ...] = ()
    """Other markers that end a call just as well."""
    section_open: str = ""
    """What surrounds all calls of a turn, where a dialect has it. Calls are read without it, too."""
    section_close: str = ""
    section_opens: tuple[str, ...] = ()
    """Other spellings of `section_open` that are read."""
    quote: str = ""
    """The token before and behind a string, where a dialect has one of its own."""
    starts: str = ""
    """Characters (of `[{`) with which a body begins at the start of a line, where no marker opens it."""
    at_line_start: bool = False
    """True where `open` is a common word (`Action:`): it counts only at the very start of a line."""
    markup: tuple[str, ...] = ()
    """Tokens of the format that are neither text nor calls, and are dropped (turn ends, channel headers)."""
    waits: str = ""
    """What of a call is not streamed as it is written, and why; empty where all of it is."""
    templates: str = ""
    """The folder under `templates/` that asks for this dialect; by default the one of its name."""

    @property
    def bare(self) -> bool:
        """True where a call is easily mistaken for text.

        Under `rescue` and `auto` it counts only when nothing but calls follows it in the reply: it is held until then.
        """
        return bool(self.starts) or self.at_line_start or self.fenced

    @property
    def fenced(self) -> bool:
        """True where the line that opens a code fence opens a call."""
        return self.open.startswith("`")

    @property
    def closes_bodies(self) -> bool:
        """True where a marker ends a body."""
        return bool(self.close)

    def openers(self) -> tuple[str, ...]:
        """Give every marker that opens a call."""
        return tuple(filter(None, (self.open, *self.opens)))

    def closers(self) -> tuple[str, ...]:
        """Give every marker that ends a body."""
        return tuple(filter(None, (self.close, *self.closes, self.section_close)))

    def section_openers(self) -> tuple[str, ...]:
        """Give every marker that opens a section of calls."""
        return tuple(filter(None, (self.section_open, *self.section_opens)))

    def inner_openers(self) -> tuple[str, ...]:
        """Give every marker that opens a call wherever it stands, not only as a line or at the start of one."""
        return () if self.at_line_start or self.fenced else self.openers()

    def call_markers(self) -> tuple[str, ...]:
        """Give every marker that opens a call or ends a body, wherever it stands."""
        return (*self.inner_openers(), *self.closers())

    def body_markers(self) -> MarkerSet:
        """Give the same, to be searched."""
        return marker_set(self.call_markers())
