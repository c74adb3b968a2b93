"""All tools in one registry, kept up to date: built-in ones, custom ones, those of servers.

Rule: they are in this order, and each kind is replaced as a whole, at its place, when it changes, so that the prompt
that lists them changes at that place only; a slow server delays only its own tools.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from fcshim.mcp.manager import Manager
from fcshim.mcp.resources import ServerOffers
from fcshim.tools import AnyTool, Registry
from fcshim.tools.custom import CustomTools

logger = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
"""Seconds between checks of the custom tools' files."""
MCP_SOURCE = "mcp:"
CUSTOM_SOURCE = "custom:"


class ToolHub:
    """The tools of one program, in `registry`. Use it as a context manager; it starts `manager`.

    With `background` it does not wait for the servers' first attempts to connect; `wait_servers` does.
    """

    def __init__(
        self,
        builtin: Iterable[AnyTool] = (),
        *,
        custom: CustomTools | None = None,
        manager: Manager | None = None,
        background: bool = False,
    ) -> None:
        self.registry = Registry(builtin)
        self._background = background
        self._starting: asyncio.Task[None] | None = None
        self._custom = custom
        self._manager = manager
        self._on_change: Callable[[], None] | None = None
        self._poll_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Register the custom tools, then start the servers and register theirs."""
        if self._custom is not None:
            self._custom.refresh()
            self._replace_source(CUSTOM_SOURCE, self._custom.tools())
            self._poll_task = asyncio.create_task(self._poll_custom(self._custom), name="custom tools")
        if self._manager is not None:
            self._manager.set_change_listener(self._on_servers_changed)
            self._starting = asyncio.create_task(self._start(self._manager), name="mcp servers")
            if not self._background:
                await self._starting
        return self

    async def _start(self, manager: Manager) -> None:
        await manager.__aenter__()
        self._on_servers_changed()

    async def wait_servers(self, seconds: float) -> None:
        """Wait until each server has connected or failed once, at most this long."""
        if self._starting is not None:
            await asyncio.wait([self._starting], timeout=seconds)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._poll_task is not None:
            self._poll_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poll_task
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._manager is not None:
            await self._manager.aclose()

    def set_change_listener(self, on_change: Callable[[], None]) -> None:
        """Set the function that is called after each change of the registry."""
        self._on_change = on_change

    def _on_servers_changed(self) -> None:
        assert self._manager is not None
        self._replace_source(MCP_SOURCE, (*self._manager.tools(), *ServerOffers(self._manager).tools()))

    async def _poll_custom(self, custom: CustomTools) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if await asyncio.to_thread(custom.refresh):
                self._replace_source(CUSTOM_SOURCE, custom.tools())

    def _replace_source(self, source: str, tools: Iterable[AnyTool]) -> None:
        """Replace the tools of a source; skip those whose name another tool has."""
        taken = {tool.definition.name for tool in self.registry if not tool.traits.source.startswith(source)}
        fresh: dict[str, AnyTool] = {}
        for tool in tools:
            name = tool.definition.name
            if name in taken or name in fresh:
                logger.warning("%s of %s is left out: there is another tool of this name", name, tool.traits.source)
            else:
                fresh[name] = tool
        self.registry.replace_source(source, fresh.values(), before=MCP_SOURCE)
        if self._on_change is not None:
            self._on_change()
