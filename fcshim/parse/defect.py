"""What is wrong with a reply: the parser reports it beside its events. The retry logic needs it.

Defects of calls go to `on_defect`, those of text that is no answer either to `on_copy`; without `on_defect`, calls of
tools that are not offered go there, too.

Rule: each is reported before `feed` or `close` returns the event that it concerns.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

CallDefectKind = Literal["unoffered", "unreadable", "invalid"]
CopyDefectKind = Literal["result", "copied", "unoffered", "end"]
DefectKind = CallDefectKind | CopyDefectKind


class Defect(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with a call of `tool_name`, or with text that is copied from the prompt.

    `unoffered`, `unreadable`: it names no offered tool, or its syntax is broken, so it is text. An empty `Text` stands
    in its place, before this text. The end of the text of an `unoffered` one is reported as that of a copy.
    `invalid`: the arguments of the call `tool_call_id` violate the tool's schema, as `message` says. Its `ToolCallEnd`
    has no error and all arguments; the chunks lack the last of them, `unsent`.
    `is_restarted`: an unreadable call was, or may have been, broken off before its arguments and begun again. It does
    not count if the call after it is accepted.
    `result`: text between the tags of a tool's result, or such a result as an object. `copied`: the placeholder of a
    call, or a tool's definition. An empty `Text` stands before it, too, and one at its `end`, if that is known.
    """

    kind: DefectKind
    tool_name: str = ""
    tool_call_id: str = ""
    message: str = ""
    unsent: str = ""
    is_restarted: bool = False


ReportDefect = Callable[[Defect], None]
