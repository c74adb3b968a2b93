"""Write arguments token by token, for readers that tokenise their syntax themselves: no text is parsed twice.

Theory of operation. Commas and colons are added automatically. A key waits for its value, because a null that means an
absent value drops its key.

Rule: each token is already strict JSON (an atom, a key, the escaped content of a string), and brackets are balanced; so
the result is strict JSON, coerced by the schema, within the limits, and without duplicate keys.
"""

import json
from collections.abc import Set
from dataclasses import dataclass

from fcshim.parse.arguments.buffering import CommitBuffer
from fcshim.parse.arguments.scopes import Members
from fcshim.parse.arguments.typed import TypedArguments
from fcshim.parse.limits import Limits
from fcshim.parse.sink import CallSink


@dataclass(frozen=True, slots=True)
class OpenContainer:
    """An open container: what may stand in it, its keys so far, and the key of its current value."""

    members: Members
    keys: Set[str]
    key: str


class TokenWriter:
    """Writes the arguments of one call after the other; every method raises `LimitError` beyond a limit."""

    def __init__(self, sink: CallSink, limits: Limits) -> None:
        self._sink = sink
        self._limits = limits
        self.buffer = CommitBuffer(limits)
        """What was written; plain values may be written to it directly."""
        self.arguments = TypedArguments(self.buffer, sink, limits)
        """What goes to the sink."""
        self.flush = self.arguments.flush
        """Sends what was written."""
        self.members_at = self.arguments.members_at
        """Says what may stand in the open container at a depth."""

    def start(self, name: str) -> None:
        """Start a call of the tool `name` (as `CallSink.resolve` returned it); the arguments' `{` must come next."""
        self._sink.start(name)
        self.arguments.restart(self._sink.expectation)

    def open(self, bracket: str) -> None:
        """Open an object or an array."""
        self._separate()
        self.buffer.open(bracket)

    def close(self, bracket: str) -> None:
        """Close the innermost object or array."""
        self.buffer.close(bracket)

    def write_key(self, escaped: str) -> None:
        """Write the key of the next value, escaped and without quotes. Raises `NotStrictError` for a duplicate key."""
        buffer = self.buffer
        buffer.add_key(json.loads(f'"{escaped}"') if "\\" in escaped else escaped)
        buffer.parts.append(f'"{escaped}": ' if buffer.commit_point == "opened" else f', "{escaped}": ')

    def write_atom(self, atom: str) -> None:
        """Write a number or literal."""
        self._separate()
        self.buffer.parts.append(atom)
        self.buffer.add_atom(atom)

    def begin_string(self) -> None:
        """Begin a string, whose content is added to the buffer."""
        self._separate()
        self.buffer.begin_string()

    def collected(self) -> str:
        """Return what was written and flushed, but waits for the end of its value."""
        return "".join(self.arguments.collected or ())

    def open_containers(self) -> list[OpenContainer]:
        """Return the open containers, the arguments first."""
        keys = iter(self.buffer.keys)
        return [
            OpenContainer(
                self.arguments.members_at(depth),
                next(keys) if container == "{" else frozenset(),
                self.arguments.key_at(depth),
            )
            for depth, container in enumerate(self.buffer.containers)
        ]

    def admits_key(self, depth: int, key: str) -> bool:
        """Return whether this key may come next in the open object at this depth in the arguments."""
        keys = self.buffer.keys[self.buffer.containers[:depth].count("{")]
        return key not in keys and self.members_at(depth).lists_member(key) is not False

    def complete(self) -> None:
        """Mark the call as complete at the sink."""
        assert not self.buffer.containers
        self._sink.mark_complete()

    def _separate(self) -> None:
        """Write the comma before an item of an array."""
        buffer = self.buffer
        if buffer.commit_point == "after" and buffer.containers[-1] == "[":
            buffer.parts.append(", ")


class DiscardingWriter(TokenWriter):
    """Takes the place of a writer where nothing is written: only the content of strings is read."""

    def open(self, bracket: str) -> None:
        """Open an object or an array."""

    def close(self, bracket: str) -> None:
        """Close the innermost object or array."""

    def write_key(self, escaped: str) -> None:
        """Write the key of the next value."""

    def write_atom(self, atom: str) -> None:
        """Write a number or literal."""

    def begin_string(self) -> None:
        """Begin a string, whose content is added to the buffer."""

    def admits_key(self, _depth: int, _key: str) -> bool:
        """Return whether this key may come next."""
        return True
