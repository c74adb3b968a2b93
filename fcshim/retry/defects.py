"""What can be wrong with a try, so that the model is asked once more.

Rule: what the client has seen stands; a fault of that can only be mended by going on.
Neighbours: `screen` finds them, `prompt.correction` words them for the model, the log tells of them.
"""

from dataclasses import dataclass
from typing import Literal

from fcshim.events import ToolCallEnd
from fcshim.parse.defect import CallDefect
from fcshim.parse.sink import InvalidCallEnd


@dataclass(frozen=True, slots=True)
class AttemptDefect:
    """One fault: no call although one was demanded, a tool that is not offered, or a call that is not as it must be.

    `bad` says why in `message`; `unreadable` was not even clear about the tool; of a `broken` call the client has the
    beginning.
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
    """Give the fault of what was meant as a call and became text."""
    return AttemptDefect(mark.fault, mark.name)


def defect_of_call(end: ToolCallEnd) -> AttemptDefect | None:
    """Give the fault of a call; None for one that may be executed without doubt."""
    if end.error is not None:
        return AttemptDefect("bad", end.tool_call_name, end.error.message)
    return AttemptDefect("bad", end.tool_call_name, end.fault) if isinstance(end, InvalidCallEnd) else None
