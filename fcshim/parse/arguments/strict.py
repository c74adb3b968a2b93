r"""Read strict JSON in pieces, forwarding it verbatim, up to the first character that is not strict JSON.

Theory of operation. Text may be cut anywhere. Each state is one method that takes the text and a position and returns
the position it has reached; it sets `_wait` if it needs more text (the remainder is short, and is passed again with the
next piece). The reader has few commit points: before the value, in a container just opened, after a value, inside a
string value. The text between two commit points (closing quote, white space, comma, key, colon, number) is buffered
until the next one, so that at a deviation nothing since the last commit point was sent, and the grammar can begin
there. A closing quote therefore counts only once the text after it is valid.

    state               next state
    _read_value         " _read_string, { _read_first_key, [ _read_first_item, else _read_atom
    _read_string        " _after_value
    _read_atom          _after_value
    _after_value        , _read_key (in an array _read_value); ] or } _after_value, at depth 0 _after_end
    _read_first_key     } as in _after_value, else as _read_key
    _read_first_item    ] as in _after_value, else as _read_value
    _read_key           " _read_key_string
    _read_key_string    " _read_colon
    _read_colon         : _read_value

The usual text between two values is read with one match (`fast_patterns`); the states for its parts read unusual and
long text.

Rule: each character is examined once; only the buffer and the keys of open objects are kept.
"""

import json
import re

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.fast_patterns import COMPLETE_GROUPS, SPACE, value_pattern
from fcshim.parse.arguments.strings import PARTIAL_ESCAPE, JsonStringReader, State
from fcshim.parse.end_markers import MAX_RUNS, EndMarkers
from fcshim.parse.limits import Limits

_SPACE = re.compile(r"[ \t\n\r]*+")
_ATOM = re.compile(r"[^\s,:{}\[\]\"'<]*+")
_STRICT_ATOM = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII)
_KEY_RUN = re.compile(rf'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{{4}}){{0,{MAX_RUNS}}}')
_VALUE = value_pattern(("true", "false", "null"), value_starts=r'"{\[', after_atom=r" \t\n\r,}\]")
_MEMBER = rf'(?:"(?P<key>[^"\\\x00-\x1f]{{0,64}}+)(?:"{SPACE}(?::{SPACE}{_VALUE}|\Z)|\Z)|\Z)'
_FIRST_VALUE = re.compile(_VALUE)
_FIRST_MEMBER = re.compile(SPACE + _MEMBER)
_NEXT_VALUE = re.compile(f"{SPACE},{SPACE}{_VALUE}")
_NEXT_MEMBER = re.compile(f"{SPACE},{SPACE}{_MEMBER}")


class StrictJsonReader(JsonStringReader):
    """Reads one JSON value; a subclass sets `_target` for its text, and decides what a deviation means."""

    def __init__(self, end_markers: EndMarkers, limits: Limits) -> None:
        super().__init__(end_markers, limits)
        self._state: State = self._read_value
        self._containers: list[str] = []
        self._closed_keys: set[str] = set()
        """The keys of the object that was closed last."""
        self.position = 0
        """The position in the text at which `read_available` ran its last state."""

    # Hooks for subclasses.

    def _on_value_start(self, first: str) -> None:
        """React to the start of a value; `first` is its first character, or a whole number or literal."""

    def _on_atom(self, atom: str) -> None:
        """React to a whole number or literal, with which the last piece of the buffer ends."""
        self._commit("after")
        self._on_value_start(atom)

    def _on_container_end(self) -> None:
        """React to the end of a container, whose closing bracket was just sent."""

    def _on_key(self, key: str) -> None:
        """React to the key of the next value."""

    def _on_duplicate_key(self, _key: str) -> None:
        """React to a duplicate key: raise, unless a subclass records it."""
        raise NotStrictError

    def _on_deviation(self, _text: str, _pos: int) -> int:
        """Raise, unless a subclass hands over to the tolerant grammar: the text and the buffer are not strict JSON."""
        raise NotStrictError

    def read_whole(self, text: str) -> None:
        """Read a text that must be the remainder of the value. Raises `NotStrictError`, `LimitError`."""
        pos = 0
        while pos < len(text) and not self._wait:
            pos = self._state(text, pos)
        if self._wait or self._state != self._after_end:
            raise NotStrictError

    @property
    def is_complete(self) -> bool:
        """True after the end of the value."""
        return self._state == self._after_end

    def read_available(self, text: str, pos: int) -> int:
        """Read up to the end of the value or of the text; return the position reached.

        The caller passes the unconsumed tail again. Raises like `read_whole`, and leaves the error's place in
        `position`.
        """
        self._wait = False
        while pos < len(text) and not self._wait and not self.is_complete:
            self.position = pos
            pos = self._state(text, pos)
        return pos

    # States.

    def _buffer_space(self, text: str, pos: int) -> int:
        """Buffer white space; return the position after it."""
        if pos < len(text) and text[pos] > " ":
            return pos
        found = _SPACE.match(text, pos)
        assert found is not None
        if found.end() > pos:
            self._buffer_text(found[0])
        return found.end()

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
            if found is not None and found.lastgroup != "value":
                return self._read_fast_value(found, pos)
            self._state = self._read_atom
            return self._read_atom(text, pos)
        return self._on_deviation(text, pos)

    def _begin_string(self, pos: int) -> int:
        self._commit("string")
        self._in_string = True
        self._on_value_start('"')
        if self._target is not None:
            self._target.append('"')
        self.in_content = True
        self._state = self._read_string
        return pos + 1

    def _open(self, container: str, pos: int) -> int:
        if len(self._containers) >= self._limits.depth:
            raise LimitError(f"nested more than {self._limits.depth} deep")
        self._commit("opened")
        self._on_value_start(container)
        if self._target is not None:
            self._target.append(container)
        self._containers.append(container)
        if container == "{":
            self._keys.append(set())
            self._state = self._read_first_key
        else:
            self._state = self._read_first_item
        return pos + 1

    def _close(self, text: str, pos: int) -> int:
        container = self._containers[-1]
        if text[pos] != ("}" if container == "{" else "]"):
            return self._on_deviation(text, pos)
        self._commit("after")
        if self._target is not None:
            self._target.append(text[pos])
        if self._containers.pop() == "{":
            self._closed_keys = self._keys.pop()
        self._state = self._after_value if self._containers else self._after_end
        self._on_container_end()
        return pos + 1

    def _read_fast_member(self, found: re.Match[str], pos: int) -> int:
        """Read the match of a fast pattern at `pos`: a key, and the start of its value or an atom."""
        last = found.lastgroup
        if last not in COMPLETE_GROUPS:
            self._wait = True
            return pos
        key = found["key"]
        if key in self._keys[-1]:
            self._on_duplicate_key(key)
        self._pending_key = key
        self._on_key(key)
        return self._read_fast_value(found, pos)

    def _read_fast_value(self, found: re.Match[str], pos: int) -> int:
        """Read the match of a fast pattern at `pos`: the text before a value, and the value if it is an atom."""
        last = found.lastgroup
        if last not in COMPLETE_GROUPS:
            self._wait = True
            return pos
        self._buffer.append(found[0])
        if self._buffer_source is not None:
            self._buffer_source.append(found[0])
        end = found.end()
        if last == "atom":
            self._on_atom(found["atom"])
            self._state = self._after_value if self._containers else self._after_end
            return end
        first = found.string[end]
        return self._begin_string(end) if first == '"' else self._open(first, end)

    def _read_first_key(self, text: str, pos: int) -> int:
        found = _FIRST_MEMBER.match(text, pos)
        if found is not None:
            return self._read_fast_member(found, pos)
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
        self._state = self._read_value
        return self._read_value(text, pos)

    def _read_key(self, text: str, pos: int) -> int:
        pos = self._buffer_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] != '"':
            return self._on_deviation(text, pos)
        self._buffer_text('"')
        self._state = self._read_key_string
        return pos + 1

    def _read_key_string(self, text: str, pos: int) -> int:
        found = _KEY_RUN.match(text, pos)
        assert found is not None
        end = found.end()
        if end > pos:
            run = found[0]
            self._token_parts.append(run)
            self._buffer_text(run)
        if end == len(text) or end - pos >= MAX_RUNS:
            return end
        if text[end] == '"':
            self._buffer_text('"')
            self._state = self._read_colon
            return end + 1
        if text[end] == "\\" and PARTIAL_ESCAPE.match(text, end):
            self._wait = True
            return end
        return self._on_deviation(text, end)

    def _read_colon(self, text: str, pos: int) -> int:
        pos = self._buffer_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] != ":":
            return self._on_deviation(text, pos)
        key = "".join(self._token_parts)
        if "\\" in key:
            key = json.loads(f'"{key}"')
            if not key.isascii() and _has_lone_surrogate(key):
                return self._on_deviation(text, pos)
        self._token_parts.clear()
        self._buffer_text(":")
        self._state = self._read_value
        if key in self._keys[-1]:
            self._on_duplicate_key(key)
        self._pending_key = key
        self._on_key(key)
        return pos + 1

    def _after_value(self, text: str, pos: int) -> int:
        if text[pos] in "}]":
            return self._close(text, pos)
        if self._commit_point != "opened":
            if self._containers[-1] == "{":
                found = _NEXT_MEMBER.match(text, pos)
                if found is not None:
                    return self._read_fast_member(found, pos)
            else:
                found = _NEXT_VALUE.match(text, pos)
                if found is not None:
                    return self._read_fast_value(found, pos)
        return self._read_separator(text, pos)

    def _read_separator(self, text: str, pos: int) -> int:
        """Read unusual text between two values, part by part."""
        pos = self._buffer_space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] == ",":
            # If all members so far were dropped (nulls of absent values), the next one is the first: no comma.
            self._buffer_text("" if self._commit_point == "opened" else ",")
            self._state = self._read_key if self._containers[-1] == "{" else self._read_value
            return pos + 1
        if text[pos] in "}]":
            return self._close(text, pos)
        return self._on_deviation(text, pos)

    def _read_atom(self, text: str, pos: int) -> int:
        found = _ATOM.match(text, pos)
        assert found is not None
        end = found.end()
        if end > pos:
            self._token_parts.append(found[0])
            self._buffer_text(found[0])
        if self._buffer_size > self._limits.number and sum(map(len, self._token_parts)) > self._limits.number:
            raise LimitError(f"a number of more than {self._limits.number} digits")
        if end == len(text):
            return end
        atom = "".join(self._token_parts)
        if not _STRICT_ATOM.fullmatch(atom):
            return self._on_deviation(text, end)
        self._buffer[-len(self._token_parts) :] = [atom]
        self._token_parts.clear()
        self._on_atom(atom)
        self._state = self._after_value if self._containers else self._after_end
        return end

    def _after_end(self, text: str, pos: int) -> int:
        """Read after the end of the value; a subclass decides what may follow."""
        return self._on_deviation(text, pos)


def _has_lone_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)
