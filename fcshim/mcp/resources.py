"""Reads what servers offer besides tools: resources and prompts, for the user and for the model.

Rule: nothing is changed on a server; every list has a limit, and a failure names the server. A binary resource keeps
its bytes and its type.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from mcp import Client, MCPError
from mcp.types import BlobResourceContents, PromptMessage, PromptReference, TextResourceContents

from fcshim.errors import ToolError
from fcshim.mcp.content import resource_parts, to_parts
from fcshim.messages import AssistantMessage, Message, UserMessage
from fcshim.tools.base import Traits
from fcshim.tools.function import FunctionTool
from fcshim.tools.result import ToolResult

if TYPE_CHECKING:
    from fcshim.mcp.manager import Manager

_MAX_ITEMS = 1_000
"""Resources or prompts of one server that are listed: a list must end."""
_ListPage: TypeAlias = Callable[..., Awaitable[Any]]
"""A method of `Client` that lists a page, from a `cursor` on."""


class Resource(msgspec.Struct, frozen=True):
    """A resource of a server; `template`: its URI has parts to fill in, such as `{id}`."""

    server: str
    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    template: bool = False


class ServerPrompt(msgspec.Struct, frozen=True):
    """A prompt of a server; `arguments`: name to whether it is needed."""

    server: str
    name: str
    description: str
    arguments: dict[str, bool]


class ServerOffers:
    """The resources and prompts of a manager's servers. Every method raises `ToolError` that names the server.

    `selected` are the servers that it reaches; None for all.
    """

    def __init__(self, manager: "Manager", selected: Collection[str] | None = None) -> None:
        self._manager = manager
        self._selected = selected

    def tools(self) -> list[FunctionTool]:
        """Return the tools by which the model reads resources; none if no server has any."""
        if not any(self._manager.connection(name).has_resources for name in self._servers("resources")):
            return []  # many servers declare that they have resources and have none
        reads = Traits(sensitivity="safe", reads_only=True, source="mcp:resources")
        trusted = all(self._manager.connection(name).server.trust for name in self._servers("resources"))
        asks = Traits(reads_only=True, allowed=trusted, source="mcp:resources", subject="uri", subject_kind="url")
        return [
            FunctionTool(self.list_for_model, name="ListMcpResources", traits=reads),
            FunctionTool(self.read_for_model, name="ReadMcpResource", traits=asks),
        ]

    async def list_for_model(self, server: str | None = None) -> str:
        """List the resources of the MCP servers: server, address, name. Fill in parts of an address in {braces}."""
        lines = [
            " ".join(filter(None, (each.server, each.uri, each.name, each.description)))
            for name in self._servers("resources")
            if server in (None, name)
            for each in await self.resources(name)
        ]
        return "\n".join(lines) or "There are none."

    async def read_for_model(self, server: str, uri: str) -> ToolResult:
        """Read a resource of an MCP server, by its address as ListMcpResources gives it."""
        parts = [part for contents in await self.read(server, uri) for part in resource_parts(contents)]
        return ToolResult(tuple(parts))

    async def resources(self, server: str) -> list[Resource]:
        """Return the resources of a server, then its templates."""
        if server not in self._servers("resources"):
            return []
        listed = [
            Resource(server, str(each.uri), each.name, each.description or "", each.mime_type or "")
            async for each in self._items(server, Client.list_resources, "resources")
        ]
        async for each in self._items(server, Client.list_resource_templates, "resource_templates"):
            about = each.description or ""
            listed.append(Resource(server, each.uri_template, each.name, about, each.mime_type or "", template=True))
        return listed

    async def read(self, server: str, uri: str) -> list[TextResourceContents | BlobResourceContents]:
        """Return the contents of a resource."""
        return list((await self._request(server, lambda client: client.read_resource(uri))).contents)

    async def updates(self, server: str, uri: str) -> AsyncIterator[None]:
        """Subscribe to a resource; yield each time it changes."""
        try:
            async for _ in self._manager.connection(server).resource_updates(uri):
                yield
        except MCPError as error:
            raise ToolError(f"The MCP server {server} failed: {error.message or error.code}") from error

    async def prompts(self, server: str) -> list[ServerPrompt]:
        """Return the prompts of a server."""
        if server not in self._servers("prompts"):
            return []
        items = self._items(server, Client.list_prompts, "prompts")
        return [
            ServerPrompt(
                server,
                each.name,
                each.description or each.title or "",
                {argument.name: bool(argument.required) for argument in each.arguments or ()},
            )
            async for each in items
        ]

    async def all_prompts(self) -> list[ServerPrompt]:
        """Return the prompts of all servers; one that fails has none."""
        found: list[ServerPrompt] = []
        for server in self._servers("prompts"):
            try:
                found += await self.prompts(server)
            except ToolError:
                continue
        return found

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> tuple[Message, ...]:
        """Return the messages of a prompt with these arguments."""
        given = dict(arguments)
        result = await self._request(server, lambda client: client.get_prompt(name, given))
        return tuple(map(_message, result.messages))

    async def complete(self, server: str, prompt: str, argument: str, value: str) -> list[str]:
        """Return what the server proposes for the value of a prompt's argument."""
        ref = PromptReference(type="ref/prompt", name=prompt)
        wanted = {"name": argument, "value": value}
        return list((await self._request(server, lambda client: client.complete(ref, wanted))).completion.values)

    def _servers(self, capability: str) -> list[str]:
        return [name for name in self._manager.servers_with(capability) if self._reaches(name)]

    def _reaches(self, server: str) -> bool:
        return self._selected is None or server in self._selected

    async def _items(self, server: str, list_page: _ListPage, field: str) -> AsyncIterator[Any]:
        cursor: str | None = None
        count = 0
        while True:
            page = await self._request(server, partial(list_page, cursor=cursor))
            for each in getattr(page, field):
                count += 1
                if count > _MAX_ITEMS:
                    return
                yield each
            cursor = page.next_cursor
            if not cursor or not getattr(page, field):
                return

    async def _request(self, server: str, send: Callable[[Client], Awaitable[Any]]) -> Any:
        if not self._reaches(server):
            raise ToolError(f"There is no MCP server {server}. There are: {', '.join(self._selected or ()) or 'none'}.")
        try:
            return await self._manager.connection(server).request(send)
        except MCPError as error:
            raise ToolError(f"The MCP server {server} failed: {error.message or error.code}") from error


def resource_bytes(contents: TextResourceContents | BlobResourceContents) -> bytes:
    """Return the bytes of a resource's contents. Raises `ToolError` if they are not base64."""
    if isinstance(contents, TextResourceContents):
        return contents.text.encode(errors="replace")
    try:
        return base64.b64decode(contents.blob, validate=True)
    except binascii.Error as error:
        raise ToolError(f"{contents.uri}: its contents are not base64") from error


def _message(message: PromptMessage) -> Message:
    content = to_parts([message.content])
    return AssistantMessage(content) if message.role == "assistant" else UserMessage(content)
