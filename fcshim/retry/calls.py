"""The calls of one reply that took several tries: their numbers, and which of them the client may execute.

Rule: the client counts its calls from 0 without a gap, whatever was held back between them.
Neighbours: `screen` gives every call that it lets through.
"""

import json
from collections.abc import Iterable

import msgspec

from fcshim.events import Event, ToolCallChunk, ToolCallEnd, ToolCallStart


class ReplyCalls:
    """What the client knows of; `taken` are the calls that ended without error, each a name and arguments."""

    def __init__(self) -> None:
        self.accepted: list[tuple[str, str]] = []
        self.indexes_unchanged = True
        """True as long as every call has the number that it came with."""
        self._indexes: dict[str, int] = {}

    def renumber(self, events: Iterable[Event]) -> list[Event]:
        """Give the events with the numbers that the client counts by."""
        return [self._renumber_event(event) for event in events]

    def accept(self, end: ToolCallEnd) -> None:
        """Take note of a call that may be executed."""
        self.accepted.append((end.tool_call_name, end.tool_call_arguments_complete))

    def repeats(self, end: ToolCallEnd, count: int) -> bool:
        """Tell whether a call is one of the first `count` that were taken: its model was told not to repeat them."""
        said = _canonical(end.tool_call_arguments_complete)
        return any(end.tool_call_name == name and said == _canonical(text) for name, text in self.accepted[:count])

    def _renumber_event(self, event: Event) -> Event:
        if not isinstance(event, ToolCallStart | ToolCallChunk | ToolCallEnd):
            return event
        number = self._indexes.setdefault(event.tool_call_id, len(self._indexes))
        if number == event.index:
            return event
        self.indexes_unchanged = False
        return msgspec.structs.replace(event, index=number)


def _canonical(arguments: str) -> str:
    """Give what is equal for equal arguments."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
