"""An executor's tools as an MCP server: other programs call them over stdio, over HTTP or in this process.

Rule: a tool that is not visible does not exist for clients; calling one is a protocol error. A call goes
through the executor: lookup, validation, permission, execution. There is no user to ask, so a call that needs approval
is refused.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    AudioContent,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as ServerTool

from fcshim.events import JSON, ToolCallEnd
from fcshim.mcp.definitions import object_schema
from fcshim.mcp.forwarding import ClientForwarding
from fcshim.messages import Part, TextPart
from fcshim.tools import AnyTool, CallEvent, CallProgressed, Executor, ToolResult

ToolFilter: TypeAlias = Callable[[AnyTool], bool]
GatewayContext: TypeAlias = ServerRequestContext[dict[str, JSON], JSON]


_LIST_WAIT = 4.0
"""Seconds from the start for which a list of tools waits for the servers: most connect meanwhile, and many hosts read
the list only once. A slower server's tools are added when it connects, and the hosts are notified."""
_CALL_WAIT = 30.0
"""Seconds from the start for which a call of an unknown tool waits: hosts that remember the tools do not list them."""


class Gateway:
    """Offers an executor's tools for which `visible` is true; `server` is the SDK's server object.

    `wait_servers` waits until the servers have connected, at most the given seconds; None: there are no servers.
    `forwarding` receives the calls that run, so that servers behind the gateway can ask its client.
    """

    def __init__(
        self,
        tools: Executor,
        *,
        visible: ToolFilter = lambda _: True,
        name: str = "fcshim",
        wait_servers: Callable[[float], Awaitable[None]] | None = None,
        forwarding: ClientForwarding | None = None,
    ) -> None:
        self._forwarding = forwarding or ClientForwarding()
        self._tools = tools
        self._visible = visible
        self._wait_servers = wait_servers
        self._started_at = time.monotonic()
        self._bus = InMemorySubscriptionBus()
        self._session: ServerSession | None = None
        self.server: Server[dict[str, JSON]] = Server(
            name,
            version=version("fcshim"),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=self._input_schema,
        )

    @property
    def initialization_options(self) -> InitializationOptions:
        """The options for stdio clients: they announce notifications of changed tools."""
        return self.server.create_initialization_options(NotificationOptions(tools_changed=True))

    async def notify_tools_changed(self) -> None:
        """Notify the clients that the tools have changed.

        Subscribers get an event; a stdio client of a protocol before 2026 gets the notification of that protocol.
        """
        await self._bus.publish(ToolsListChanged())
        if self._session is not None:
            await self._session.send_tool_list_changed()

    async def _list_tools(self, context: GatewayContext, _: PaginatedRequestParams | None) -> ListToolsResult:
        # A request over stdio has no HTTP request; its session is the only one, and lasts.
        self._session = context.session if context.request is None else None
        await self._wait_until(_LIST_WAIT)
        return ListToolsResult(tools=[_to_mcp_tool(tool) for tool in self._tools.registry if self._visible(tool)])

    async def _call_tool(self, context: GatewayContext, params: CallToolRequestParams) -> CallToolResult:
        if not self._offers(params.name):
            await self._wait_until(_CALL_WAIT)
        if not self._offers(params.name):
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name!r:.200}")
        arguments = json.dumps(params.arguments or {})
        call = ToolCallEnd(str(context.request_id), params.name, arguments, 0)
        stdio = context.request is None
        with self._forwarding.during_call(context.session, context.request_id, stdio=stdio):
            result = await self._run(context, call)
            structured = result.structured if isinstance(result.structured, dict) else None
            content = [_to_content_block(part) for part in result.content]
            return CallToolResult(content=content, structured_content=structured, is_error=result.is_error)

    def _offers(self, name: str) -> bool:
        tool = self._tools.registry.get(name)
        return tool is not None and self._visible(tool)

    async def _wait_until(self, seconds: float) -> None:
        """Wait for the servers until so many seconds after the start."""
        if self._wait_servers is not None:
            await self._wait_servers(max(0.0, self._started_at + seconds - time.monotonic()))

    async def _run(self, context: GatewayContext, call: ToolCallEnd) -> ToolResult:
        async with asyncio.TaskGroup() as group:

            def report_progress(event: CallEvent) -> None:
                if isinstance(event, CallProgressed):
                    done = event.progress
                    group.create_task(context.session.report_progress(done.done, done.total, done.message or None))

            return await self._tools.call(call, report_progress)

    def _input_schema(self, name: str) -> dict[str, JSON] | None:
        tool = self._tools.registry.get(name)
        return None if tool is None else object_schema(tool.definition.parameters)


def _to_mcp_tool(tool: AnyTool) -> ServerTool:
    definition, traits = tool.definition, tool.traits
    return ServerTool(
        name=definition.name,
        description=definition.description,
        input_schema=object_schema(definition.parameters),
        annotations=ToolAnnotations(read_only_hint=traits.reads_only),
    )


def _to_content_block(part: Part) -> ContentBlock:
    if isinstance(part, TextPart):
        return TextContent(type="text", text=part.text)
    kind = part.media_type.partition("/")[0]
    if kind == "image" and part.data is not None:
        return ImageContent(type="image", data=part.data, mime_type=part.media_type)
    if kind == "audio" and part.data is not None:
        return AudioContent(type="audio", data=part.data, mime_type=part.media_type)
    return TextContent(type="text", text=ToolResult((part,)).flat_text)
