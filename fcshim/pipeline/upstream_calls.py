"""Converts calls that the upstream has parsed, although no tools were sent to it, back to text.

Some servers (mlx_lm.server, llama-server with some templates) parse everything that has the call syntax of the model's
template, without the offered tools and their schemas.

Rule: such a call is read from this text, so that it passes the same checks as a call that came as text. Nothing closes
arguments that the upstream left unfinished: with a closing brace added, they would say something else.
"""

import json
import re

from fcshim.events import ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.parse.dialects import FUNCTION_CALL

START_MARKER = f"{FUNCTION_CALL.call.open}\n"
"""The text before `call_text`; `StreamParser.begin_call` reads it."""
_UNFINISHED = frozenset({"truncated", "limit"})
"""Errors of a call that was not completed."""
_TOKEN = re.compile(r'"(?>(?:[^"\\]+|\\.)*)(?:"|(?P<open_string>))|(?P<open>[{\[])|(?P<close>[}\]])', re.DOTALL)


def call_text(event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> str:
    """Return the part of a call's text, behind `START_MARKER`, that this event stands for."""
    match event:
        case ToolCallStart():
            return f'{{"name": {json.dumps(event.tool_call_name, ensure_ascii=False)}, "arguments": '
        case ToolCallChunk():
            return event.tool_call_arguments_chunk
        case _:
            unfinished = event.error is not None and event.error.kind in _UNFINISHED
            return (
                "" if unfinished or _is_open(event.tool_call_arguments_complete) else f"}}\n{FUNCTION_CALL.call.close}"
            )


def _is_open(arguments: str) -> bool:
    """Return whether a bracket or a string of the arguments is not closed."""
    depth = 0
    for found in _TOKEN.finditer(arguments):
        if found["open_string"]:
            return True
        depth += 1 if found["open"] else -1 if found["close"] and depth else 0
    return depth > 0
