"""The type of a dialect: one text format in which models write calls, as data.

Rule: grammars, templates, parsers and the escaping of prompts take a marker from its dialect.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from fcshim.parse.body import BodyReader
from fcshim.parse.limits import Limits
from fcshim.parse.markers import EndMarkers, MarkerSet, compile_end_markers, marker_set
from fcshim.parse.sink import CallSink


class Body(Protocol):
    """The syntax of a dialect's calls: data, and the factory of the reader for it."""

    def __hash__(self) -> int:
        """Return the hash of a value: what is made of a dialect is cached."""

    @property
    def grammar(self) -> str:
        """Name of the file under `grammars/` that defines the syntax, without its extension."""

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether a body can begin at `text[pos:]`, after a start marker; None if more text is needed to decide.

        Needed where several dialects share a start marker. It looks at a bounded number of characters.
        """

    def reader(self, dialect: "Dialect", start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body, which `start_marker` opened."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One format: its markers, and the syntax of its bodies.

    `open` and `close` surround one call as the prompt requests it; either may be empty. `result_open` (an unfinished
    tag, attributes may follow) and `result_close` surround a tool's result; both are empty if the dialect has no such
    tags.
    """

    name: str
    summary: str
    open: str
    close: str
    body: Body
    result_open: str = ""
    result_close: str = ""
    result_opens: tuple[str, ...] = ()
    """Further spellings of `result_open` to recognise."""
    opens: tuple[str, ...] = ()
    """Further start markers to accept; one that begins with a newline counts only at the start of a line."""
    words: tuple[str, ...] = ()
    """Common words to accept as start markers at the start of a line; for other dialects only calls may follow."""
    closes: tuple[str, ...] = ()
    """Further end markers to accept."""
    section_open: str = ""
    """Surrounds all calls of a turn, if the dialect has such a section. Calls outside a section are accepted too."""
    section_close: str = ""
    section_opens: tuple[str, ...] = ()
    """Further spellings of `section_open` to accept."""
    section_closes: tuple[str, ...] = ()
    """Further spellings of `section_close` to accept."""
    quote: str = ""
    """The token before and after a string, if the dialect has its own."""
    starts: str = ""
    """The characters (of `[{`) with which a body without a start marker begins, at the start of a line."""
    at_line_start: bool = False
    """True if `open` is a common word (`Action:`): it counts only at the very start of a line."""
    prompt_opens: bool = False
    """True if a reply may begin after `open`, with which the prompt ended or which the model left out: the name of an
    offered tool on the first line then begins a call."""
    calls_only: bool = False
    """True if no text may stand between a call and its end marker."""
    markup: tuple[str, ...] = ()
    """Tokens of the format that are neither text nor calls, and are dropped (turn ends, channel headers)."""
    answer_headers: tuple[str, ...] = ()
    """Those of them that begin the answer to the user: a call without tags in it is text."""
    reasoning: tuple[tuple[str, str], ...] = ()
    """Reasoning tags, opening and closing, beside those that are always known."""
    waits: str = ""
    """The parts of a call that do not stream while the model writes them, and why; empty if all of it streams."""
    templates: str = ""
    """The folder under `templates/` with the prompts for this dialect; by default the folder with its name."""

    tool_markers: tuple[str, ...] = ()
    """Start markers with `{}` for the name of an offered tool (`<{}>`); `for_tools` adds them."""

    def __hash__(self) -> int:
        """Return a hash of what differs between dialects: a request looks its dialect up some hundred times."""
        return hash((self.name, self.opens))

    def for_tools(self, names: Iterable[str]) -> "Dialect":
        """Return the dialect with the start markers that have the names of the offered tools."""
        if not self.tool_markers:
            return self
        opens = dict.fromkeys(marker.format(name) for name in names for marker in self.tool_markers)
        return replace(self, opens=tuple(opens))

    @property
    def escapes_tool_markers(self) -> bool:
        """True if a prompt escapes the markers with tools' names: not where a name alone is one, a common word."""
        return bool(self.tool_markers) and "{}" not in self.tool_markers

    @property
    def bare(self) -> bool:
        """True if a call is easily mistaken for text.

        Under `rescue` and `auto` such a call stays pending, and counts only if nothing but calls follows it in the
        reply.
        """
        return bool(self.starts) or self.at_line_start or self.fenced

    @property
    def fenced(self) -> bool:
        """True if the opening line of a code fence is the start marker."""
        return self.open.startswith("`")

    @property
    def closes_bodies(self) -> bool:
        """True if a marker ends a body."""
        return bool(self.close)

    def openers(self) -> tuple[str, ...]:
        """Return every start marker of a call."""
        return tuple(filter(None, (self.open, *self.opens)))

    def closers(self) -> tuple[str, ...]:
        """Return every end marker of a body."""
        return tuple(filter(None, (self.close, *self.closes, *self.section_closers())))

    def section_openers(self) -> tuple[str, ...]:
        """Return every start marker of a section of calls."""
        return tuple(filter(None, (self.section_open, *self.section_opens)))

    def section_closers(self) -> tuple[str, ...]:
        """Return every end marker of a section of calls."""
        return tuple(filter(None, (self.section_close, *self.section_closes)))

    def inner_openers(self) -> tuple[str, ...]:
        """Return every start marker of a call that counts anywhere, not only as a line or at the start of one."""
        return () if self.at_line_start or self.fenced else self.openers()

    def body_openers(self) -> tuple[str, ...]:
        """Return every start marker of a call that may end a body without an end marker."""
        return tuple(f"\n{marker}" for marker in self.openers()) if self.at_line_start else self.inner_openers()

    def call_markers(self) -> tuple[str, ...]:
        """Return every marker that opens a call or ends a body, and counts anywhere."""
        return (*self.inner_openers(), *self.closers())


@functools.lru_cache(maxsize=256)
def compiled_closers(dialect: Dialect) -> EndMarkers:
    """Return the dialect's `closers` as a compiled set (cached: each body needs it)."""
    return compile_end_markers(dialect.closers())


@functools.lru_cache(maxsize=256)
def compiled_call_markers(dialect: Dialect) -> MarkerSet:
    """Return the dialect's `call_markers` as a compiled set (cached: each body needs it)."""
    return marker_set(dialect.call_markers())
