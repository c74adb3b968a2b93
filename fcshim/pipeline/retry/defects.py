"""The defects of an attempt that lead to a retry.

Rule: events that the client has seen stand, so a call whose start was sent can only be continued, not replaced.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fcshim.events import Event, Text, ToolCallEnd
from fcshim.parse.defect import Defect

ParsedEvent: TypeAlias = tuple[Event, Defect | None]
"""An event, with the defect that the parser reported of it."""


class ReportedDefects:
    """The defects that the parser reports, until the events that they concern come."""

    def __init__(self) -> None:
        self._rejected: deque[Defect] = deque()
        self._invalid: dict[str, Defect] = {}

    def add(self, defect: Defect) -> None:
        """Take a report."""
        if defect.kind == "invalid":
            self._invalid[defect.tool_call_id] = defect
        else:
            self._rejected.append(defect)

    def join(self, events: Iterable[Event]) -> list[ParsedEvent]:
        """Return the events with their defects."""
        return [(event, self._defect_of(event)) for event in events]

    def _defect_of(self, event: Event) -> Defect | None:
        match event:
            case Text(text=""):
                return self._rejected.popleft()
            case ToolCallEnd():
                return self._invalid.pop(event.tool_call_id, None)
        return None


@dataclass(frozen=True, slots=True)
class AttemptDefect:
    """One defect of an attempt.

    `missing`: no call although one was required. `unoffered`: a call of a tool that is not offered. `unreadable`: text
    that was meant as a call and does not even tell the tool. `bad`: a call with the error in `message`. `broken`: the
    same, but the client already has its start.
    """

    kind: Literal["missing", "unoffered", "unreadable", "bad", "broken"]
    name: str = ""
    message: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "missing":
                return "no call came although one was demanded"
            case "unoffered":
                return f"there is no tool {self.name!r:.80}"
            case "unreadable":
                return "a call could not be read"
            case "bad" | "broken":
                return f"a call of {self.name!r:.80}: {self.message:.200}"


MISSING_CALL = AttemptDefect("missing")


def defect_of_call(end: ToolCallEnd, violation: Defect | None) -> AttemptDefect | None:
    """Return the defect of a call; None if it has no error and satisfies its schema."""
    if end.error is not None:
        return AttemptDefect("bad", end.tool_call_name, end.error.message)
    return None if violation is None else AttemptDefect("bad", end.tool_call_name, violation.message)
