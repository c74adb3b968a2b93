"""Opens the tools of a conversation: built-in ones in a folder, those of servers, sub-agents.

Rule: everything that is started here is ended here; the SDK is imported only if there is a servers file.
"""

import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fcshim.agent import Agent, Sessions, SubAgents
from fcshim.agent.run import AskModel
from fcshim.agent.subagents import AskNamedModel, OpenServers, OwnTools, SubAgentProfile, describe_kinds, load_profiles
from fcshim.chat.edits import EditJournal, recorded
from fcshim.chat.prompter import Prompter
from fcshim.chat.provider_search import PROVIDER, ProviderSearch
from fcshim.chat.terminal_view import TerminalView
from fcshim.chat.user_commands import UserCommands
from fcshim.client import Client, EventStream
from fcshim.config import Config
from fcshim.errors import ConfigError
from fcshim.events import Event
from fcshim.mcp.config_file import load_servers
from fcshim.mcp.settings import McpServerConfig
from fcshim.mcp.tool_names import PREFIX, server_prefix
from fcshim.messages import Message, SystemMessage, TextPart, Tool
from fcshim.tools import AnyTool, Executor, Permissions, Registry
from fcshim.tools.builtin import Control, Files, Search, Shell, Skills, Web, Workspace
from fcshim.tools.builtin.websearch import SearchBackend, configured_search
from fcshim.tools.custom import CustomTools
from fcshim.tools.permission import PermissionMode

if TYPE_CHECKING:
    from fcshim.chat.servers import ServerWatch
    from fcshim.mcp.manager import Manager

PermissionsFactory = Callable[[PermissionMode], Permissions]


class ToolFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders that give a conversation tools: its workspace, Python files, skills, slash commands, agents."""

    root: str | None = None
    custom: str | None = None
    skills: str | None = None
    commands: str | None = None
    profiles: str | None = None


class ChatTools(msgspec.Struct, frozen=True):
    """The tools of a chat, the user's commands, and the servers, if there are any.

    `prefixes` begin the names of the servers' tools, `categories` are theirs.
    """

    registry: Registry
    commands: UserCommands
    servers: "ServerWatch | None" = None
    prefixes: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@asynccontextmanager
async def open_registry(
    folders: ToolFolders,
    servers: str | None,
    pins: str | None,
    prompter: Prompter,
    view: TerminalView,
    permissions: Permissions,
    *,
    wait: float,
    journal: EditJournal,
    config: Config,
) -> AsyncIterator[ChatTools]:
    """Start the servers, which connect meanwhile; `wait`: seconds to wait for them at most. Raises `ConfigError`."""
    builtin = _builtin_tools(folders, prompter, permissions, journal, config)
    commands = _existing_folder(folders.commands)
    custom = CustomTools(Path(folders.custom)) if folders.custom else None
    if servers is None:
        async with _open_own_tools(builtin, custom) as registry:
            yield ChatTools(registry, UserCommands(commands, None))
        return
    listed = _load_servers(servers, view, config)
    from fcshim.chat.servers import ServerWatch  # noqa: PLC0415
    from fcshim.mcp.hub import ToolHub  # noqa: PLC0415
    from fcshim.mcp.resources import ServerOffers  # noqa: PLC0415 - slow; errors in the file come first

    manager = _new_manager(listed, pins, prompter, folders.root, wait)
    async with ToolHub(builtin, custom=custom, manager=manager, background=True) as hub:
        offers = UserCommands(commands, lambda: ServerOffers(manager))
        prefixes = tuple(PREFIX + server_prefix(server.name) for server in listed)
        categories = tuple(server.category for server in listed)
        yield ChatTools(hub.registry, offers, ServerWatch(manager, hub, servers), prefixes, categories)


@asynccontextmanager
async def _open_own_tools(builtin: Sequence[AnyTool], custom: CustomTools | None) -> AsyncIterator[Registry]:
    """Open the built-in tools and those of Python files, which a hub loads again when the files change."""
    if custom is None:
        yield Registry(builtin)
        return
    from fcshim.mcp.hub import ToolHub  # noqa: PLC0415

    async with ToolHub(builtin, custom=custom) as hub:
        yield hub.registry


def _load_servers(file: str, view: TerminalView, config: Config) -> Sequence[McpServerConfig]:
    """Read the servers file, and show its warnings. Raises `ConfigError`."""
    servers = load_servers(file, os.environ, strict_packages=config.strict_packages)
    for server in servers:
        if server.warning:
            view.note(f"{server.name}: {server.warning}")
    return servers


def _new_manager(
    servers: Sequence[McpServerConfig], pins: str | None, prompter: Prompter, root: str | None, wait: float
) -> "Manager":
    from fcshim.mcp.connection import ConnectionTimeouts  # noqa: PLC0415
    from fcshim.mcp.manager import Manager  # noqa: PLC0415
    from fcshim.mcp.pins import Pins, default_pin_file  # noqa: PLC0415
    from fcshim.mcp.server_requests import elicitation_callback, sampling_callback  # noqa: PLC0415

    return Manager(
        servers,
        pins=Pins(Path(pins) if pins else default_pin_file(os.environ)),
        sampling=sampling_callback(prompter.sample),
        elicitation=elicitation_callback(prompter.elicit),
        roots=(Path(root),) if root else (),
        timeouts=ConnectionTimeouts(start=wait),
    )


@asynccontextmanager
async def register_agents(
    client: Client,
    registry: Registry,
    permissions: PermissionsFactory,
    mode: Callable[[], PermissionMode],
    model: Callable[[], str],
    profiles: Mapping[str, SubAgentProfile],
    open_servers: OpenServers,
    max_output: int | None,
) -> AsyncIterator[None]:
    """Register the tools for sub-agents and sessions, which get these tools and no wider permission."""

    def ask(messages: tuple[Message, ...], tools: tuple[Tool, ...], named: str | None = None) -> EventStream:
        return client.stream(messages, tools, model=named or model())

    async def session_agent(kind: str | None) -> Agent:
        profile, tools = agents.profile(kind), await agents.tools_of(kind)
        allowed = permissions(agents.mode_of(profile))
        return Agent(_asking(ask, profile), Executor(tools, permissions=allowed, max_output=max_output))

    agents = SubAgents(
        ask,
        registry,
        permissions=permissions,
        mode=mode,
        profiles=profiles,
        open_servers=open_servers,
        max_output=max_output,
    )
    sessions = Sessions(session_agent, lambda described: describe_kinds(described, profiles))
    for source, tools in (("builtin:agents", agents.tools()), ("builtin:sessions", sessions.tools())):
        registry.replace_source(source, tools, before="mcp:")  # servers come last, whenever they connect
    async with AsyncExitStack() as stack:
        stack.push_async_callback(agents.aclose)
        stack.push_async_callback(sessions.aclose)
        yield


def load_agent_profiles(folders: ToolFolders, config: Config) -> dict[str, SubAgentProfile]:
    """Read the kinds of agents that the user describes. Raises `ConfigError`."""
    if not folders.profiles:
        return {}
    return load_profiles(Path(folders.profiles), os.environ, strict_packages=config.strict_packages)


def open_own_servers(
    servers: Sequence[McpServerConfig], pins: str | None, prompter: Prompter, root: str | None, wait: float
) -> AbstractAsyncContextManager[OwnTools]:
    """Return the servers of a kind of agents; the names of their tools are `server__tool`."""
    from fcshim.mcp.loading import SessionTools  # noqa: PLC0415 - slow, and only for agents with servers

    return SessionTools(_new_manager(servers, pins, prompter, root, wait))


def _asking(ask: AskNamedModel, profile: SubAgentProfile) -> AskModel:
    """Return the function by which a session's agent requests replies: with its profile's system message and model."""
    system = (SystemMessage((TextPart(profile.system),)),) if profile.system else ()

    def asking(messages: tuple[Message, ...], tools: tuple[Tool, ...]) -> AsyncIterable[Event]:
        return ask((*system, *messages), tools, profile.model)

    return asking


def _search(config: Config, prompter: Prompter) -> SearchBackend | None:
    """Return what searches the web, None without a setting. Raises `ConfigError`."""
    if config.web_search == PROVIDER:
        return ProviderSearch(config, lambda: prompter.tool_model)
    return configured_search(config)


def _builtin_tools(
    folders: ToolFolders, prompter: Prompter, permissions: Permissions, journal: EditJournal, config: Config
) -> list[AnyTool]:
    tools: list[AnyTool] = []
    if folders.root is not None:
        workspace = Workspace(folders.root, restrict=config.restrict_to_workspace)
        tools += recorded(Files(workspace).tools(), workspace, journal)
        tools += [*Search(workspace).tools(), *Shell(workspace, seconds=config.exec_timeout).tools()]
        tools += Web(model=lambda: prompter.ask_model, service=_search(config, prompter)).tools()
    commands = _existing_folder(folders.commands)
    if folders.root is not None or commands is not None:
        tools += Control(commands=commands, restrict=permissions.restrict).tools()
    if folders.skills is not None:
        tools += Skills(Path(folders.skills)).tools()
    return tools


def _existing_folder(name: str | None) -> Path | None:
    """Return a folder; None for none. Raises `ConfigError` if it does not exist."""
    if name is not None and not Path(name).is_dir():
        raise ConfigError(f"{name}: not a folder; expected one with NAME.md files of commands")
    return None if name is None else Path(name)
