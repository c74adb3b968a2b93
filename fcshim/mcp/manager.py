"""The connections to all servers: started together, called by the names of their tools.

Rule: a failing server loses only its own tools. Tools are in the order of the servers, so that a prompt made from them
is the same in every turn.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from fcshim.errors import ConfigError, RequestError, ToolError
from fcshim.events import JSON
from fcshim.mcp.connection import Connection, ConnectionTimeouts
from fcshim.mcp.connection_state import ConnectionState
from fcshim.mcp.pins import Pins
from fcshim.mcp.settings import McpServerConfig
from fcshim.mcp.tool import McpTool
from fcshim.mcp.tool_names import PREFIX, all_names, server_prefix
from fcshim.tools.arguments import check_arguments
from fcshim.tools.base import NO_CONTEXT, AnyTool, CallContext
from fcshim.tools.permission import describe_untrusted
from fcshim.tools.process_guard import ProcessGuard
from fcshim.tools.result import ToolResult, failed

if TYPE_CHECKING:
    from mcp.client.session import ElicitationFnT, SamplingFnT

    from fcshim.mcp.logins import OAuthLogins

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 10.0
"""Seconds for all servers to end, each within its own grace period; those that remain are cancelled."""
_DEFAULT_TIMEOUTS = ConnectionTimeouts()


class ServerStatus(msgspec.Struct, frozen=True):
    """The status of one server; `error`: why it is not connected, `changed_tools`: those that wait for approval."""

    name: str
    state: ConnectionState
    tools: int
    error: str
    changed_tools: tuple[str, ...]
    protocol_version: str

    @property
    def why_no_tools(self) -> str:
        """Why the server has no tools, if it has none."""
        if self.state is not ConnectionState.READY:
            return self.error or "it is still connecting"
        if self.changed_tools:
            names = ", ".join(self.changed_tools)
            return f"it changed what it says of {names}; to compare and approve: fcshim tools approve {self.name}"
        return "it offers none"


class Manager:
    """Connections to MCP servers. As a context manager it waits a while for each server's first attempt.

    `pins` hold the approved definitions of tools. `on_change` is called when tools are added, removed or changed.
    `sampling` and `elicitation` are the SDK's callbacks for servers that ask the model or the user. `logins` hold the
    tokens of remote servers, by default those of `fcshim tools login`. `roots` are the folders in which the user works,
    which servers may ask for. `unattended` says, where no user can be asked, whether a tool may run; the log names the
    tools that may not although their server says that they only read. Raises `ConfigError` for two servers with one
    name.
    """

    def __init__(
        self,
        servers: Iterable[McpServerConfig],
        *,
        pins: Pins | None = None,
        timeouts: ConnectionTimeouts = _DEFAULT_TIMEOUTS,
        on_change: Callable[[], None] | None = None,
        sampling: "SamplingFnT | None" = None,
        elicitation: "ElicitationFnT | None" = None,
        logins: "OAuthLogins | None" = None,
        roots: Sequence[Path] = (),
        unattended: Callable[[AnyTool], bool] | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._guard = ProcessGuard()
        self._on_change = on_change
        self._unattended = unattended
        self._untrusted: dict[str, str] = {}  # the last note about each server
        self._connections: dict[str, Connection] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._index: dict[str, McpTool] | None = None
        self._timeouts = timeouts
        pin_store = pins or Pins()
        for server in servers:
            if server.name in self._connections:
                raise ConfigError(f"there are two MCP servers named {server.name!r}")
            self._connections[server.name] = Connection(
                server,
                guard=self._guard,
                pins=pin_store,
                random=random,
                timeouts=timeouts,
                on_change=self._on_tools_changed,
                sampling=sampling,
                elicitation=elicitation,
                logins=logins,
                roots=roots,
            )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Connect to all servers at once and wait for their first attempts; a slow server is added when it is ready."""
        for name, connection in self._connections.items():
            if name not in self._tasks:
                self._tasks[name] = asyncio.create_task(connection.run(), name=f"mcp {name}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeouts.start):
                await asyncio.gather(*(connection.wait_first_attempt() for connection in self._connections.values()))
        for connection in self._connections.values():
            if connection.server.warning:
                logger.warning("%s: %s", connection.server.name, connection.server.warning)
        for status in self.status():
            if status.state is ConnectionState.READY and status.tools:
                logger.info("%s: %d tools", status.name, status.tools)
            else:
                logger.warning("%s: 0 tools: %s", status.name, status.why_no_tools)

    async def aclose(self) -> None:
        """End all servers, and wait until they have ended."""
        for connection in self._connections.values():
            connection.close()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._guard.aclose()

    def set_change_listener(self, on_change: Callable[[], None]) -> None:
        """Replace the constructor's `on_change`, which is called when tools are added, removed or changed."""
        self._on_change = on_change

    def status(self) -> list[ServerStatus]:
        """Return the status of each server."""
        return [
            ServerStatus(name, each.state, len(each.tools), each.error, each.listed.changed, each.protocol_version)
            for name, each in self._connections.items()
        ]

    def tools(
        self,
        *,
        enabled: bool | None = True,
        mode: Literal["auto", "manual"] | None = "auto",
        selected: Sequence[str] = (),
    ) -> tuple[McpTool, ...]:
        """Return the tools that are available now.

        The arguments are a request's settings: without `enabled` there are none; `mode` `auto` or None selects all
        servers, `manual` the `selected` ones. Raises `RequestError` for a selected server that is not configured.
        """
        if not enabled:
            return ()
        for connection in self._connections.values():
            connection.listed.recheck()
        if mode == "manual":
            for name in selected:
                if name not in self._connections:
                    known = ", ".join(self._connections) or "none"
                    raise RequestError(f"there is no MCP server named {name!r} (configured: {known})")
        names = dict.fromkeys(selected) if mode == "manual" else self._connections
        return tuple(McpTool(self._connections[name], tool) for name in names for tool in self._connections[name].tools)

    def find(self, name: str) -> McpTool | None:
        """Return the tool named `mcp__server__tool`, `server:tool` or `server__tool`, or None."""
        if self._index is None:
            self._index = {  # reversed, so that the first tool keeps an ambiguous name
                each: tool for tool in reversed(self.tools()) for each in reversed(all_names(tool.server, tool.name))
            }
        return self._index.get(name)

    async def call(self, name: str, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> ToolResult:
        """Call a tool by any of its names; a failure is a result with `is_error`.

        Arguments that do not fit the tool's schema are a failure, and the server does not see them.
        """
        tool = self.find(name)
        if tool is None:
            for server, connection in self._connections.items():
                if name.startswith((f"{server}:", server_prefix(server), PREFIX + server_prefix(server))):
                    return failed(connection.unavailable_message(name))
            return failed(f"There is no tool named {name}.")
        try:
            check_arguments(tool.definition, arguments)
        except ToolError as error:
            return failed(error.message)
        return await tool.call(arguments, context)

    def servers_with(self, capability: str) -> list[str]:
        """Return the names of the connected servers with a capability, such as `resources` or `prompts`."""
        return [name for name, connection in self._connections.items() if connection.has(capability)]

    def connection(self, name: str) -> Connection:
        """Return the connection of a server. Raises `RequestError` for an unknown one."""
        if name not in self._connections:
            raise RequestError(f"there is no MCP server named {name!r}")
        return self._connections[name]

    def approve(self, name: str) -> None:
        """Approve the changed tools of a server. Raises `RequestError` for an unknown server."""
        self.connection(name).listed.approve()

    def _on_tools_changed(self) -> None:
        self._index = None
        if self._unattended is not None:
            for name, connection in self._connections.items():
                note = describe_untrusted((McpTool(connection, tool) for tool in connection.tools), self._unattended)
                if note and note != self._untrusted.get(name):
                    self._untrusted[name] = note
                    logger.warning("%s", note)
        if self._on_change is not None:
            self._on_change()
