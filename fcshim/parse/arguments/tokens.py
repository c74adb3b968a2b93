"""Where a reader writes arguments that it tells apart itself: token by token, and nothing is read twice.

Theory of operation. A token is a method and the text it takes, so that one that is not sure yet can be kept and written
later. Commas and colons come by themselves. A key waits for its value, which may turn out to stand for an absent one.

Rule: each token is strict JSON already (an atom, a key, the content of a string as JSON spells them), and brackets come
in pairs; so what leaves is strict JSON, typed by the schema, within the limits, and without a key twice.
Neighbours: `literals.nest` writes here; `writer` is for those who have JSON as text.
"""

import json
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.arguments.holding import LimitError, NotStrictError
from fcshim.parse.arguments.writer import ArgumentWriter


class TokenWriter(ArgumentWriter):
    """Takes the arguments of one call after the other; every method raises `LimitError` for what is too much."""

    def open(self, bracket: str) -> None:
        """Open an object or an array."""
        if len(self._containers) >= self._limits.depth:
            raise LimitError(f"nested more than {self._limits.depth} deep")
        self._separate()
        self._stand("opened")
        self._value_begins(bracket)
        self._say(bracket)
        self._containers.append(bracket)
        if bracket == "{":
            self._keys.append(set())

    def close(self, bracket: str) -> None:
        """Close what was opened last."""
        self._rest = "after"
        self._say(bracket)
        if self._containers.pop() == "{":
            self._keys.pop()
        self._container_ended()

    def key(self, spelled: str) -> None:
        """Write the key of the next value, without its quotes. Raises `NotStrictError` for one that comes twice."""
        key = json.loads(f'"{spelled}"') if "\\" in spelled else spelled
        keys = self._keys[-1]
        if key in keys:
            raise NotStrictError
        keys.add(key)
        self._held.append(f'"{spelled}": ' if self._rest == "opened" else f', "{spelled}": ')
        self._key_read(key)

    def atom(self, atom: str) -> None:
        """Write a number or literal."""
        if len(atom) > self._limits.number:
            raise LimitError(f"a number of more than {self._limits.number} digits")
        self._separate()
        self._held.append(atom)
        if self._typed:
            self._token.append(atom)
            self._typed_atom(atom)
            self._token.clear()
        else:
            self._stand("after")

    def begin_string(self, _quote: str) -> None:
        """Begin a string."""
        self._separate()
        self._stand("string")
        self._value_begins('"')
        self._say('"')
        self.in_content = True

    def content(self, spelled: str) -> None:
        """Go on in the string."""
        self._say(spelled)

    def end_string(self, _quote: str) -> None:
        """End the string."""
        self._rest = "after"
        self._say('"')
        self.in_content = False
        self._string_ended()

    def flush(self) -> None:
        """Send what is sure."""
        if self._out or self._kept is not None:
            self._flush()

    def complete(self) -> None:
        """The arguments are whole: note that at the sink."""
        assert not self._containers
        self._sink.complete()

    def _separate(self) -> None:
        """Write the comma before a value of an array."""
        if self._rest != "opened" and self._containers and self._containers[-1] == "[":
            self._held.append(", ")

    def _say(self, text: str) -> None:
        assert self._into is not None
        self._into.append(text)


Token: TypeAlias = tuple[Callable[[TokenWriter, str], None], str]
"""What is written, by which method."""
