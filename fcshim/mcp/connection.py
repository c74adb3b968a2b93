"""One server's connection: opened, kept, opened again.

Rule: `run` is its life, in one task; whatever the server does becomes a state and a fault, never an exception. A call
waits for a lost server for a while; one that may have reached the server is never sent twice.
Neighbours: `life` has the states, `links` opens, `watch` keeps; `manager` holds many.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

import anyio
import msgspec
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult, Implementation, Tool

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.mcp.backoff import SLOWEST_PROCESS, SLOWEST_REMOTE, Backoff
from fcshim.mcp.cache import ResultCache
from fcshim.mcp.faults import describe
from fcshim.mcp.http_client import sending
from fcshim.mcp.life import STEPS, State
from fcshim.mcp.links import Link
from fcshim.mcp.pins import Pins
from fcshim.mcp.settings import Endpoint, Package, Server
from fcshim.mcp.watch import Watch, list_tools
from fcshim.tools.base import Progress
from fcshim.tools.guard import Guard

if TYPE_CHECKING:
    from mcp.client.session import ElicitationFnT, SamplingFnT
    from mcp.shared.dispatcher import ProgressFnT

    from fcshim.mcp.logins import Logins

_PROVEN = 10.0
"""Seconds that a connection must have lasted for the next try after its loss to come at once."""
_TRIES = 3
"""Times that a call is sent which the server provably did not get."""
_SLOW_START = 60.0
"""Seconds to connect where a package may have to be fetched first."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long what is waited for; all in seconds."""

    start: float = 15.0
    """For all servers at the beginning; one that takes longer comes when it is there."""
    connect: float = 30.0
    """For a server to start and say what it has."""
    lost: float = 10.0
    """For a lost server to be back, before a call to it fails."""
    ping: float = 30.0
    """Between two questions whether an idle server still lives."""


class Connection:
    """The life of one server. `run` it in a task; `close` ends that task."""

    def __init__(
        self,
        server: Server,
        *,
        guard: Guard,
        pins: Pins,
        random: Callable[[], float],
        patience: Patience,
        on_change: Callable[[], None],
        sampling: "SamplingFnT | None" = None,
        elicitation: "ElicitationFnT | None" = None,
        logins: "Logins | None" = None,
    ) -> None:
        self.server = server
        self.fault = ""
        self.cache = ResultCache(server.cache, time.monotonic)
        self._guard, self._pins, self._patience, self._on_change = guard, pins, patience, on_change
        self._sampling, self._elicitation, self._logins = sampling, elicitation, logins
        slowest = SLOWEST_REMOTE if isinstance(server.reach, Endpoint) else SLOWEST_PROCESS
        self._backoff = Backoff(slowest, random)
        self._state = State.CONFIGURED
        self._moved = asyncio.Event()
        self._hurry = asyncio.Event()
        self._closing = False
        self._scope: anyio.CancelScope | None = None
        self._link: Link | None = None
        self._client: Client | None = None
        self._failures = 0
        self._last_ready = -math.inf
        self._calls = 0
        self._tools: tuple[Tool, ...] = ()
        self._changed: tuple[str, ...] = ()

    @property
    def state(self) -> State:
        """Where it stands."""
        return self._state

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the server offers, as it said last; nothing while a change waits for approval."""
        return () if self._changed else self._tools

    @property
    def changed(self) -> tuple[str, ...]:
        """The tools that say other things of themselves than when they were approved."""
        return self._changed

    @property
    def protocol(self) -> str:
        """The protocol's version that was agreed upon; empty while there is no connection."""
        return "" if self._client is None else self._client.protocol_version

    async def run(self) -> None:
        """Live, until `close`."""
        try:
            while not self._closing:
                await self._attempt()
                if not self._closing:
                    await self._pause()
        finally:
            self._move(State.CLOSED)

    def close(self) -> None:
        """Have `run` end, whatever it is doing."""
        self._closing = True
        self._hurry.set()
        if self._scope is not None:
            self._scope.cancel()

    async def settled(self) -> None:
        """Wait for the first attempt's outcome."""
        await self._until(lambda: self._state in (State.READY, State.CLOSED) or self._failures > 0)

    def approve(self) -> None:
        """Take the server's tools as they are now."""
        self._pins.approve(self.server, self._tools)
        self._changed = ()
        self._on_change()

    def reconsider(self) -> None:
        """Look whether somebody else has approved what waits."""
        if self._changed:
            self._take(self._tools)

    def absence(self, tool: str) -> str:
        """Say why a tool of this server cannot be called."""
        if self._changed:
            names = ", ".join(self._changed)
            return f"The MCP server {self.server.name!r} changed what it says of {names}, and waits for approval."
        if self._client is None:
            return f"The MCP server {self.server.name!r} is not connected" + (f": {self.fault}" if self.fault else ".")
        return f"The MCP server {self.server.name!r} has no tool named {tool}."

    async def call(
        self, tool: str, arguments: Mapping[str, JSON], *, report: Callable[[Progress], None] | None = None
    ) -> CallToolResult:
        """Call a tool, within the server's timeout. Raises `ToolError`, which names the server, and `MCPError`."""
        self._calls += 1
        try:
            async with asyncio.timeout(self.server.timeout):
                return await self._call(tool, dict(arguments), _listener(report))
        except TimeoutError:
            message = f"{self.server.name}: {tool} gave no result within {self.server.timeout:g} seconds"
            raise ToolError(message) from None
        finally:
            self._calls -= 1

    async def _call(self, tool: str, arguments: dict[str, JSON], listener: "ProgressFnT | None") -> CallToolResult:
        for number in range(1, _TRIES + 1):
            client, link = await self._connected()
            if self._changed:
                raise ToolError(self.absence(tool))
            try:
                with sending() as sent:
                    return await client.call_tool(tool, arguments, progress_callback=listener)
            except MCPError as error:
                unsent = link.was_not_sent(sent, error)
                if unsent or link.lost.is_set() or error.code == CONNECTION_CLOSED:
                    self._lose(link)
                if error.code == CONNECTION_CLOSED and not unsent:
                    raise ToolError(f"{self.server.name} was lost during the call, which may have been done") from error
                if not unsent or number == _TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _connected(self) -> tuple[Client, Link]:
        """Wait for the connection, for a server that was there lately; ask one that was not just once more."""
        if self._client is None:
            failures = self._failures
            self._hurry.set()

            def decided() -> bool:
                gone = self._now() - self._last_ready > self._patience.lost
                return self._client is not None or self._closing or (gone and self._failures > failures)

            with anyio.move_on_after(self._patience.lost):
                await self._until(decided)
        if self._client is None or self._link is None:
            raise ToolError(self.absence(""))
        return self._client, self._link

    async def _attempt(self) -> None:
        """Connect, and stay until the connection is lost."""
        self._move(State.CONNECTING)
        link = Link(self.server, self._guard, self._logins, on_open=self._opened)
        fault: BaseException = TimeoutError()
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._time_to_connect()) as self._scope:
                await self._live(link)
                fault = ConnectionError("the connection was lost")
        except Exception as error:  # noqa: BLE001 - whatever a foreign server makes the SDK raise, it is its own fault
            fault = error
        finally:
            self._lose(link)
        if not self._closing:
            self.fault = describe(fault, link.noise())

    async def _live(self, link: Link) -> None:
        watch = Watch(link, take=self._take, busy=lambda: self._calls > 0, every=self._patience.ping)
        client = Client(
            link.target,
            client_info=Implementation(name="fcshim", version=version("fcshim")),
            message_handler=watch.hear,
            sampling_callback=self._sampling,
            elicitation_callback=self._elicitation,
            mode="legacy" if self.server.handshake else "auto",
            cache=None,
        )
        async with client:
            self._opened()
            self._take(await list_tools(client))
            if self._scope is not None:
                self._scope.deadline = math.inf
            self._client, self._link, self.fault = client, link, ""
            self._move(State.READY)
            began = self._now()
            await watch.keep(client)
            if self._now() - began > _PROVEN:
                self._backoff.reset()

    def _opened(self) -> None:
        if self._state is State.CONNECTING:
            self._move(State.INITIALISING)

    def _take(self, tools: tuple[Tool, ...]) -> None:
        before = (self._tools, self._changed)
        self._tools, self._changed = tools, self._pins.changed(self.server, tools)
        if before != (self._tools, self._changed):
            self._on_change()

    def _lose(self, link: Link) -> None:
        """Let nobody use the link any more."""
        link.lost.set()
        if self._link is link:
            self._client = self._link = None
            self._last_ready = self._now()

    async def _pause(self) -> None:
        """Wait before the next attempt, unless a call is waiting for it."""
        if self._state is not State.READY:
            self._failures += 1
        self._move(State.WAITING)
        with anyio.move_on_after(self._backoff.next()):
            await self._hurry.wait()
        self._hurry.clear()

    def _time_to_connect(self) -> float:
        slow = isinstance(self.server.reach, Package)
        return max(self._patience.connect, _SLOW_START) if slow else self._patience.connect

    def _move(self, state: State) -> None:
        if state not in STEPS[self._state]:
            raise AssertionError(f"no step leads from {self._state} to {state}")
        self._state = state
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _until(self, decided: Callable[[], bool]) -> None:
        while not decided():
            await self._moved.wait()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _listener(report: Callable[[Progress], None] | None) -> "ProgressFnT | None":
    if report is None:
        return None

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        report(Progress(progress, total, message or ""))

    return heard
