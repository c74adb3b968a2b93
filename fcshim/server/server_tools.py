"""Server tools: tools of the configured MCP servers, added to requests, and tools of the client's provider for the web.

Rule: there is no user to ask, so a call runs only if its server declares the tool read-only or the operator allows it.
Clients select among the configured servers (`x-fcshim-mcp`); no request can name a command to start. The web is
searched only for clients that ask their provider for it.
"""

import asyncio
import fnmatch
import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from fcshim.config import Config
from fcshim.errors import RequestError
from fcshim.mcp.config_file import load_servers
from fcshim.mcp.pins import Pins, default_pin_file
from fcshim.mcp.settings import McpServerConfig
from fcshim.mcp.tool_names import qualified_name
from fcshim.messages import (
    Message,
    ProviderTool,
    Request,
    SystemMessage,
    TextPart,
    ToolChoice,
    ToolMessage,
    UserMessage,
    count_leading_system,
    text_of,
)
from fcshim.server.client_connection import ClientConnection
from fcshim.server.rounds import ToolLoop, TurnCache
from fcshim.server.store.client_memory import ClientMemory
from fcshim.tools import AnyTool, Executor, PermissionDecision, PermissionRequest, Permissions
from fcshim.tools.base import offered_definition
from fcshim.tools.executor import CallListener

if TYPE_CHECKING:
    from fcshim.mcp.manager import Manager
    from fcshim.server.web_tools import WebTool
    from fcshim.tools.builtin.websearch import SearchService

logger = logging.getLogger("fcshim.server")

SERVERS_HEADER = b"x-fcshim-mcp"
"""Request header that selects server tools: `off`, `auto` (all, the default), or a list of server names."""


class ServerSelection(msgspec.Struct, frozen=True):
    """The value of the header, as arguments of `Manager.tools`."""

    enabled: bool = True
    mode: Literal["auto", "manual"] = "auto"
    selected: tuple[str, ...] = ()


class ServerTools:
    """The tools of `servers`. Without servers there are none, and requests stay unchanged."""

    def __init__(
        self,
        config: Config,
        servers: Sequence[McpServerConfig],
        pins: Path,
        search: "SearchService | None" = None,
    ) -> None:
        self.has_servers = bool(servers)
        """Whether a request may get tools although it names none."""
        self._config = config
        self._servers = servers
        self._pins = pins
        self._search = search
        self._provider_tools = ProviderToolPolicy()
        self._manager: Manager | None = None
        self._starting: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to connect to the MCP servers; only requests that could use their tools wait for them.

        If a server fails, only its tools are missing.
        """
        if self._servers:
            from fcshim.mcp.manager import Manager  # noqa: PLC0415 - importing the SDK takes 1.6 s

            self._manager = Manager(
                self._servers,
                pins=Pins(self._pins),
                unattended=lambda tool: tool.traits.allowed or self._is_allowed(tool.definition.name),
            )
            self._starting = asyncio.create_task(self._manager.start(), name="mcp servers")

    async def aclose(self) -> None:
        """Stop the MCP servers, also those that are still starting."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._manager is not None:
            await self._manager.aclose()

    async def add_to_request(
        self, request: Request, connection: ClientConnection, memory: ClientMemory
    ) -> tuple[Request, ToolLoop | None]:
        """Return the request for the model, and the tool loop if server tools were added.

        Waits for the servers' first attempts to connect, which `ConnectionTimeouts.start` limits.
        Raises `RequestError` if the selection names an unknown server, or if several choices are requested;
        `StoreError` if earlier turns cannot be looked up.
        """
        if self._manager is None and not request.provider_tools:
            return request, None
        executed: list[ProviderTool] = []
        if self._search is not None and request.provider_tools:
            functions = {tool.name for tool in request.tools}  # one of the client takes the place of the provider's
            runnable = (tool for tool in request.provider_tools if tool.action and tool.name not in functions)
            executed = list({tool.name: tool for tool in runnable}.values())
        offered = await self._mcp_tools(connection) if request.messages else None
        if offered is None and not executed:
            return request, None
        turns = TurnCache(memory)
        messages = await turns.restore(request.messages)
        restored = request if messages == request.messages else msgspec.structs.replace(request, messages=messages)
        web_tools = self._web_tools(executed, restored.messages)
        taken = {tool.name for tool in (*request.tools, *(tool.definition for tool in web_tools))}
        tools: list[AnyTool] = [*web_tools, *(tool for tool in offered or () if tool.definition.name not in taken)]
        if request.tool_choice.mode == "none" or not tools:
            return restored, None
        if request.n > 1:
            raise RequestError(
                f"n: server tools allow one choice only; turn them off with '{SERVERS_HEADER.decode()}: off'",
                param="n",
            )
        logger.debug("offered: %s", dict(Counter(tool.traits.source for tool in tools)))
        uses = {tool.definition.name: tool.uses for tool in web_tools}
        tool_loop = ToolLoop(
            self._provider_tools.apply(_with_tools(restored, tools)),
            Executor(tools, permissions=Permissions(ask=self._decide_permission)),
            max_rounds=self._config.max_rounds,
            max_reply=self._config.max_reply,
            store_turn=lambda visible, turn: turns.store(request.messages, visible, turn),
            listener=_listener(connection, tools),
            describe_use=lambda call_id: next((made.pop(call_id) for made in uses.values() if call_id in made), None),
        )
        return tool_loop.request, tool_loop

    def leave_out_provider_tools(self, request: Request) -> Request:
        """Return the request without tools that cannot run here. Raises `RequestError` if no tool is left."""
        return self._provider_tools.apply(request)

    async def _mcp_tools(self, connection: ClientConnection) -> list[AnyTool] | None:
        """Return the tools of the selected servers, and those that read resources; None where there are no servers."""
        manager, selection = self._manager, parse_server_selection(connection.header(SERVERS_HEADER))
        if manager is None or not selection.enabled:
            return None
        if self._starting is not None:
            await asyncio.wait([self._starting])
        from fcshim.mcp.resources import ServerOffers  # noqa: PLC0415 - needs the SDK, which the manager has imported

        reached = selection.selected if selection.mode == "manual" else None
        return [
            *manager.tools(enabled=selection.enabled, mode=selection.mode, selected=selection.selected),
            *ServerOffers(manager, reached).tools(),
        ]

    def _web_tools(self, tools: Sequence[ProviderTool], messages: Sequence[Message]) -> "list[WebTool]":
        if self._search is None or not tools:
            return []
        from fcshim.server.web_tools import WebTool  # noqa: PLC0415 - only where the web is searched

        known_texts = [
            text_of(message.content) for message in messages if isinstance(message, UserMessage | ToolMessage)
        ]
        return [WebTool(tool, tool.action, self._search, known_texts) for tool in tools if tool.action]

    async def _decide_permission(self, request: PermissionRequest) -> PermissionDecision:
        """Decide about a call for which the MCP configuration has no rule."""
        allowed = self._is_allowed(request.name)
        return PermissionDecision(
            allowed=allowed, reason="" if allowed else "It may not run here; the operator can allow it."
        )

    def _is_allowed(self, name: str) -> bool:
        """Return whether the setting `allow` names a tool, by one of its names."""
        tool = None if self._manager is None else self._manager.find(name)
        names = {name} if tool is None else {name, qualified_name(tool.server, tool.name)}
        return any(fnmatch.fnmatchcase(each, pattern) for each in names for pattern in self._config.allow)


def _listener(connection: ClientConnection, tools: Sequence[AnyTool]) -> CallListener:
    """Return the listener for the calls that run for a request."""
    if connection.observers is None:
        return lambda _: None
    return connection.observers.watch_tools(
        {tool.definition.name: tool.traits.source.removeprefix("mcp:") for tool in tools}
    )


def load_server_tools(config: Config) -> ServerTools:
    """Load the configured MCP servers, without starting them. Raises `ConfigError` if their file is invalid."""
    servers = load_servers(config.mcp, os.environ, strict_packages=config.strict_packages) if config.mcp else ()
    pins = Path(config.pins) if config.pins else default_pin_file(os.environ)
    return ServerTools(config, servers, pins, _load_search(config))


def _load_search(config: Config) -> "SearchService | None":
    if config.web_search is None:
        return None
    from fcshim.tools.builtin.websearch import configured_search  # noqa: PLC0415 - only where the web is searched

    return configured_search(config)


def parse_server_selection(value: bytes) -> ServerSelection:
    """Parse the header; an empty one is `auto`."""
    words = [word.strip() for word in value.decode("latin-1").split(",") if word.strip()]
    match words:
        case [] | ["auto"]:
            return ServerSelection()
        case ["off"]:
            return ServerSelection(enabled=False)
        case _:
            return ServerSelection(mode="manual", selected=tuple(words))


def _with_tools(request: Request, tools: Sequence[AnyTool]) -> Request:
    """Add server tools to the client's.

    If `tool_choice` limits the model to some tools, server tools stay allowed as well, unless a call is required.
    """
    definitions = tuple(map(offered_definition, tools))
    choice = request.tool_choice
    if choice.mode == "auto" and choice.names:
        names = (*choice.names, *(tool.name for tool in definitions))
        choice = msgspec.structs.replace(choice, names=names)
    return msgspec.structs.replace(request, tools=(*request.tools, *definitions), tool_choice=choice)


_MAX_LOGGED = 256
"""Tools that are remembered as logged; clients choose the names of their types."""


class ProviderToolPolicy:
    """Refuses or leaves out tools that the client expects its provider to run, and that cannot run here.

    A request that has only such tools, or that demands one, is refused. Beside other tools they are left out: one line
    of the system prompt and, once per tool, one of the log say so.
    """

    def __init__(self) -> None:
        self._logged: set[str] = set()

    def apply(self, request: Request) -> Request:
        """Return the request without provider tools. A function of the same name takes the place of one.

        Raises `RequestError` if nothing else is offered, or a call of one is demanded.
        """
        functions = {tool.name for tool in request.tools}
        left_out = [tool for tool in request.provider_tools if tool.name not in functions]
        unavailable = {tool.name for tool in left_out}
        choice = request.tool_choice
        names = tuple(name for name in choice.names if name not in unavailable)
        # Nothing may be called if no other tool was allowed.
        choice = ToolChoice(choice.mode, names) if names or not choice.names else ToolChoice("none")
        stripped = msgspec.structs.replace(request, provider_tools=(), tool_choice=choice)
        if not left_out or request.tool_choice.mode == "none":
            return stripped
        _check_choice(request, left_out)
        self._log(left_out)
        return _with_note(stripped, left_out)

    def _log(self, tools: Sequence[ProviderTool]) -> None:
        for kind in dict.fromkeys(tool.type for tool in tools):
            if kind not in self._logged and len(self._logged) < _MAX_LOGGED:
                self._logged.add(kind)
                logger.info("the tool %r cannot be run here and is left out%s", kind, _hint(tools, kind))


def _check_choice(request: Request, left_out: Sequence[ProviderTool]) -> None:
    choice = request.tool_choice
    demanded = [tool for tool in left_out if choice.mode == "required" and tool.name in choice.names]
    if request.tools and len(demanded) < len(choice.names or request.tools):
        return
    named = ", ".join(repr(kind) for kind in dict.fromkeys(tool.type for tool in demanded or left_out))
    verb = "demands" if demanded else "offers only"
    raise RequestError(
        f"the request {verb} {named}. Such a tool runs at the provider of this API, and there is none behind this "
        "address, or fcshim does not know its form. Offer a function that your client runs; for the web, the operator "
        "can start fcshim with --web-search.",
        param="tool_choice" if demanded else "tools",
        kind="unsupported_tool",
    )


def _hint(tools: Sequence[ProviderTool], kind: str) -> str:
    runs_here = any(tool.type == kind and tool.action is not None for tool in tools)
    return "; --web-search lets fcshim run it" if runs_here else ""


def _with_note(request: Request, left_out: Sequence[ProviderTool]) -> Request:
    names = {tool.type: tool.name for tool in reversed(left_out)}  # one type may stand for several tools
    named = ", ".join(dict.fromkeys(names[tool.type] for tool in left_out))
    note = SystemMessage(
        (TextPart(f"Not available here, whatever is said elsewhere: {named}. Never pretend to use it."),)
    )
    at = count_leading_system(request.messages)
    return msgspec.structs.replace(request, messages=(*request.messages[:at], note, *request.messages[at:]))
