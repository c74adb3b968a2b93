"""A server's tool, with the interface of every tool.

Rule: it needs approval, whatever its server declares, unless the operator allowed it; its failures are results.
"""

import fnmatch
from collections.abc import Mapping

import msgspec
from mcp import MCPError
from mcp.types import Tool as ServerTool
from pydantic import ValidationError

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.mcp.connection import Connection
from fcshim.mcp.content import to_tool_result
from fcshim.mcp.definitions import define_tool
from fcshim.messages import Tool
from fcshim.tools.base import NO_CONTEXT, CallContext, Traits
from fcshim.tools.result import ToolResult, failed


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
        return Traits(
            sensitivity="ask",
            reads_only=hints is not None and hints.read_only_hint is True,
            allowed=any(fnmatch.fnmatchcase(self.name, pattern) for pattern in settings.allow),
            timeout=settings.timeout,
            source=f"mcp:{self.server}",
        )

    def with_name(self, name: str) -> "McpTool":
        """Return the same tool under another name."""
        other = McpTool(self._connection, self._tool)
        other.definition = msgspec.structs.replace(self.definition, name=name)
        return other

    async def call(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Call the server, or return a cached result; a failure is a result with `is_error`."""
        cache = self._connection.cache
        cacheable = self.traits.reads_only and not self._connection.changed_tools
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
