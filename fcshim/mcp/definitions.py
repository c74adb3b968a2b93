"""Converts servers' tool definitions to definitions that every model accepts.

Rule: a description is unchanged; a schema becomes one of an object, and keeps everything valid.
"""

import logging
from collections.abc import Iterator

import msgspec
from mcp.types import Tool as ServerTool

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.mcp.settings import McpServerConfig
from fcshim.mcp.tool_names import full_name
from fcshim.messages import Tool
from fcshim.sanitize import sanitize_line
from fcshim.schema.limits import ToolLimits, check_schema

_TYPE_KEYWORDS = frozenset(
    {
        "type", "anyOf", "oneOf", "allOf", "$ref", "$dynamicRef", "enum", "const", "not", "if",
        "properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties",
        "items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }
)  # fmt: skip
"""Keywords that say of which type a value is, or that it is no string."""

_LIMITS = ToolLimits(schema_bytes=256 * 1024, schema_depth=32)
_MAX_TEXT = 64 * 1024
"""Characters of a name and a description; more would leave no space in a model's context."""

_MAX_LEFT_OUT = 100
"""Tools that are left out, of which the reason is kept."""

logger = logging.getLogger(__name__)


class Parameter(msgspec.Struct, frozen=True):
    """One parameter, for display."""

    name: str
    type: str
    description: str
    required: bool
    enum: list[JSON] | None = None
    default: JSON = msgspec.UNSET


def define_tool(server: McpServerConfig, tool: ServerTool) -> Tool:
    """Return the definition that the model gets of a server's tool."""
    description = tool.description or tool.title or f"The tool {tool.name} of the MCP server {server.name}"
    parameters = _typed(object_schema(tool.input_schema))
    return Tool(full_name(server.name, tool.name), description, parameters, returns=_bounded(tool.output_schema))


def object_schema(schema: JSON) -> dict[str, JSON]:
    """Return a schema of an object: an empty one for none, an object's unchanged, any other one wrapped."""
    if not isinstance(schema, dict) or not schema:
        return {"type": "object", "properties": {}}
    if schema.get("type", "object") == "object":
        return {"type": "object", "properties": {}, **schema}
    return {"type": "object", "properties": {"value": schema}, "required": ["value"]}


def _bounded(schema: dict[str, JSON] | None) -> dict[str, JSON] | None:
    """Return the schema of a result; None for one beyond the limits."""
    try:
        check_schema(schema, "", _LIMITS, param="outputSchema")
    except RequestError:
        return None
    return schema


def _typed(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Return the schema with the type string for parameters that have no type: in the prompt as in validation."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or all(map(_says_type, properties.values())):
        return schema
    typed = {
        name: each if _says_type(each) else {"type": "string", **(each if isinstance(each, dict) else {})}
        for name, each in properties.items()
    }
    return {**schema, "properties": typed}


def _says_type(schema: JSON) -> bool:
    """Return whether a parameter's schema says of which type it is; a default that is no string does, too."""
    if not isinstance(schema, dict):
        return schema is not True
    return bool(_TYPE_KEYWORDS & schema.keys()) or not isinstance(schema.get("default", ""), str)


def repair_tool_list(result: dict[str, JSON], left_out: dict[str, str] | None = None) -> None:
    """Repair a `tools/list` result in place, so that the SDK accepts it; `left_out` gets why each tool was removed.

    Some servers send a schema without a type (zod 4 behind an older converter writes `{"$schema": ...}` alone), for
    which the SDK rejects the whole list.
    """
    if not isinstance(result.get("tools"), list):
        return
    reasons = {} if left_out is None else left_out
    tools = [tool for tool in result["tools"] if _is_offered(tool, reasons)]
    for tool in tools:
        tool["inputSchema"] = object_schema(tool.get("inputSchema"))
        output = tool.get("outputSchema")
        if not isinstance(output, dict) or output.get("type") != "object":
            tool.pop("outputSchema", None)
    result["tools"] = tools


def _is_offered(tool: JSON, left_out: dict[str, str]) -> bool:
    """Return whether a tool can be offered; if it cannot, log why and note it in `left_out`."""
    reason = _reason_to_leave_out(tool)
    if reason and isinstance(tool, dict):
        name = sanitize_line(str(tool.get("name"))[:100].strip()) or "(empty)"
        if len(left_out) < _MAX_LEFT_OUT:
            left_out[name] = reason
        logger.warning("a tool is left out: %s: %s", name, reason)
    return not reason


def _reason_to_leave_out(tool: JSON) -> str:
    """Return why a tool cannot be offered: a schema beyond the limits, a text that fills a prompt; else nothing."""
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return "it has no name"
    if not any(char.isprintable() and not char.isspace() for char in tool["name"]):
        return "its name has no visible character"
    execution = tool.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        return "it runs as a task only, which is not supported"
    try:
        check_schema(tool.get("inputSchema"), tool["name"][:100], _LIMITS, param="inputSchema")
    except RequestError as error:
        return error.message
    size = len(tool["name"]) + len(str(tool.get("description", "")))
    return f"name and description have {size} characters, more than {_MAX_TEXT}" if size > _MAX_TEXT else ""


def list_parameters(schema: dict[str, JSON]) -> Iterator[Parameter]:
    """Yield the parameters that a schema describes; one without a type is a string."""
    required = schema.get("required") or ()
    for name, property_schema in (schema.get("properties") or {}).items():
        schema_fields = property_schema if isinstance(property_schema, dict) else {}
        yield Parameter(
            name=name,
            type=_type_label(schema_fields),
            description=str(schema_fields.get("description", "")),
            required=name in required,
            enum=schema_fields.get("enum"),
            default=schema_fields.get("default", msgspec.UNSET),
        )


def _type_label(schema: dict[str, JSON]) -> str:
    written = schema.get("type")
    if isinstance(written, list):
        return " or ".join(map(str, written))
    if isinstance(written, str):
        return written
    return "any" if _says_type(schema) else "string"
