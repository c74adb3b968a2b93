"""Converts calls that the upstream has parsed, although no tools were sent to it, back to text.

Some servers (mlx_lm.server, llama-server with some templates) parse everything that has the call syntax of the model's
template, without the offered tools and their schemas.

Rule: such a call is read from this text, so that it passes the same checks as a call that came as text.
"""

import json

from fcshim.events import ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.parse.dialects import FUNCTION_CALL

START_MARKER = f"{FUNCTION_CALL.open}\n"
"""The text before `call_text`; `StreamParser.begin_call` reads it."""
_UNFINISHED = frozenset({"truncated", "limit"})
"""Errors of a call that was not completed."""


def call_text(event: ToolCallStart | ToolCallChunk | ToolCallEnd) -> str:
    """Return the part of a call's text, behind `START_MARKER`, that this event stands for."""
    match event:
        case ToolCallStart():
            return f'{{"name": {json.dumps(event.tool_call_name, ensure_ascii=False)}, "arguments": '
        case ToolCallChunk():
            return event.tool_call_arguments_chunk
        case _:
            unfinished = event.error is not None and event.error.kind in _UNFINISHED
            return "" if unfinished else f"}}\n{FUNCTION_CALL.close}"
