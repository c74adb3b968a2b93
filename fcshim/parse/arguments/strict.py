r"""Read strict JSON in pieces, forwarding it verbatim, up to the first character that is not strict JSON.

Theory of operation. Text may be cut anywhere. Each state is one method that takes the text and a position and returns
the position it has reached; it sets `stop` if it needs more text (the remainder is short, and is passed again with the
next piece). The reader has few commit points: before the value, in a container just opened, after a value, inside a
string value. The text between two commit points (closing quote, white space, comma, key, colon, number) is buffered
until the next one, so that at a deviation nothing since the last commit point was sent, and the search for readings
begins there. A closing quote therefore counts only once the text after it is valid. Two deviations in strings are fixed
in place, so that strings keep streaming: raw control characters and invalid escapes.

    state               next state
    _read_value         " _read_string, { _read_first_key, [ _read_first_item, else _read_atom
    _read_string        " _after_value
    _read_atom          _after_value
    _after_value        , _read_key (in an array _read_value); ] or } _after_value, at depth 0 _after_end
    _read_first_key     } as in _after_value, else as _read_key
    _read_first_item    ] as in _after_value, else as _read_value
    _read_key           : _read_value

The usual text between two values is read with one match (`fast_patterns`); the states for its parts read unusual and
long text.

Rule: each character is examined once, but for a key or a number that is not complete, whose length is limited; only the
buffer and the keys of open objects are kept.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.arguments.buffering import CommitBuffer, LimitError, NotStrictError
from fcshim.parse.arguments.escapes import escape_control, read_escape
from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS, SPACE, value_pattern
from fcshim.parse.body import disposed_state
from fcshim.parse.limits import Limits
from fcshim.parse.markers import MAX_RUNS, EndMarkers
from fcshim.schema.node import has_lone_surrogate

State: TypeAlias = Callable[[str, int], int]

_SPACE = re.compile(r"[ \t\n\r]*+")
_ATOM = re.compile(r"[^\s,:{}\[\]\"'<]*+")
_STRICT_ATOM = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII)
_ESCAPE = re.compile(r"\\(?:([nrtbf])|.)")
_KEY = re.compile(
    r'"(?P<key>(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){0,1024})'
    r'(?:"[ \t\n\r]{0,1024}(?:(?P<colon>:)|\Z)|(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z)'
)
"""A key with its colon, or the beginning of one at the end of the text."""
_VALUE = value_pattern(("true", "false", "null"), value_starts=r'"{\[', after_atom=r" \t\n\r,}\]")
_MEMBER = rf'(?:"(?P<key>[^"\\\x00-\x1f]{{0,64}}+)(?:"{SPACE}(?::{SPACE}{_VALUE}|\Z)|\Z)|\Z)'
_NO_KEY = "(?P<key>(?!))?"
"""The group of the patterns for members, in those without a key."""
_FIRST_VALUE = re.compile(_NO_KEY + _VALUE)
_FIRST_MEMBER = re.compile(SPACE + _MEMBER)
_NEXT_VALUE = re.compile(f"{_NO_KEY}{SPACE},{SPACE}{_VALUE}")
_NEXT_MEMBER = re.compile(f"{SPACE},{SPACE}{_MEMBER}")
_MATCH_NEXT = {"{": _NEXT_MEMBER.match, "[": _NEXT_VALUE.match}
"""Matches what follows a value in a container."""


class StrictJsonReader:
    """Reads one JSON value into `buffer`, whose owner sets the target and the handler."""

    def __init__(self, end_markers: EndMarkers, limits: Limits) -> None:
        self.buffer = CommitBuffer(limits)
        self.stop = False
        """True if `read` must return: it needs more text, or the value has ended; a handler may set it, too."""
        self.in_content = False
        """True inside a string value while nothing is buffered."""
        self.has_backslash = False
        """True if a string has a backslash that is not an escape."""
        self.lost_backslash = False
        """True if a backslash before an apostrophe was read as its escape, which JSON does not have."""
        self.raw_controls = Counter[str]()
        """Control characters in strings that were not escaped, as JSON demands."""
        self.position = 0
        """The position at which the state began that raised an error."""
        self.read_next: State = self._read_value
        """The state: reads the next part of the value. Raises `NotStrictError`, `LimitError`."""
        self._end_markers = end_markers
        self._limits = limits
        self._containers = self.buffer.containers
        self._match_next = _NEXT_VALUE.match
        """Matches what follows a value in the innermost container."""

    @property
    def is_complete(self) -> bool:
        """True after the end of the value."""
        return self.read_next == self._after_end

    def read(self, text: str, pos: int) -> int:
        """Read up to the end of the value or of the text, or until `stop`; return the position reached.

        The caller passes the unconsumed tail again. Raises `NotStrictError`, `LimitError`, and sets `position` then.
        """
        self.stop = False
        size = len(text)
        try:
            while pos < size and not self.stop:
                pos = self.read_next(text, pos)
        except (NotStrictError, LimitError):
            self.position = pos
            raise
        return pos

    def read_whole(self, text: str) -> None:
        """Read a text that must be the remainder of the value. Raises `NotStrictError`, `LimitError`."""
        if self.read(text, 0) < len(text) or not self.is_complete:
            raise NotStrictError

    def begin_value(self) -> None:
        """Begin another value, after the one before has ended."""
        self.read_next = self._read_value

    def reset(self) -> None:
        """Drop what was read and begin another value."""
        self.buffer.reset()
        self.in_content = self.has_backslash = self.lost_backslash = False
        self.raw_controls.clear()
        self.begin_value()

    def mixes_line_breaks(self, written: str) -> bool:
        r"""Return whether strings have raw line breaks beside escapes, which may be content (`printf("a\n")`).

        `written` is the strict JSON of these strings, in which all control characters are escaped.
        """
        if not self.raw_controls["\n"]:
            return False
        return sum(found[1] is not None for found in _ESCAPE.finditer(written)) > self.raw_controls.total()

    def dispose(self) -> None:
        """Break the reference cycle through the bound state method, so that the memory is freed immediately."""
        self.read_next = disposed_state

    def roll_back(self) -> str:
        """Go back to the last commit point; return the text after it."""
        match self.buffer.commit_point:
            case "opened":
                self.read_next = self._read_first_key if self._containers[-1] == "{" else self._read_first_item
            case "after":
                self.read_next = self._after_value
            case "string":
                self.read_next = self._read_string
            case "start":
                self.read_next = self._read_value
        return self.buffer.roll_back()

    # Strings.

    def _begin_string(self, pos: int) -> int:
        self.buffer.begin_string()
        self.in_content = True
        self.read_next = self._read_string
        return pos + 1

    def _read_string(self, text: str, pos: int) -> int:
        found = self._end_markers.string_run.match(text, pos)
        assert found is not None
        end = found.end()
        if end == len(text):
            # A tail that may become an end marker waits.
            end = self._end_markers.partial_start(text, pos)
            self.buffer.add_content(text[pos:end])
            self.stop = end < len(text)
            return end
        self.buffer.add_content(text[pos:end])
        if end - pos >= MAX_RUNS:
            return end
        char = text[end]
        if char == '"':
            self.in_content = False
            self.buffer.buffer_end_of_string()
            self.read_next = self._after_value if self._containers else self._after_end
            return end + 1
        if char == "\\":
            return self._read_escape(text, end)
        if char < " ":
            self.raw_controls[char] += 1
            self.buffer.add_content(char, escape_control(char))
            return end + 1
        self.buffer.pause()
        self.in_content = False
        end_marker = self._end_markers.marker_at(text, end)
        self.buffer.add_content(end_marker)
        return end + len(end_marker)

    def _read_escape(self, text: str, pos: int) -> int:
        found = read_escape(text, pos)
        if found is None:
            self.stop = True
            return pos
        end, strict = found
        if end == pos + 1:
            self.has_backslash = True
        elif strict == "'":
            self.lost_backslash = True
        self.buffer.add_content(text[pos:end], strict)
        return end

    # Containers.

    def _open(self, container: str, pos: int) -> int:
        self.buffer.open(container)
        self.read_next = self._read_first_key if container == "{" else self._read_first_item
        self._match_next = _MATCH_NEXT[container]
        return pos + 1

    def _close(self, text: str, pos: int) -> int:
        if text[pos] != ("}" if self._containers[-1] == "{" else "]"):
            raise NotStrictError(pos)
        if len(self._containers) == 1:
            self.read_next = self._after_end
            self.stop = True
        else:
            self.read_next = self._after_value
            self._match_next = _MATCH_NEXT[self._containers[-2]]
        self.buffer.close(text[pos])
        return pos + 1

    def _read_first_key(self, text: str, pos: int) -> int:
        found = _FIRST_MEMBER.match(text, pos)
        if found is not None:
            self.stop = found.lastgroup not in COMPLETE_GROUPS
            return pos if self.stop else self._read_fast(found)
        pos = self._buffer_space(text, pos)
        if pos < len(text) and text[pos] == "}":
            return self._close(text, pos)
        return self._read_key(text, pos)

    def _read_first_item(self, text: str, pos: int) -> int:
        if text[pos] <= " ":
            pos = self._buffer_space(text, pos)
            if pos == len(text):
                return pos
        if text[pos] == "]":
            return self._close(text, pos)
        self.read_next = self._read_value
        return self._read_value(text, pos)

    def _after_value(self, text: str, pos: int) -> int:
        found = self._match_next(text, pos)
        if found is None:
            return self._read_separator(text, pos)
        if found.lastgroup not in COMPLETE_GROUPS:
            self.stop = True
            return pos
        return self._read_separator(text, pos) if self.buffer.commit_point == "opened" else self._read_fast(found)

    def _read_separator(self, text: str, pos: int) -> int:
        """Read unusual text between two values, part by part."""
        pos = self._buffer_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] == ",":
            # If all members so far were dropped (nulls of absent values), the next one is the first: no comma.
            self.buffer.add("" if self.buffer.commit_point == "opened" else ",")
            self.read_next = self._read_key if self._containers[-1] == "{" else self._read_value
            return pos + 1
        if text[pos] in "}]":
            return self._close(text, pos)
        raise NotStrictError(pos)

    def _after_end(self, _text: str, pos: int) -> int:
        raise NotStrictError(pos)

    # Keys and values.

    def _read_value(self, text: str, pos: int) -> int:
        if text[pos] <= " ":
            pos = self._buffer_space(text, pos)
            if pos == len(text):
                return pos
        first = text[pos]
        if first == '"':
            return self._begin_string(pos)
        if first in "{[":
            return self._open(first, pos)
        if first in "-0123456789tfn":
            found = _FIRST_VALUE.match(text, pos)
            if found is not None:
                self.stop = found.lastgroup != "atom"
                return pos if self.stop else self._read_fast(found)
            self.read_next = self._read_atom
            return self._read_atom(text, pos)
        raise NotStrictError(pos)

    def _read_fast(self, found: re.Match[str]) -> int:
        """Read the complete match of a fast pattern: a key, and the start of its value or an atom."""
        buffer, key, end = self.buffer, found["key"], found.end()
        if key is not None:
            buffer.add_key(key)
        buffer.parts.append(found[0])
        if buffer.source is not None:
            buffer.source.append(found[0])
        if found.lastgroup == "atom":
            buffer.add_atom(found["atom"])
            self.read_next = self._after_value if self._containers else self._after_end
            return end
        first = found.string[end]
        return self._begin_string(end) if first == '"' else self._open(first, end)

    # Parts of a member, where the usual text between two values does not match.

    def _buffer_space(self, text: str, pos: int) -> int:
        """Buffer white space; return the position after it."""
        if pos < len(text) and text[pos] > " ":
            return pos
        found = _SPACE.match(text, pos)
        assert found is not None
        if found.end() > pos:
            self.buffer.add(found[0])
        return found.end()

    def _read_key(self, text: str, pos: int) -> int:
        pos = self._buffer_space(text, pos)
        if pos == len(text):
            return pos
        found = _KEY.match(text, pos)
        if found is None:
            raise NotStrictError(pos)
        if found["colon"] is None:
            self.stop = True
            return pos
        key = found["key"]
        if "\\" in key:
            key = json.loads(f'"{key}"')
            if not key.isascii() and has_lone_surrogate(key):
                raise NotStrictError(pos)
        self.buffer.add(found[0])
        self.read_next = self._read_value
        self.buffer.add_key(key)
        return found.end()

    def _read_atom(self, text: str, pos: int) -> int:
        found = _ATOM.match(text, pos)
        assert found is not None
        end = found.end()
        if end - pos > self._limits.number:
            raise LimitError(f"a number of more than {self._limits.number} digits")
        if end == len(text):
            self.stop = True
            return pos
        if not _STRICT_ATOM.fullmatch(found[0]):
            raise NotStrictError(pos)
        self.buffer.add(found[0])
        self.buffer.add_atom(found[0])
        self.read_next = self._after_value if self._containers else self._after_end
        return end
