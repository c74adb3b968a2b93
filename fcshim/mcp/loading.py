"""The servers' tools for one request, in its provider's format; and servers that one session owns.

Rule: without tools the result is None, not an empty list, so that the request has no `tools` field.
"""

import itertools
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self

import msgspec

from fcshim.events import JSON
from fcshim.mcp.manager import Manager
from fcshim.mcp.tool import McpTool
from fcshim.mcp.tool_names import direct_name
from fcshim.tools.provider_formats import ToolFormat, convert_tools

logger = logging.getLogger(__name__)


class LoadedTools(msgspec.Struct, frozen=True):
    """The tools of one request; `converted` has them in the provider's format."""

    converted: list[dict[str, JSON]]
    tools: tuple[McpTool, ...]


def load_tools(
    manager: Manager,
    tool_format: ToolFormat = "openai",
    *,
    enabled: bool | None = None,
    mode: Literal["auto", "manual"] | None = None,
    selected: Sequence[str] = (),
) -> LoadedTools | None:
    """Return the tools that a request's settings select, or None. Raises what `Manager.tools` raises."""
    tools = manager.tools(enabled=enabled, mode=mode, selected=selected)
    for server, offered in itertools.groupby(tools, key=lambda tool: tool.server):
        logger.info("%s: %s", server, ", ".join(tool.name for tool in offered))
    return LoadedTools(convert_tools([tool.definition for tool in tools], tool_format), tools) if tools else None


class SessionTools:
    """The servers of a manager, owned by one session: their tools are named `server__tool`, and end with the session.

    Use it as a context manager; `manager` has the connections.
    """

    def __init__(self, manager: Manager) -> None:
        self.manager = manager

    @property
    def tools(self) -> list[McpTool]:
        """The tools of all its servers."""
        return [tool.with_name(direct_name(tool.server, tool.name)) for tool in self.manager.tools()]

    async def __aenter__(self) -> Self:
        await self.manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.manager.aclose()
