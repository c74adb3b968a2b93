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

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.repair import CommitPoint
from fcshim.parse.arguments.writer import ArgumentWriter


class TokenWriter(ArgumentWriter):
    """Takes the arguments of one call after the other; every method raises `LimitError` for what is too much."""

    _target: list[str]

    def open(self, bracket: str) -> None:
        """Open an object or an array."""
        if len(self._containers) >= self._limits.depth:
            raise LimitError(f"nested more than {self._limits.depth} deep")
        self._begin_value("opened")
        if self._typed and self._containers:
            self._on_typed_value(bracket)
        self._target.append(bracket)
        self._containers.append(bracket)
        if bracket == "{":
            self._keys.append(set())

    def close(self, bracket: str) -> None:
        """Close what was opened last."""
        self._commit_point = "after"
        self._target.append(bracket)
        if self._containers.pop() == "{":
            self._closed_keys = self._keys.pop()
        if self._typed:
            self._on_typed_container_end()

    def write_key(self, escaped: str) -> None:
        """Write the key of the next value, without its quotes. Raises `NotStrictError` for one that comes twice."""
        key = json.loads(f'"{escaped}"') if "\\" in escaped else escaped
        keys = self._keys[-1]
        if key in keys:
            raise NotStrictError
        keys.add(key)
        self._buffer.append(f'"{escaped}": ' if self._commit_point == "opened" else f', "{escaped}": ')
        if self._typed:
            self._on_typed_key(key)

    def write_atom(self, atom: str) -> None:
        """Write a number or literal."""
        if len(atom) > self._limits.number:
            raise LimitError(f"a number of more than {self._limits.number} digits")
        if not self._typed:
            self._begin_value("after")
            self._target.append(atom)
            return
        comma = self._commit_point != "opened" and self._containers[-1] == "["
        self._buffer.append(f", {atom}" if comma else atom)
        self._on_typed_atom(atom)

    def begin_string(self, _quote: str) -> None:
        """Begin a string."""
        self._begin_value("string")
        if self._typed:
            self._on_typed_value('"')
        self._target.append('"')
        self.in_content = True

    def write_content(self, escaped: str) -> None:
        """Go on in the string."""
        self._target.append(escaped)

    def end_string(self, _quote: str) -> None:
        """End the string."""
        self._commit_point = "after"
        self._target.append('"')
        self.in_content = False
        if self._typed:
            self._on_typed_string_end()

    def complete(self) -> None:
        """The arguments are whole: note that at the sink."""
        assert not self._containers
        self._sink.mark_complete()

    def _begin_value(self, commit_point: CommitPoint) -> None:
        """A value begins: write the key that waits for it, or the comma before it."""
        if self._unexpected_key:
            self._on_schema_mismatch()
        if self._buffer:
            self._target.append(self._buffer.pop())
        elif self._commit_point == "after" and self._containers[-1] == "[":
            self._target.append(", ")
        self._commit_point = commit_point


Token: TypeAlias = tuple[Callable[[TokenWriter, str], None], str]
"""What is written, by which method."""
