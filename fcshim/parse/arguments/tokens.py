"""Write arguments token by token, for readers that tokenise their syntax themselves: no text is parsed twice.

Theory of operation. A token is a method and its text, so that a reader can keep a token and write it later. Commas and
colons are added automatically. A key waits for its value, because a null that means an absent value drops its key.

Rule: each token is already strict JSON (an atom, a key, the escaped content of a string), and brackets are balanced; so
the result is strict JSON, coerced by the schema, within the limits, and without duplicate keys.
"""

import json
from collections.abc import Callable
from typing import TypeAlias

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.repair import CommitPoint
from fcshim.parse.arguments.writer import ArgumentWriter


class TokenWriter(ArgumentWriter):
    """Writes the arguments of one call after the other; every method raises `LimitError` beyond a limit."""

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
        """Close the innermost object or array."""
        self._commit_point = "after"
        self._target.append(bracket)
        if self._containers.pop() == "{":
            self._closed_keys = self._keys.pop()
        if self._typed:
            self._on_typed_container_end()

    def write_key(self, escaped: str) -> None:
        """Write the key of the next value, escaped and without quotes. Raises `NotStrictError` for a duplicate key."""
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
        """Write escaped content of the string."""
        self._target.append(escaped)

    def end_string(self, _quote: str) -> None:
        """End the string."""
        self._commit_point = "after"
        self._target.append('"')
        self.in_content = False
        if self._typed:
            self._on_typed_string_end()

    def complete(self) -> None:
        """Mark the call as complete at the sink."""
        assert not self._containers
        self._sink.mark_complete()

    def _begin_value(self, commit_point: CommitPoint) -> None:
        """Begin a value: write its pending key, or the comma before it."""
        if self._unexpected_key:
            self._on_schema_mismatch()
        if self._buffer:
            self._target.append(self._buffer.pop())
        elif self._commit_point == "after" and self._containers[-1] == "[":
            self._target.append(", ")
        self._commit_point = commit_point


Token: TypeAlias = tuple[Callable[[TokenWriter, str], None], str]
"""A method of `TokenWriter`, and its text."""
