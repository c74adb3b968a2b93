"""The tools that MCP's conformance suite calls, as functions for `fcshim mcp --tools`; names and texts are the suite's.

Tools that ask the client, log, or return resources are missing: a Python function cannot do that in fcshim.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.messages import MediaPart, TextPart, Tool
from fcshim.tools import CallContext, ToolProgress, ToolResult, Traits

_IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/q842iQAAAABJRU5ErkJggg=="
_SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAAAA=="


def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


def test_image_content() -> ToolResult:
    """Return an image of one pixel."""
    return ToolResult((MediaPart("image/png", data=_IMAGE),))


def test_audio_content() -> ToolResult:
    """Return a sound of one sample."""
    return ToolResult((MediaPart("audio/wav", data=_SOUND),))


def test_multiple_content_types() -> ToolResult:
    """Return a text and an image."""
    return ToolResult((TextPart("Multiple content types test:"), MediaPart("image/png", data=_IMAGE)))


async def test_tool_with_progress(context: CallContext) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        context.report(ToolProgress(done, 100, f"{done} of 100"))
        await asyncio.sleep(0.05)
    return "done"


def test_trigger_tool_change() -> str:
    """Add a tool to this folder."""
    text = 'def test_added() -> str:\n    """Do nothing."""\n    return ""\n'
    Path(__file__).with_name("added.py").write_text(text, encoding="utf-8")
    return "done"


class _SchemaTool:
    """A tool whose schema has keywords that no Python signature has."""

    traits = Traits(source="custom:tools")

    def __init__(self, name: str, schema: dict[str, JSON]) -> None:
        self.definition = Tool(name=name, description="Return the arguments.", parameters=schema)

    async def call(self, arguments: Mapping[str, JSON], context: CallContext) -> ToolResult:
        """Return the arguments."""
        return ToolResult((TextPart(str(dict(arguments))),))


_HEADER_SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
_RICH_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

TOOLS = [
    test_simple_text,
    test_error_handling,
    test_image_content,
    test_audio_content,
    test_multiple_content_types,
    test_tool_with_progress,
    test_trigger_tool_change,
    _SchemaTool("json_schema_2020_12_tool", _RICH_SCHEMA),
    _SchemaTool("test_header", _HEADER_SCHEMA),
]
