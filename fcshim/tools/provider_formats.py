"""Converts tool definitions to the formats of OpenAI, Anthropic and Gemini.

Rule: names and descriptions are unchanged. Gemini accepts fewer schema keywords: references are inlined, and keywords
that it does not accept are left out.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from fcshim.events import JSON
from fcshim.messages import Tool

ToolFormat: TypeAlias = Literal["openai", "anthropic", "gemini"]

_GEMINI_KEYWORDS = frozenset(
    [
        *("type", "format", "title", "description", "nullable", "enum", "default", "example", "anyOf"),
        *("items", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern"),
        *("properties", "required", "propertyOrdering", "minProperties", "maxProperties"),
    ]
)
_MAX_DEPTH = 32
_MAX_SCHEMAS = 2_000
"""Schemas written for one tool: inlined references can double at each level, or recurse without end."""


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
            declarations = [
                _name_and_description(tool) | {"parameters": _GeminiSchemaWriter(_schema(tool)).write(_schema(tool))}
                for tool in tools
            ]
            return [{"functionDeclarations": declarations}]


def _name_and_description(tool: Tool) -> dict[str, JSON]:
    return {"name": tool.name, "description": tool.description}


def _schema(tool: Tool) -> dict[str, JSON]:
    return tool.parameters if isinstance(tool.parameters, dict) else {"type": "object", "properties": {}}


class _GeminiSchemaWriter:
    """Converts the schemas under one root to the keywords that Gemini accepts."""

    def __init__(self, root: dict[str, JSON]) -> None:
        self._root = root
        self._remaining = _MAX_SCHEMAS

    def write(self, schema: JSON, depth: int = 0) -> dict[str, JSON]:
        """Convert one schema; beyond the limits the result is `{}`, which accepts any value."""
        self._remaining -= 1
        if not isinstance(schema, dict) or self._remaining < 0 or depth > _MAX_DEPTH:
            return {}
        plain: dict[str, JSON] = {}
        for keyword, value in (self._resolve_reference(schema.get("$ref")) | schema).items():
            plain |= self._write_keyword(keyword, value, depth + 1)
        return plain

    def _write_keyword(self, keyword: str, value: JSON, depth: int) -> dict[str, JSON]:
        match keyword:
            case "properties" if isinstance(value, dict):
                return {keyword: {name: self.write(each, depth) for name, each in value.items()}}
            case "items":
                return {keyword: self.write(value, depth)}
            case "anyOf" | "oneOf" if isinstance(value, list):
                return {"anyOf": [self.write(each, depth) for each in value]}
            case "const":
                return {"enum": [value]}
            case "type" if isinstance(value, list):
                return _split_types(value)
        return {keyword: value} if keyword in _GEMINI_KEYWORDS else {}

    def _resolve_reference(self, reference: JSON) -> dict[str, JSON]:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return {}
        found: JSON = self._root
        for step in reference[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def _split_types(types: list[JSON]) -> dict[str, JSON]:
    others = [each for each in types if each != "null"]
    nullable = {"nullable": True} if "null" in types else {}
    if len(others) == 1:
        return {"type": others[0]} | nullable
    return {"anyOf": [{"type": each} for each in others]} | nullable
