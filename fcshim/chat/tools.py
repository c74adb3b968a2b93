"""The tools of a conversation: built-in ones in a folder, those of servers, sub-agents.

Rule: everything that is started here is ended here; the SDK is imported only if there is a servers file.
"""

import os
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fcshim.agent import Agent, Sessions, SubAgents
from fcshim.chat.prompter import Prompter
from fcshim.chat.terminal_view import TerminalView
from fcshim.client import Client, EventStream
from fcshim.mcp.config_file import load_servers
from fcshim.messages import Message, Tool
from fcshim.tools import AnyTool, Executor, Permissions, Registry
from fcshim.tools.builtin import Control, Files, Search, Shell, Web, Workspace
from fcshim.tools.permission import PermissionMode

_AGENT_SOURCES = ("builtin:agents", "builtin:sessions")
"""Sources of tools that sub-agents do not get: they start no agents of their own."""

PermissionsFactory = Callable[[PermissionMode], Permissions]


@asynccontextmanager
async def open_registry(
    root: str | None, servers: str | None, pins: str | None, prompter: Prompter, view: TerminalView
) -> AsyncIterator[Registry]:
    """Start the servers; show those that did not start. Raises `ConfigError`."""
    builtin = _builtin_tools(root)
    if servers is None:
        yield Registry(builtin)
        return
    listed = load_servers(servers, os.environ)
    for server in listed:
        if server.warning:
            view.note(f"{server.name}: {server.warning}")
    from fcshim.mcp.hub import ToolHub  # noqa: PLC0415
    from fcshim.mcp.manager import Manager  # noqa: PLC0415
    from fcshim.mcp.pins import Pins, default_pin_file  # noqa: PLC0415
    from fcshim.mcp.server_requests import elicitation_callback, sampling_callback  # noqa: PLC0415 - slow; errors in the file come first

    manager = Manager(
        listed,
        pins=Pins(Path(pins) if pins else default_pin_file(os.environ)),
        sampling=sampling_callback(prompter.sample),
        elicitation=elicitation_callback(prompter.elicit),
        roots=(Path(root),) if root else (),
    )
    async with ToolHub(builtin, manager=manager) as hub:
        for status in manager.status():
            if status.changed_tools:
                approve = shlex.join(["fcshim", "tools", "approve", status.name, "--mcp", servers])
                view.error(
                    f"{status.name}: changed {', '.join(status.changed_tools)}; to compare and approve: {approve}"
                )
            elif status.error:
                view.error(f"{status.name}: {status.error}")
        yield hub.registry


@asynccontextmanager
async def register_agents(
    client: Client,
    registry: Registry,
    permissions: PermissionsFactory,
    mode: Callable[[], PermissionMode],
    model: Callable[[], str],
) -> AsyncIterator[None]:
    """Register the tools for sub-agents and sessions, which get these tools and no wider permission."""

    def ask(messages: tuple[Message, ...], tools: tuple[Tool, ...], named: str | None = None) -> EventStream:
        return client.stream(messages, tools, model=named or model())

    def session_agent(_: str | None) -> Agent:
        given = Registry(tool for tool in registry if not tool.traits.source.startswith(_AGENT_SOURCES))
        return Agent(ask, Executor(given, permissions=permissions(mode())))

    agents = SubAgents(ask, registry, permissions=permissions, mode=mode)
    sessions = Sessions(session_agent)
    registry.register_all([*agents.tools(), *sessions.tools()])
    async with AsyncExitStack() as stack:
        stack.push_async_callback(agents.aclose)
        stack.push_async_callback(sessions.aclose)
        yield


def _builtin_tools(root: str | None) -> list[AnyTool]:
    if root is None:
        return []
    workspace = Workspace(root)
    return [
        *Files(workspace).tools(),
        *Search(workspace).tools(),
        *Shell(workspace).tools(),
        *Web().tools(),
        *Control().tools(),
    ]
