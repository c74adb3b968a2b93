"""The defects of an attempt that lead to a retry.

Rule: events that the client has seen stand, so a call whose start was sent can only be continued, not replaced.
"""

from dataclasses import dataclass
from typing import Literal

from fcshim.events import ToolCallEnd
from fcshim.parse.defect import CallDefect
from fcshim.parse.sink import InvalidCallEnd


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


def defect_of_text(mark: CallDefect) -> AttemptDefect:
    """Return the defect of an attempted call that became text."""
    return AttemptDefect(mark.fault, mark.name)


def defect_of_call(end: ToolCallEnd) -> AttemptDefect | None:
    """Return the defect of a call; None if it has no error and satisfies its schema."""
    if end.error is not None:
        return AttemptDefect("bad", end.tool_call_name, end.error.message)
    return AttemptDefect("bad", end.tool_call_name, end.fault) if isinstance(end, InvalidCallEnd) else None
