"""What the client is still owed when the last try is over: the better of the tries, and good calls that were held.

Rule: what was said first is told where no later try is better; a good call of any try stands.
Neighbours: `tries` asks at the end, `screen` has what is held of each try.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from fcshim.events import Event, Stop, StopReason, Text, ToolCallEnd
from fcshim.retry.calls import Calls
from fcshim.retry.screen import NATURAL, Screen

_APART = "\n\n"


class Behind(NamedTuple):
    """Good calls behind one that was gone on with, and how many had been taken when that ended."""

    calls: list[Event]
    taken: int

    def owed(self, calls: Calls) -> list[Event]:
        """Give them where the model made no others instead of them."""
        if len(calls.taken) != self.taken:
            return []
        for event in self.calls:
            if isinstance(event, ToolCallEnd):
                calls.take(event)
        return calls.numbered(self.calls)


NOTHING_BEHIND = Behind([], 0)


def better_of(screens: Sequence[Screen], calls: Calls, stop: Stop | None, shown: str) -> tuple[list[Event], StopReason]:
    """Give what is owed of all tries; `stop` is the last one's, None where it broke. `shown` ends the text so far."""
    *earlier, last = screens
    if not earlier:
        return last.release(), last.stop.stop_reason
    failed = stop is None or last.full or last.faults or stop.stop_reason not in NATURAL
    if failed:
        owed = last if last.good else screens[0]
        kept = [each.release() if each is owed else each.salvage() for each in screens]
        return list(itertools.chain(*kept)), owed.stop.stop_reason
    salvaged = [event for each in earlier for event in each.salvage()]
    if calls.taken:
        return salvaged + last.salvage(), "tool_use"
    return _apart(last.release(), shown), last.stop.stop_reason


def _apart(events: list[Event], shown: str) -> list[Event]:
    """Put an empty line between the text that was shown and that of another try."""
    begins = next((event.text for event in events if isinstance(event, Text)), "")
    if not shown or shown[-1].isspace() or begins[:1].isspace():
        return events
    return [Text(_APART), *events]
