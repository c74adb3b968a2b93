"""Monitors a ready connection: pings the server, and follows changes of its tools.

Rule: an idle server that misses two pings is lost; a busy one is not pinged. Servers of the handshake era announce
changes by notification, later ones by subscription; either way the whole list is read again.
"""

import contextlib
from collections.abc import Callable

import anyio
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    ResourceUpdatedNotification,
    Tool,
    ToolListChangedNotification,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fcshim.errors import ToolError
from fcshim.mcp.http_client import UNREACHABLE
from fcshim.mcp.link import Link

_PING_SECONDS = 10.0
"""Seconds for the answer to a ping."""
_DEBOUNCE_SECONDS = 0.05
"""Seconds to wait for further notifications of a server that sends one for each of its tools."""
_RESUBSCRIBE_DELAY = 1.0
"""Seconds before an ended subscription is requested again; doubled after each refusal."""
_MAX_RESUBSCRIBE_DELAY = 60.0
_MAX_TOOLS = 1_000
"""Tools of one server: no model can choose among so many, and a list must end."""
_MAX_PAGES = 200
_RESOURCES_SECONDS = 3.0
"""Seconds to learn whether a server has resources; its tools do not wait longer for that."""


class ConnectionMonitor:
    """The monitor of one connection."""

    def __init__(
        self,
        link: Link,
        *,
        set_tools: Callable[[tuple[Tool, ...]], None],
        is_busy: Callable[[], bool],
        ping_interval: float,
        on_resource: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_resource = on_resource
        self._link, self._set_tools, self._is_busy, self._ping_interval = link, set_tools, is_busy, ping_interval
        self._tools_changed = anyio.Event()

    async def on_message(self, message: object) -> None:
        """Handle a message that the server sent without a request."""
        if isinstance(message, ToolListChangedNotification):
            self._tools_changed.set()
        elif isinstance(message, ResourceUpdatedNotification):
            self._on_resource(str(message.params.uri))

    async def run(self, client: Client) -> None:
        """Run until the connection is lost."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._refresh_tools, client)
            group.start_soon(self._ping, client)
            tools = client.server_capabilities.tools
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and tools is not None and bool(tools.list_changed):
                group.start_soon(self._subscribe, client)
            await self._link.lost.wait()
            group.cancel_scope.cancel()

    async def _refresh_tools(self, client: Client) -> None:
        while True:
            await self._tools_changed.wait()
            await anyio.sleep(_DEBOUNCE_SECONDS)
            self._tools_changed = anyio.Event()  # before the listing, so that a change during it is not missed
            try:
                self._set_tools(await list_tools(client))
            except MCPError:
                self._link.lost.set()

    async def _subscribe(self, client: Client) -> None:
        pause = _RESUBSCRIBE_DELAY
        while True:
            with contextlib.suppress(MCPError, SubscriptionLost):
                async with client.listen(tools_list_changed=True) as subscription:
                    self._tools_changed.set()  # changes before the subscription are only in the list
                    pause = _RESUBSCRIBE_DELAY
                    async for _ in subscription:
                        self._tools_changed.set()
            await anyio.sleep(pause)
            pause = min(pause * 2, _MAX_RESUBSCRIBE_DELAY)

    async def _ping(self, client: Client) -> None:
        missed = 0
        while missed < 2:
            await anyio.sleep(self._ping_interval)
            missed = 0 if self._is_busy() or await _is_alive(client) else missed + 1
        self._link.lost.set()


async def _is_alive(client: Client) -> bool:
    """Ping the server; an error is a sign of life too, unless the connection is gone."""
    with anyio.move_on_after(_PING_SECONDS):
        try:
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                await client.session.send_discover(client.protocol_version)
            else:
                await client.session.send_ping()
        except MCPError as error:
            return error.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT) and error.data != UNREACHABLE
        return True
    return False


async def list_tools(client: Client) -> tuple[Tool, ...]:
    """Read all pages of the list of tools. Raises `ToolError` for a list that does not end."""
    if client.server_capabilities.tools is None:
        return ()
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if len(tools) > _MAX_TOOLS:
            break
        if not cursor:
            return tuple(tools.values())
    raise ToolError(f"its list of tools does not end: {len(tools)} so far")


async def lists_resources(client: Client) -> bool:
    """Return whether the server lists any resource or template."""
    if client.server_capabilities.resources is None:
        return False
    with anyio.move_on_after(_RESOURCES_SECONDS), contextlib.suppress(MCPError, ValidationError):
        return bool((await client.list_resources()).resources) or bool(
            (await client.list_resource_templates()).resource_templates
        )
    return False
