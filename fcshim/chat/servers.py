"""Reports the state of a chat's MCP servers: connecting, connected, lost, not started.

Rule: a change is reported once, in one line, which also says what to do; the prompt does not wait for a slow
server, the first turn does.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from fcshim.chat.terminal_view import count_of

if TYPE_CHECKING:
    from fcshim.mcp.hub import ToolHub
    from fcshim.mcp.manager import Manager, ServerStatus

_POLL_SECONDS = 0.25
"""Seconds between two checks of the servers."""
_CONNECTED, _LOST = "connected", "lost"
_LOST_CONNECTION = "ConnectionError: the connection was lost"
"""The beginning of the connection's message about every loss, before the reason."""
_READY, _CLOSED = "ready", "closed"
"""Values of `ConnectionState`, whose module needs the SDK; a chat without servers does not import it."""


class Report(NamedTuple):
    """One line about a server; `failed`: it has no tools, or lost them."""

    text: str
    failed: bool = False


class ServerWatch:
    """Reports what has changed about the servers of `file` since the last check."""

    def __init__(self, manager: "Manager", hub: "ToolHub", file: str) -> None:
        self._manager = manager
        self._hub = hub
        self._file = file
        self._reported: dict[str, str] = {}
        self._waited = False

    async def wait(self, seconds: float) -> None:
        """Wait until each server has connected or failed once, at most this long."""
        await self._hub.wait_servers(seconds)

    async def wait_before_turn(self, seconds: float, show: Callable[[str], None]) -> None:
        """Wait before the first turn for servers that still connect: a model can only call tools that it is offered."""
        if self._waited:
            return
        self._waited = True
        if connecting := self.connecting():
            show(f"waiting for {', '.join(connecting)} to connect, {seconds:g} s at most")
        await self.wait(seconds)
        if connecting := self.connecting():
            show(f"{', '.join(connecting)}: not connected within {seconds:g} s; this turn goes on without")

    def connecting(self) -> list[str]:
        """Return the names of the servers that have neither connected nor failed yet."""
        return [
            each.name
            for each in self._manager.status()
            if each.state.value not in (_READY, _CLOSED) and not each.error and each.name not in self._reported
        ]

    def changes(self) -> Iterator[Report]:
        """Yield what has changed."""
        for status in self._manager.status():
            described = self._describe(status)
            if described is not None and described[0] != self._reported.get(status.name):
                self._reported[status.name] = described[0]
                yield described[1]

    async def follow(self, announce: Callable[[Report], Awaitable[None]]) -> None:
        """Announce what changes, until cancelled."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            for report in self.changes():
                await announce(report)

    def _describe(self, status: "ServerStatus") -> tuple[str, Report] | None:
        """Return a server's state, and the report that is shown when the state changes."""
        name, file, before = status.name, shlex.quote(self._file), self._reported.get(status.name, "")
        problem = status.error.rstrip(".")
        if status.changed_tools:
            approve = f"fcshim tools approve {shlex.quote(name)} --mcp {file}"
            changed = ", ".join(status.changed_tools)
            return f"changed {changed}", _failed(f"{name} changed {changed}; to compare and approve: {approve}")
        if status.state.value == _READY:
            tools = count_of(status.tools, "tool")
            verb = "now has" if before.startswith(_CONNECTED) else "is connected:"
            return f"{_CONNECTED} {tools}", Report(f"{name} {verb} {tools}.")
        if not status.error:
            return None
        if status.state.value == _CLOSED:
            return "unused", _failed(f"{name}: {problem}. Correct its entry in {file} and start again.")
        if before.startswith((_CONNECTED, _LOST)):
            reason = problem.removeprefix(_LOST_CONNECTION).lstrip("; ")
            lost = f"{name} is lost ({reason})" if reason else f"{name} is lost"
            return _LOST, _failed(f"{lost}. fcshim reconnects by itself; calls wait a while for it.")
        return "failed", _failed(f"{name}: {problem}. fcshim tries again by itself; its entry is in {file}.")


def _failed(text: str) -> Report:
    return Report(text, failed=True)
