"""Read a body whose header has the tool's name, before the arguments: `f[ARGS]{...}`.

Theory of operation. The header is short, and is read once it is complete: a pattern finds its end and the name. The
arguments' object follows, and is read like the arguments in a JSON body.

Rule: text that does not match the header within its maximum length is not a body; none of it is consumed.
"""

import re
from dataclasses import dataclass
from typing import Literal, Protocol

from fcshim.events import StopReason
from fcshim.parse.body import BodyReader
from fcshim.parse.dialect import Dialect
from fcshim.parse.json.body import JsonBody, JsonShape
from fcshim.parse.json.surroundings import skip_space
from fcshim.parse.limits import Limits
from fcshim.parse.markers import named_tool
from fcshim.parse.sink import CallSink

_MAX_HEADER_LENGTH = 256
"""In characters: a name of 128 characters and the markers around it fit, and prose is not delayed for long."""

_NO_NAME = ("[", "{", "｛", "［", "```")
"""No name begins like this: it is JSON or a fence, in a dialect that writes these after the same marker."""
_MAX_SPACE = 8


class HeaderMatch(Protocol):
    """A matched header, like `re.Match`: where it ends, and the tool's name under the key `name`."""

    def end(self) -> int:
        """Return the position after the header."""

    def __getitem__(self, key: str, /) -> str:
        """Return the text of a group."""


@dataclass(frozen=True, slots=True)
class HeaderShape:
    """The header before the arguments.

    `header` is a regular expression without unbounded repetition, and with the group `name` if the header has it. It
    ends with a marker or before the arguments, so that more text never changes its match.
    """

    header: str
    ends: tuple[str, ...] = ("{", "｛")
    """The markers with which, or before which, a header ends: nothing is matched until one of them is there."""
    words: tuple[str, ...] = ()
    """Words and tokens of a header, beside the start marker; the prompt escapes them in other text."""
    lines: int = 0
    """The most newlines in a header."""
    never: str = r"(?!)"
    """A regular expression for text that cannot begin a header, to reject it early."""
    next_header: str = ""
    """A regular expression for the header of a further call directly after one, if the dialect has no marker there."""
    partial_next: str = ""
    """A regular expression for the beginning of one, up to the end of the text."""
    json: JsonShape | None = None
    """The JSON syntax of bodies without a header, if the dialect has both."""
    name_in: Literal["header", "marker", "json"] = "header"
    """Where the tool's name stands: in the header, in the start marker (or all of it), or in the JSON behind."""
    grammar: str = "json_call"

    def begins(self, text: str, pos: int) -> bool | None:
        """Return whether a header, or a JSON body instead, begins at `pos`; None if more text is needed to decide."""
        plain = self.json.begins(text, pos) if self.json is not None else False
        return self.match_header(text, pos) is not None or self.may_still_match(text, pos) if plain is False else plain

    def match_header(self, text: str, pos: int) -> HeaderMatch | None:
        """Match a complete header."""
        if all(text.find(end, pos, pos + _MAX_HEADER_LENGTH) < 0 for end in self.ends) or self._is_json(text, pos):
            return None
        found = re.compile(self.header).match(text, pos, pos + _MAX_HEADER_LENGTH)
        return found if found is not None and found[0].count("\n") <= self.lines else None

    def may_still_match(self, text: str, pos: int) -> bool | None:
        """Return None if text that does not match may be the beginning of a header, else False."""
        too_long = len(text) - pos >= _MAX_HEADER_LENGTH or text.count("\n", pos) > self.lines
        return False if too_long or self._is_json(text, pos) or re.compile(self.never).match(text, pos) else None

    def match_next(self, text: str, pos: int) -> HeaderMatch | Literal[False] | None:
        """Match the header of a further call: False if there is none, None if more text is needed to decide."""
        found = re.compile(self.next_header).match(text, pos)
        return found or (None if re.compile(self.partial_next).match(text, pos) else False)

    def _is_json(self, text: str, pos: int) -> bool:
        """Return whether JSON stands where the header should."""
        return self.name_in != "marker" and text[pos : pos + _MAX_SPACE + 3].lstrip().startswith(_NO_NAME)

    def reader(self, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> BodyReader:
        """Create the reader of one body."""
        return HeaderBody(self, dialect, start_marker, sink, limits)


class HeaderBody(JsonBody):
    """Reads one body: three more states before those of a JSON body."""

    def __init__(self, shape: HeaderShape, dialect: Dialect, start_marker: str, sink: CallSink, limits: Limits) -> None:
        super().__init__(shape.json or JsonShape(), dialect, start_marker, sink, limits)
        self._header = shape
        self._tool_marker = named_tool(start_marker) or start_marker.strip(" \t\r\n<>")
        self._state = self._before_header_or_json

    def _before_header_or_json(self, text: str, pos: int) -> int:
        at, marker = skip_space(text, pos), self._start_marker.strip()
        if marker and text.startswith(marker, at):
            self._start_marker = ""
            return at + len(marker)  # it is doubled
        plain = self._header.json.begins(text, pos) if self._header.json is not None else False
        self._reader.stop = plain is None or (bool(marker) and len(text) > pos and marker.startswith(text[at:]))
        if not self._reader.stop:
            self._state = self._before_body if plain else self._read_header
        return pos

    def _begin_trailer(self) -> None:
        super()._begin_trailer()
        if self._header.next_header:
            self._state = self._after_arguments

    def _after_arguments(self, text: str, pos: int) -> int:
        """Read the header of a further call, or what else follows the arguments."""
        found = self._header.match_next(text, pos)
        if found is None:
            self._reader.stop = True
        elif not found or not self._sink.tools.offers(found["name"]):
            self._state = self._in_trailer
        else:
            self._envelope.begin_next_call()
            self._calls.set_name(found["name"])
            self._reader.begin_value()
            self._state = None
            return found.end()
        return pos

    def close(self, tail: str, stop_reason: StopReason) -> None:
        """End the reply; a tail that may begin a further header is text."""
        if self._state == self._after_arguments:
            self._state = self._in_trailer
        super().close(tail, stop_reason)

    def _read_header(self, text: str, pos: int) -> int:
        found = self._header.match_header(text, pos)
        if found is None:
            self._reader.stop = self._header.may_still_match(text, pos) is None
            if not self._reader.stop:
                self._progress.reject_body()
            return pos
        if self._header.name_in == "json":
            self._state = self._before_body
            return found.end()
        self._envelope.has_header = True
        self._state = self._after_header
        self._calls.set_name(found["name"] if self._header.name_in == "header" else self._tool_marker)
        return found.end()

    def _after_header(self, text: str, pos: int) -> int:
        """Read after the header: the arguments, or the end if there are none."""
        pos = skip_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] in "{｛":
            self._state = None
            return pos
        end = self._end_markers.end_of_marker(text, pos)
        if end is None:
            self._reader.stop = True
        elif end > pos:
            self._begin_trailer()
            self._calls.end()
        else:
            if self._dialect.call.close:
                self._calls.abandon("malformed", "expected an object with the arguments", text[pos])
            else:
                self._calls.discard()  # nothing shows where it ends: text, and an unreadable call
            self._begin_skip()
        return pos
