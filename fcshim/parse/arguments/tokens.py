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
from fcshim.parse.arguments.mend import Rest
from fcshim.parse.arguments.writer import ArgumentWriter


class TokenWriter(ArgumentWriter):
    """Takes the arguments of one call after the other; every method raises `LimitError` for what is too much."""

    _into: list[str]

    def open(self, bracket: str) -> None:
        """Open an object or an array."""
        if len(self._containers) >= self._limits.depth:
            raise LimitError(f"nested more than {self._limits.depth} deep")
        self._reach("opened")
        if self._typed and self._containers:
            self._typed_value(bracket)
        self._into.append(bracket)
        self._containers.append(bracket)
        if bracket == "{":
            self._keys.append(set())

    def close(self, bracket: str) -> None:
        """Close what was opened last."""
        self._rest = "after"
        self._into.append(bracket)
        if self._containers.pop() == "{":
            self._closed = self._keys.pop()
        if self._typed:
            self._typed_container_end()

    def key(self, spelled: str) -> None:
        """Write the key of the next value, without its quotes. Raises `NotStrictError` for one that comes twice."""
        key = json.loads(f'"{spelled}"') if "\\" in spelled else spelled
        keys = self._keys[-1]
        if key in keys:
            raise NotStrictError
        keys.add(key)
        self._held.append(f'"{spelled}": ' if self._rest == "opened" else f', "{spelled}": ')
        if self._typed:
            self._typed_key(key)

    def atom(self, atom: str) -> None:
        """Write a number or literal."""
        if len(atom) > self._limits.number:
            raise LimitError(f"a number of more than {self._limits.number} digits")
        if not self._typed:
            self._reach("after")
            self._into.append(atom)
            return
        comma = self._rest != "opened" and self._containers[-1] == "["
        self._held.append(f", {atom}" if comma else atom)
        self._typed_atom(atom)

    def begin_string(self, _quote: str) -> None:
        """Begin a string."""
        self._reach("string")
        if self._typed:
            self._typed_value('"')
        self._into.append('"')
        self.in_content = True

    def content(self, spelled: str) -> None:
        """Go on in the string."""
        self._into.append(spelled)

    def end_string(self, _quote: str) -> None:
        """End the string."""
        self._rest = "after"
        self._into.append('"')
        self.in_content = False
        if self._typed:
            self._typed_string_end()

    def complete(self) -> None:
        """The arguments are whole: note that at the sink."""
        assert not self._containers
        self._sink.complete()

    def _reach(self, rest: Rest) -> None:
        """A value begins: write the key that waits for it, or the comma before it."""
        if self._unwanted:
            self._doubt()
        if self._held:
            self._into.append(self._held.pop())
        elif self._rest == "after" and self._containers[-1] == "[":
            self._into.append(", ")
        self._rest = rest


Token: TypeAlias = tuple[Callable[[TokenWriter, str], None], str]
"""What is written, by which method."""
