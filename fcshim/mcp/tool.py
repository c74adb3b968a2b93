"""A server's tool, with the interface of every tool, and its result.

Rule: it needs approval, whatever its server declares, unless the operator allowed it or trusts what the server
declares; its failures are results. Nothing of a result is lost: text, images and audio keep their types, any other
content becomes text or JSON.
"""

import fnmatch
import itertools
import json
from collections.abc import Iterable, Mapping

import msgspec
from mcp import MCPError
from mcp.types import CallToolResult, ToolAnnotations
from mcp.types import Tool as ServerTool
from pydantic import ValidationError

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.mcp.connection import Connection
from fcshim.mcp.content import to_parts
from fcshim.mcp.definitions import define_tool
from fcshim.messages import Content, MediaPart, Part, TextPart, Tool
from fcshim.tools.base import NO_CONTEXT, CallContext, Traits
from fcshim.tools.result import ToolResult, failed

_MAX_COMPARED = 1_000_000
"""Characters of a text that is compared with the structured content: reading more takes too long for other streams."""
_NO_MESSAGE = "The tool failed and did not say why."


def to_tool_result(result: CallToolResult) -> ToolResult:
    """Convert a server's result; adjacent texts are joined by a line feed."""
    parts: list[Part] = list(to_parts(result.content))
    texts, value = _texts(parts), result.structured_content
    # MCP asks servers to repeat the value as text: twice would waste the model's context.
    if value is not None and not any(_text_equals(text, value) for text in (*texts, "\n".join(texts))):
        parts.append(TextPart(json.dumps(value, ensure_ascii=False)))
    if result.is_error and not any(isinstance(part, MediaPart) or part.text.strip() for part in parts):
        parts = [TextPart(_NO_MESSAGE)]
    return ToolResult(_join_texts(parts), is_error=result.is_error, structured=value)


def _text_equals(text: str, value: JSON) -> bool:
    # Servers wrap a result that is not an object: `{"result": ...}` in Python, `{"content": ...}` and others elsewhere.
    unwrapped = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if text == unwrapped:
        return True
    if len(text) > _MAX_COMPARED:
        return False
    try:
        return json.loads(text) in (value, unwrapped)
    except (ValueError, RecursionError):
        return False


def _join_texts(parts: Iterable[Part]) -> Content:
    joined: list[Part] = []
    for kind, group in itertools.groupby(parts, type):
        if kind is TextPart:
            joined.append(TextPart("\n".join(_texts(group))))
        else:
            joined.extend(group)
    return tuple(joined)


def _texts(parts: Iterable[Part]) -> list[str]:
    return [part.text for part in parts if isinstance(part, TextPart)]


def _hint_warnings(hints: ToolAnnotations | None) -> tuple[str, ...]:
    """Return the risks that a server declares for its tool.

    Without annotations there are none: few servers annotate tools.
    """
    if hints is None or hints.read_only_hint:
        return ()
    claims = {
        "may delete or overwrite something, as its server says": hints.destructive_hint,
        "reaches beyond this machine, as its server says": hints.open_world_hint,
    }
    return tuple(warning for warning, is_claimed in claims.items() if is_claimed)


class McpTool:
    """A tool of an MCP server; `server` is the server's name, `name` the tool's name there."""

    def __init__(self, connection: Connection, tool: ServerTool) -> None:
        self._connection = connection
        self._tool = tool
        self.server = connection.server.name
        self.name = tool.name
        self.definition: Tool = define_tool(connection.server, tool)

    @property
    def traits(self) -> Traits:
        """The properties for permissions: a call needs approval unless the server's settings allow it."""
        settings, hints = self._connection.server, self._tool.annotations
        reads_only = hints is not None and hints.read_only_hint is True
        return Traits(
            sensitivity="ask",
            reads_only=reads_only,
            allowed=(reads_only and settings.trust == "annotations")
            or any(fnmatch.fnmatchcase(self.name, pattern) for pattern in settings.allow),
            timeout=settings.timeout,
            source=f"mcp:{self.server}",
            category=settings.category,
            warnings=_hint_warnings(hints),
        )

    def with_name(self, name: str) -> "McpTool":
        """Return the same tool under another name."""
        other = McpTool(self._connection, self._tool)
        other.definition = msgspec.structs.replace(self.definition, name=name)
        return other

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Call the server, or return a cached result; a failure is a result with `is_error`."""
        cache = self._connection.cache
        cacheable = self.traits.reads_only and not self._connection.listed.changed
        cached = cache.get(self.name, arguments) if cacheable else None
        if cached is not None:
            return cached
        result = await self._call_server(arguments, context)
        if cacheable:
            cache.put(self.name, arguments, result)
        return result

    async def _call_server(self, arguments: Mapping[str, JSON], context: CallContext) -> ToolResult:
        try:
            return to_tool_result(await self._connection.call(self.name, arguments, report=context.report))
        except ToolError as error:
            return failed(error.message)
        except MCPError as error:
            return failed(f"The MCP server {self.server} failed: {error.message or error.code}")
        except (ValidationError, RuntimeError) as error:  # RuntimeError: the result does not fit the output schema
            return failed(f"The MCP server {self.server} gave no valid result: {str(error)[:500]}")
