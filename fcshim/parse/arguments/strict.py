r"""Read strict JSON in pieces, forwarding it verbatim, up to the first byte that is not strict JSON.

Theory of operation. Text is cut anywhere. Each state is one method that takes the text and a position and gives the
position up to which it has consumed; `_wait` says that it needs more text than there is (what it leaves is short and
comes again with the next piece). The reader stands firm at few places: before the value, in a container just opened,
after a value, inside a value's string. What lies between two such places (closing quote, white space, comma, key,
colon, number) is held until the next is reached, so that at a deviation everything since the last firm place is still
unsent and the grammar can begin there. A closing quote therefore counts only once what follows it makes sense.

    _value --"--> _string --"--> _after --,--> _key --"--> _key_string --"--> _colon --:--> _value
       |                          ^  |,] }                  (in arrays: _after --,--> _value)
       +--{--> _first_key         |  +--> _done at depth 0
       +--[--> _first_item   atom-+

What is usual between two values is read by one search (`usual`); the states for its parts are for what is unusual, and
for what is long.

Rule: every character is looked at once; nothing that was read is kept but what is held and the keys of open objects.
Neighbours: `strings` reads what is in them, `holding` keeps what is not sure yet, `mend` takes over at a deviation,
`json.body` says what the values mean.
"""

import json
import re

from fcshim.parse.arguments.holding import LimitError, NotStrictError
from fcshim.parse.arguments.strings import ESCAPE_BEGUN, JsonStrings, State
from fcshim.parse.arguments.usual import GAP, LAST, value_pattern
from fcshim.parse.closers import MOST_RUNS, Closers
from fcshim.parse.limits import Limits

_SPACE = re.compile(r"[ \t\n\r]*+")
_ATOM = re.compile(r"[^\s,:{}\[\]\"'<]*+")
_STRICT_ATOM = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII)
_KEY_RUN = re.compile(rf'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{{4}}){{0,{MOST_RUNS}}}')
_VALUE = value_pattern(("true", "false", "null"), first=r'"{\[', behind=r" \t\n\r,}\]")
_MEMBER = rf'(?:"(?P<key>[^"\\\x00-\x1f]{{0,64}}+)(?:"{GAP}(?::{GAP}{_VALUE}|\Z)|\Z)|\Z)'
_FIRST_VALUE = re.compile(_VALUE)
_FIRST_MEMBER = re.compile(GAP + _MEMBER)
_NEXT_VALUE = re.compile(f"{GAP},{GAP}{_VALUE}")
_NEXT_MEMBER = re.compile(f"{GAP},{GAP}{_MEMBER}")


class StrictJson(JsonStrings):
    """Reads one JSON value; a subclass says where its text goes (`_into`) and what a deviation means."""

    def __init__(self, closers: Closers, limits: Limits) -> None:
        super().__init__(closers, limits)
        self._state: State = self._value
        self._containers: list[str] = []
        self._closed: set[str] = set()
        """The members of the object that was closed last."""
        self.place = 0
        """Where `read_on` stood last."""

    # What a subclass decides.

    def _value_begins(self, first: str) -> None:
        """Note that a value begins here (its first character, or a whole number or literal)."""

    def _atom_ended(self, atom: str) -> None:
        """Note a whole number or literal; the last piece of what is held ends with it."""
        self._stand("after")
        self._value_begins(atom)

    def _container_ended(self) -> None:
        """Note that the container whose closer was just sent has ended."""

    def _key_read(self, key: str) -> None:
        """Note the key of the next value."""

    def _key_twice(self, _key: str) -> None:
        """Refuse, or note, that an object has this key for the second time."""
        raise NotStrictError

    def _deviate(self, _text: str, _pos: int) -> int:
        """Refuse, or take over: the text from here and what is held are not strict JSON."""
        raise NotStrictError

    def read_whole(self, text: str) -> None:
        """Read a text that must be the rest of the value. Raises `NotStrictError`, `LimitError`."""
        pos = 0
        while pos < len(text) and not self._wait:
            pos = self._state(text, pos)
        if self._wait or self._state != self._done:
            raise NotStrictError

    @property
    def is_whole(self) -> bool:
        """True behind the end of the value."""
        return self._state == self._done

    def read_on(self, text: str, pos: int) -> int:
        """Read up to the end of the value or of the text; what is not consumed must come again.

        Raises like `read_whole`; `place` then says where.
        """
        self._wait = False
        while pos < len(text) and not self._wait and not self.is_whole:
            self.place = pos
            pos = self._state(text, pos)
        return pos

    # States.

    def _space(self, text: str, pos: int) -> int:
        """Hold white space; give the place of what follows, or the end of the text."""
        if pos < len(text) and text[pos] > " ":
            return pos
        found = _SPACE.match(text, pos)
        assert found is not None
        if found.end() > pos:
            self._hold(found[0])
        return found.end()

    def _value(self, text: str, pos: int) -> int:
        if text[pos] <= " ":
            pos = self._space(text, pos)
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
                return self._usual_value(found, pos)
            self._state = self._atom
            return self._atom(text, pos)
        return self._deviate(text, pos)

    def _begin_string(self, pos: int) -> int:
        self._stand("string")
        self._in_string = True
        self._value_begins('"')
        if self._into is not None:
            self._into.append('"')
        self.in_content = True
        self._state = self._string
        return pos + 1

    def _open(self, container: str, pos: int) -> int:
        if len(self._containers) >= self._limits.depth:
            raise LimitError(f"nested more than {self._limits.depth} deep")
        self._stand("opened")
        self._value_begins(container)
        if self._into is not None:
            self._into.append(container)
        self._containers.append(container)
        if container == "{":
            self._keys.append(set())
            self._state = self._first_key
        else:
            self._state = self._first_item
        return pos + 1

    def _close(self, text: str, pos: int) -> int:
        container = self._containers[-1]
        if text[pos] != ("}" if container == "{" else "]"):
            return self._deviate(text, pos)
        self._stand("after")
        if self._into is not None:
            self._into.append(text[pos])
        if self._containers.pop() == "{":
            self._closed = self._keys.pop()
        self._state = self._after if self._containers else self._done
        self._container_ended()
        return pos + 1

    def _usual_member(self, found: re.Match[str], pos: int) -> int:
        """Read what was found at `pos`: a key, and the value that has begun behind it, or is an atom."""
        last = found.lastgroup
        if last not in LAST:
            self._wait = True
            return pos
        key = found["key"]
        if key in self._keys[-1]:
            self._key_twice(key)
        self._new_key = key
        self._key_read(key)
        return self._usual_value(found, pos)

    def _usual_value(self, found: re.Match[str], pos: int) -> int:
        """Read what was found at `pos`: what stands before a value, and the value if it is an atom."""
        last = found.lastgroup
        if last not in LAST:
            self._wait = True
            return pos
        self._held.append(found[0])
        if self._held_source is not None:
            self._held_source.append(found[0])
        end = found.end()
        if last == "atom":
            self._atom_ended(found["atom"])
            self._state = self._after
            return end
        first = found.string[end]
        return self._begin_string(end) if first == '"' else self._open(first, end)

    def _first_key(self, text: str, pos: int) -> int:
        found = _FIRST_MEMBER.match(text, pos)
        if found is not None:
            return self._usual_member(found, pos)
        pos = self._space(text, pos)
        if pos < len(text) and text[pos] == "}":
            return self._close(text, pos)
        return self._key(text, pos)

    def _first_item(self, text: str, pos: int) -> int:
        if text[pos] <= " ":
            pos = self._space(text, pos)
            if pos == len(text):
                return pos
        if text[pos] == "]":
            return self._close(text, pos)
        self._state = self._value
        return self._value(text, pos)

    def _key(self, text: str, pos: int) -> int:
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] != '"':
            return self._deviate(text, pos)
        self._hold('"')
        self._state = self._key_string
        return pos + 1

    def _key_string(self, text: str, pos: int) -> int:
        found = _KEY_RUN.match(text, pos)
        assert found is not None
        end = found.end()
        if end > pos:
            run = found[0]
            self._token.append(run)
            self._hold(run)
        if end == len(text) or end - pos >= MOST_RUNS:
            return end
        if text[end] == '"':
            self._hold('"')
            self._state = self._colon
            return end + 1
        if text[end] == "\\" and ESCAPE_BEGUN.match(text, end):
            self._wait = True
            return end
        return self._deviate(text, end)

    def _colon(self, text: str, pos: int) -> int:
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] != ":":
            return self._deviate(text, pos)
        key = "".join(self._token)
        if "\\" in key:
            key = json.loads(f'"{key}"')
            if not key.isascii() and _has_half(key):
                return self._deviate(text, pos)
        self._token.clear()
        self._hold(":")
        self._state = self._value
        if key in self._keys[-1]:
            self._key_twice(key)
        self._new_key = key
        self._key_read(key)
        return pos + 1

    def _after(self, text: str, pos: int) -> int:
        if text[pos] in "}]":
            return self._close(text, pos)
        if self._rest != "opened":
            if self._containers[-1] == "{":
                found = _NEXT_MEMBER.match(text, pos)
                if found is not None:
                    return self._usual_member(found, pos)
            else:
                found = _NEXT_VALUE.match(text, pos)
                if found is not None:
                    return self._usual_value(found, pos)
        return self._after_space(text, pos)

    def _after_space(self, text: str, pos: int) -> int:
        """Read what is unusual between two values."""
        pos = self._space(text, pos)
        if pos == len(text):
            return pos
        if text[pos] == ",":
            # After members that were left out, the next one is the first.
            self._hold("" if self._rest == "opened" else ",")
            self._state = self._key if self._containers[-1] == "{" else self._value
            return pos + 1
        if text[pos] in "}]":
            return self._close(text, pos)
        return self._deviate(text, pos)

    def _atom(self, text: str, pos: int) -> int:
        found = _ATOM.match(text, pos)
        assert found is not None
        end = found.end()
        if end > pos:
            self._token.append(found[0])
            self._hold(found[0])
        if self._held_size > self._limits.number and sum(map(len, self._token)) > self._limits.number:
            raise LimitError(f"a number of more than {self._limits.number} digits")
        if end == len(text):
            return end
        atom = "".join(self._token)
        if not _STRICT_ATOM.fullmatch(atom):
            return self._deviate(text, end)
        self._held[-len(self._token) :] = [atom]
        self._token.clear()
        self._atom_ended(atom)
        self._state = self._after
        return end

    def _done(self, text: str, pos: int) -> int:
        """The value is complete; a subclass decides what may follow."""
        return self._deviate(text, pos)


def _has_half(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)
