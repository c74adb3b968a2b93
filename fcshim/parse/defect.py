"""Defects of calls, which the parser reports through `on_defect`, beside its events. The retry logic needs them.

Rule: each is reported before `feed` or `close` returns the event that it concerns.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

DefectKind = Literal["unoffered", "unreadable", "invalid"]


class Defect(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with a call of `tool_name`.

    `unoffered`, `unreadable`: it names no offered tool, or its syntax is broken, so it is text. An empty `Text` stands
    in its place, before this text. `invalid`: the arguments of the call `tool_call_id` violate the tool's schema, as
    `message` says. Its `ToolCallEnd` has no error and all arguments; the chunks lack the last of them, `unsent`.
    `is_restarted`: an unreadable call was, or may have been, broken off before its arguments and begun again. It does
    not count if the call after it is accepted.
    """

    kind: DefectKind
    tool_name: str = ""
    tool_call_id: str = ""
    message: str = ""
    unsent: str = ""
    is_restarted: bool = False


ReportDefect = Callable[[Defect], None]
