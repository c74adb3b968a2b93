"""Converts tool definitions to the formats of OpenAI, Anthropic and Gemini.

Rule: names and descriptions are unchanged. Gemini's schemas are those that its codec sends.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from fcshim.codecs.gemini.upstream_request import write_declaration
from fcshim.events import JSON
from fcshim.messages import Tool

ToolFormat: TypeAlias = Literal["openai", "anthropic", "gemini"]


def convert_tools(tools: Iterable[Tool], tool_format: ToolFormat) -> list[dict[str, JSON]]:
    """Convert tools to the `tools` list of a provider's request."""
    match tool_format:
        case "openai":
            return [
                {"type": "function", "function": _name_and_description(tool) | {"parameters": _schema(tool)}}
                for tool in tools
            ]
        case "anthropic":
            return [_name_and_description(tool) | {"input_schema": _schema(tool)} for tool in tools]
        case "gemini":
            return [{"functionDeclarations": [write_declaration(tool) for tool in tools]}]


def _name_and_description(tool: Tool) -> dict[str, JSON]:
    return {"name": tool.name, "description": tool.description}


def _schema(tool: Tool) -> dict[str, JSON]:
    return tool.parameters if isinstance(tool.parameters, dict) else {"type": "object", "properties": {}}
