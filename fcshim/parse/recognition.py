"""Recognises the dialect of a call in a text, by its markers and by what the dialect's parser reads.

Rule: a dialect without a start marker is never recognised: JSON alone says nothing about the format of a model.
"""

from collections.abc import Mapping

import msgspec

from fcshim.events import JSON, ToolCallEnd
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import parse

SAMPLE_NAME = "lookup_time"
SAMPLE_ARGUMENTS: dict[str, JSON] = {"city": "Lima"}
SAMPLE_TOOLS: list[dict[str, JSON]] = [
    {
        "type": "function",
        "function": {
            "name": SAMPLE_NAME,
            "description": "Returns the time.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
_QUESTION = "Sample question."
_RESULT = "Sample result."
_CALL_ID = "call12345"
"""Mistral's templates demand nine letters and digits."""


def sample_messages(arguments: JSON) -> list[dict[str, JSON]]:
    """Return a conversation with a call of the sample tool, for a chat template to render.

    `arguments` are `SAMPLE_ARGUMENTS`, or their JSON, whichever the templates get.
    """
    call = {"id": _CALL_ID, "type": "function", "function": {"name": SAMPLE_NAME, "arguments": arguments}}
    return [
        {"role": "user", "content": _QUESTION},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": _CALL_ID, "name": SAMPLE_NAME, "content": _RESULT},
    ]


def call_in_prompt(prompt: str) -> str:
    """Return the part of a rendered prompt in which the sample's call stands; empty if it does not."""
    text = prompt.rpartition(_QUESTION)[2].partition(_RESULT)[0]
    return text if SAMPLE_NAME in text else ""


def recognise_dialects(text: str, name: str, arguments: Mapping[str, JSON]) -> list[Dialect]:
    """Return the dialects of the table that read exactly this call in `text`, in the order of the table."""
    return [row for row in DIALECTS.values() if _reads(row, text, name, arguments)]


def start_marker(dialect: Dialect) -> str:
    """Return the marker with which a reply that is a call begins in this dialect; empty if it has none."""
    return dialect.section.open or dialect.call.open


def _reads(dialect: Dialect, text: str, name: str, arguments: Mapping[str, JSON]) -> bool:
    """Return whether a reply that begins with the dialect's marker in `text` is the call.

    What stands before the marker ends the turn before, and may be markers of the chat template.
    """
    marker = start_marker(dialect)
    at = text.find(marker) if marker and not dialect.fenced else -1
    if at < 0:
        return False
    ends = [event for event in parse(text[at:], dialect, (Tool(name),)) if isinstance(event, ToolCallEnd)]
    if len(ends) != 1 or ends[0].error is not None or ends[0].tool_call_name != name:
        return False
    return bool(msgspec.json.decode(ends[0].tool_call_arguments_complete) == arguments)
