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
