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
class Markers:
    """The markers around something, as the prompt writes them, with the further spellings to recognise."""

    open: str = ""
    close: str = ""
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()

    def openers(self) -> tuple[str, ...]:
        """Return every start marker."""
        return tuple(filter(None, (self.open, *self.opens)))

    def closers(self) -> tuple[str, ...]:
        """Return every end marker."""
        return tuple(filter(None, (self.close, *self.closes)))


@dataclass(frozen=True, slots=True)
class CallMarkers(Markers):
    """The markers around one call; of `opens`, one that begins with a newline counts only at the start of a line."""

    words: tuple[str, ...] = ()
    """Common words to accept as start markers at the start of a line; for other dialects only calls may follow."""
    names: tuple[str, ...] = ()
    """Start markers with `{}` for the name of an offered tool (`<{}>`); `Dialect.for_tools` adds them to `opens`."""
    starts: str = ""
    """The characters (of `[{`) with which a body without a start marker begins, at the start of a line."""
    at_line_start: bool = False
    """True if `open` is a common word (`Action:`): it counts only at the very start of a line."""
    may_be_in_prompt: bool = False
    """True if a reply may begin after `open`, with which the prompt ended or which the model left out: the name of an
    offered tool on the first line then begins a call."""
    without_text: bool = False
    """True if no text may stand between a call and its end marker."""


@dataclass(frozen=True, slots=True)
class TurnMarkup:
    """What surrounds the text and the calls of a turn."""

    tokens: tuple[str, ...] = ()
    """Tokens of the format that are neither text nor calls, and are dropped (turn ends, channel headers)."""
    answer_headers: tuple[str, ...] = ()
    """Those of them that begin the answer to the user: a call without tags in it is text."""
    reasoning: tuple[tuple[str, str], ...] = ()
    """Reasoning tags, opening and closing, beside those that are always known."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One format: its markers, and the syntax of its bodies."""

    name: str
    summary: str
    body: Body
    call: CallMarkers = CallMarkers()
    section: Markers = Markers()
    """Surrounds all calls of a turn, if the dialect has such a section. Calls outside a section are accepted too."""
    result: Markers = Markers()
    """Surrounds a tool's result; `open` is an unfinished tag: attributes may follow."""
    turn: TurnMarkup = TurnMarkup()
    quote: str = ""
    """The token before and after a string, if the dialect has its own."""
    waits: str = ""
    """The parts of a call that do not stream while the model writes them, and why; empty if all of it streams."""
    templates: str = ""
    """The folder under `templates/` with the prompts for this dialect; by default the folder with its name."""

    def __hash__(self) -> int:
        """Return a hash of what differs between dialects: a request looks its dialect up some hundred times."""
        return hash((self.name, self.call.opens))

    def for_tools(self, names: Iterable[str]) -> "Dialect":
        """Return the dialect with the start markers that have the names of the offered tools."""
        if not self.call.names:
            return self
        opens = dict.fromkeys(marker.format(name) for name in names for marker in self.call.names)
        return replace(self, call=replace(self.call, opens=tuple(opens)))

    @property
    def escapes_tool_markers(self) -> bool:
        """True if a prompt escapes the markers with tools' names: not where a name alone is one, a common word."""
        return bool(self.call.names) and "{}" not in self.call.names

    @property
    def bare(self) -> bool:
        """True if a call is easily mistaken for text.

        Under `rescue` and `auto` such a call stays pending, and counts only if nothing but calls follows it in the
        reply.
        """
        return bool(self.call.starts) or self.call.at_line_start or self.fenced

    @property
    def fenced(self) -> bool:
        """True if the opening line of a code fence is the start marker."""
        return self.call.open.startswith("`")

    @property
    def closes_bodies(self) -> bool:
        """True if a marker ends a body."""
        return bool(self.call.close)

    def openers(self) -> tuple[str, ...]:
        """Return every start marker of a call."""
        return self.call.openers()

    def closers(self) -> tuple[str, ...]:
        """Return every end marker of a body."""
        return (*self.call.closers(), *self.section.closers())

    def inner_openers(self) -> tuple[str, ...]:
        """Return every start marker of a call that counts anywhere, not only as a line or at the start of one."""
        return () if self.call.at_line_start or self.fenced else self.openers()

    def body_openers(self) -> tuple[str, ...]:
        """Return every start marker of a call that may end a body without an end marker."""
        return tuple(f"\n{marker}" for marker in self.openers()) if self.call.at_line_start else self.inner_openers()

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
