"""The events that the client still lacks after the last attempt: the rest of the best attempt, and buffered calls.

Rule: the first attempt's text is sent unless a retry is better; an accepted call of any attempt stands.
"""

import itertools
from collections.abc import Sequence

from fcshim.events import Event, Stop, StopReason, Text
from fcshim.pipeline.retry.attempt_filter import NORMAL_STOPS, AttemptFilter
from fcshim.pipeline.retry.calls import ReplyCalls

_PARAGRAPH_BREAK = "\n\n"


def best_outcome(
    filters: Sequence[AttemptFilter], calls: ReplyCalls, stop: Stop | None, last_text: str
) -> tuple[list[Event], StopReason]:
    """Return the events that the client lacks of all attempts, and the stop reason of the reply.

    `stop` is that of the last attempt, None if it failed; `last_text` is the last text that the client got.
    """
    *earlier, last = filters
    if not earlier:
        return last.release(), last.stop.stop_reason
    failed = stop is None or last.overflowed or last.defects or stop.stop_reason not in NORMAL_STOPS
    if failed:
        best = last if last.accepted_count else filters[0]
        released = [each.release() if each is best else each.release_accepted() for each in filters]
        return list(itertools.chain(*released)), best.stop.stop_reason
    accepted = [event for each in earlier for event in each.release_accepted()]
    if calls.accepted:
        return accepted + last.release_accepted(), "tool_use"
    return _separate(last.release(), last_text), last.stop.stop_reason


def _separate(events: list[Event], last_text: str) -> list[Event]:
    """Put an empty line between the text that the client has and that of a retry."""
    first_text = next((event.text for event in events if isinstance(event, Text)), "")
    if not last_text or last_text[-1].isspace() or first_text[:1].isspace():
        return events
    return [Text(_PARAGRAPH_BREAK), *events]
