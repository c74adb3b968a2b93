"""The tools that run here: those of the configured MCP servers, added to requests and executed for their clients.

Rule: with nobody to ask, a call runs only where the server says that its tool only reads, or the operator allows it.
Clients choose among the configured servers (`x-fcshim-mcp`), never what is started: no request names a command.
Neighbours: `chat` asks for the course of each request, `mcp.manager` keeps the servers, `recall` the unseen.
"""

import fnmatch
import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from fcshim.codecs.reply_store import ReplyStore
from fcshim.config import Config
from fcshim.errors import RequestError
from fcshim.mcp.config_file import load_servers
from fcshim.mcp.pins import Pins, default_pin_file
from fcshim.mcp.tool_names import qualified_name
from fcshim.messages import Request
from fcshim.server.client_connection import ClientConnection
from fcshim.server.guard import client_key
from fcshim.server.tool_loop import ToolLoop
from fcshim.server.turn_cache import TurnCache
from fcshim.tools import Executor, PermissionDecision, PermissionRequest, Permissions

if TYPE_CHECKING:
    from fcshim.mcp.manager import Manager
    from fcshim.mcp.tool import McpTool

logger = logging.getLogger("fcshim.server")

SERVERS_HEADER = b"x-fcshim-mcp"
"""The header by which a client says which tools it wants: `off`, `auto` (all; the default), or servers by name."""


class ServerSelection(msgspec.Struct, frozen=True):
    """What a request's switch says, in the words of `Manager.tools`."""

    enabled: bool = True
    mode: Literal["auto", "manual"] = "auto"
    selected: tuple[str, ...] = ()


class ServerTools:
    """The tools that run here. Without a file of servers there are none, and every request stays as it is.

    Raises `ConfigError` for a file that is wrong.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._servers = load_servers(config.mcp, os.environ) if config.mcp else ()
        self._pins = Path(config.pins) if config.pins else default_pin_file(os.environ)
        self._manager: Manager | None = None
        self._turn_cache = TurnCache(ReplyStore(max_entries=config.memory_entries, max_bytes=config.memory_bytes))

    async def open(self) -> None:
        """Connect to the servers; one that fails costs its own tools only."""
        if self._servers:
            from fcshim.mcp.manager import Manager  # noqa: PLC0415 - the SDK is slow to import, and few need it

            self._manager = Manager(self._servers, pins=Pins(self._pins))
            await self._manager.start()

    async def aclose(self) -> None:
        """End the servers."""
        if self._manager is not None:
            await self._manager.aclose()

    def add_to_request(self, request: Request, connection: ClientConnection) -> tuple[Request, ToolLoop | None]:
        """Give the request as the model is asked it, and the course that it takes where tools of ours are offered.

        Raises `RequestError` for a switch that names no server, and where several choices are asked for.
        """
        manager, chosen = self._manager, parse_server_selection(connection.header(SERVERS_HEADER))
        if manager is None or not chosen.enabled or not request.messages:
            return request, None
        owner = client_key(connection.headers, connection.query)
        messages = self._turn_cache.restore(owner, request.messages)
        asked = request if messages == request.messages else msgspec.structs.replace(request, messages=messages)
        theirs = {tool.name for tool in request.tools}
        offered = manager.tools(enabled=chosen.enabled, mode=chosen.mode, selected=chosen.selected)
        tools = [tool for tool in offered if tool.definition.name not in theirs]
        if request.tool_choice.mode == "none" or not tools:
            return asked, None
        if request.n > 1:
            raise RequestError(
                f"n: with tools that run here there is one choice ({SERVERS_HEADER.decode()}: off)", param="n"
            )
        logger.debug("offered: %s", dict(Counter(tool.server for tool in tools)))
        course = ToolLoop(
            _with_tools(asked, tools),
            Executor(tools, permissions=Permissions(ask=self._decide_permission)),
            max_rounds=self._config.max_rounds,
            max_reply=self._config.max_reply,
            store_turn=lambda shown, real: self._turn_cache.store(owner, request.messages, shown, real),
        )
        return course.request, course

    async def _decide_permission(self, question: PermissionRequest) -> PermissionDecision:
        """Decide about a call of which the server's settings say nothing."""
        assert self._manager is not None
        tool = self._manager.find(question.name)
        names = {question.name} if tool is None else {question.name, qualified_name(tool.server, tool.name)}
        allowed = question.traits.reads_only or any(
            fnmatch.fnmatchcase(name, pattern) for name in names for pattern in self._config.allow
        )
        return PermissionDecision(
            allowed=allowed, reason="" if allowed else "It may not run here; the operator can allow it."
        )


def parse_server_selection(value: bytes) -> ServerSelection:
    """Read a request's switch; none is `auto`."""
    words = [word.strip() for word in value.decode("latin-1").split(",") if word.strip()]
    match words:
        case [] | ["auto"]:
            return ServerSelection()
        case ["off"]:
            return ServerSelection(enabled=False)
        case _:
            return ServerSelection(mode="manual", selected=tuple(words))


def _with_tools(request: Request, tools: "Sequence[McpTool]") -> Request:
    """Offer tools beside the client's; a choice among those leaves ours free, unless it demands one of them."""
    definitions = tuple(tool.definition for tool in tools)
    choice = request.tool_choice
    if choice.mode == "auto" and choice.names:
        names = (*choice.names, *(tool.name for tool in definitions))
        choice = msgspec.structs.replace(choice, names=names)
    return msgspec.structs.replace(request, tools=(*request.tools, *definitions), tool_choice=choice)
