"""The calls of one reply that took several tries: their numbers, and which of them the client may execute.

Rule: the client counts its calls from 0 without a gap, whatever was held back between them.
Neighbours: `screen` gives every call that it lets through.
"""

import json
from collections.abc import Iterable

import msgspec

from fcshim.events import Event, ToolCallChunk, ToolCallEnd, ToolCallStart


class Calls:
    """What the client knows of; `taken` are the calls that ended without error, each a name and arguments."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.straight = True
        """True as long as every call has the number that it came with."""
        self._numbers: dict[str, int] = {}

    def numbered(self, events: Iterable[Event]) -> list[Event]:
        """Give the events with the numbers that the client counts by."""
        return [self._numbered(event) for event in events]

    def take(self, end: ToolCallEnd) -> None:
        """Take note of a call that may be executed."""
        self.taken.append((end.tool_call_name, end.tool_call_arguments_complete))

    def repeats(self, end: ToolCallEnd, count: int) -> bool:
        """Tell whether a call is one of the first `count` that were taken: its model was told not to repeat them."""
        said = _same(end.tool_call_arguments_complete)
        return any(end.tool_call_name == name and said == _same(text) for name, text in self.taken[:count])

    def _numbered(self, event: Event) -> Event:
        if not isinstance(event, ToolCallStart | ToolCallChunk | ToolCallEnd):
            return event
        number = self._numbers.setdefault(event.tool_call_id, len(self._numbers))
        if number == event.index:
            return event
        self.straight = False
        return msgspec.structs.replace(event, index=number)


def _same(arguments: str) -> str:
    """Give what is equal for equal arguments."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
