"""What the client is still owed when the last try is over: the better of the tries, and good calls that were held.

Rule: what was said first is told where no later try is better; a good call of any try stands.
Neighbours: `tries` asks at the end, `screen` has what is held of each try.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from fcshim.events import Event, Stop, StopReason, Text, ToolCallEnd
from fcshim.retry.attempt_filter import NORMAL_STOPS, AttemptFilter
from fcshim.retry.calls import ReplyCalls

_PARAGRAPH_BREAK = "\n\n"


class LaterCalls(NamedTuple):
    """Good calls behind one that was gone on with, and how many had been taken when that ended."""

    events: list[Event]
    accepted_count: int

    def unless_replaced(self, calls: ReplyCalls) -> list[Event]:
        """Give them where the model made no others instead of them."""
        if len(calls.accepted) != self.accepted_count:
            return []
        for event in self.events:
            if isinstance(event, ToolCallEnd):
                calls.accept(event)
        return calls.renumber(self.events)


NO_LATER_CALLS = LaterCalls([], 0)


def best_outcome(
    filters: Sequence[AttemptFilter], calls: ReplyCalls, stop: Stop | None, last_text: str
) -> tuple[list[Event], StopReason]:
    """Give what is owed of all tries; `stop` is the last one's, None where it broke. `shown` ends the text so far."""
    *earlier, last = filters
    if not earlier:
        return last.release(), last.stop.stop_reason
    failed = stop is None or last.overflowed or last.defects or stop.stop_reason not in NORMAL_STOPS
    if failed:
        owed = last if last.accepted_count else filters[0]
        kept = [each.release() if each is owed else each.release_accepted() for each in filters]
        return list(itertools.chain(*kept)), owed.stop.stop_reason
    salvaged = [event for each in earlier for event in each.release_accepted()]
    if calls.accepted:
        return salvaged + last.release_accepted(), "tool_use"
    return _separate(last.release(), last_text), last.stop.stop_reason


def _separate(events: list[Event], last_text: str) -> list[Event]:
    """Put an empty line between the text that was shown and that of another try."""
    begins = next((event.text for event in events if isinstance(event, Text)), "")
    if not last_text or last_text[-1].isspace() or begins[:1].isspace():
        return events
    return [Text(_PARAGRAPH_BREAK), *events]
