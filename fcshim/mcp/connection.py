"""The connection to one server: connects, calls tools, reconnects.

Rule: `run` drives the connection in one task; a failure of the server becomes a state and an error, never an exception.
A call waits for a lost server for a limited time; a call that may have reached the server is never sent twice. After a
failure the modes of older servers are tried; the one that works is remembered.
"""

import asyncio
import json
import math
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio
import msgspec
from mcp import Client, MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult, Implementation, Tool
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from fcshim.errors import ToolError
from fcshim.events import JSON
from fcshim.mcp.connection_state import MAX_DELAY_PROCESS, MAX_DELAY_REMOTE, Backoff, ConnectionState, StateTracker
from fcshim.mcp.http_client import track_send
from fcshim.mcp.link import ConnectModes, Link, describe_error
from fcshim.mcp.monitor import ConnectionMonitor, list_tools, lists_resources
from fcshim.mcp.pins import ListedTools, Pins
from fcshim.mcp.server_requests import ElicitationCallback, SamplingCallback, roots_callback
from fcshim.mcp.server_secrets import secrets_mask
from fcshim.mcp.settings import HttpTransport, McpServerConfig, NpmTransport, UnusableTransport
from fcshim.tools.base import ToolProgress
from fcshim.tools.process_guard import ProcessGuard
from fcshim.tools.result import ToolResult

if TYPE_CHECKING:
    from mcp.client.session import ElicitationFnT, SamplingFnT
    from mcp.shared.dispatcher import ProgressFnT

    from fcshim.mcp.logins import OAuthLogins

T = TypeVar("T")

_STABLE_SECONDS = 10.0
"""Seconds that a connection must last before its loss resets the delay to the next attempt."""
_MAX_SENDS = 3
"""Times that a call is sent that the server provably did not get."""
_MAX_CACHED = 256
"""Results cached per server; each may hold 16 MB in the worst case, usually some KB."""
_PACKAGE_CONNECT_SECONDS = 60.0
"""Seconds to connect if a package may have to be downloaded first."""


class ConnectionTimeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits and intervals of a connection, in seconds."""

    start: float = 15.0
    """For all servers at the start; a server that takes longer is added when it is ready."""
    connect: float = 30.0
    """For a server to start and list its tools."""
    reconnect: float = 10.0
    """For a lost server to return, before a call to it fails."""
    ping: float = 30.0
    """Between two pings of an idle server."""


class ResultCache:
    """The results of one server's tools, by tool and arguments; `lifetime` is in seconds, 0 disables the cache.

    A failure is never cached; the oldest result is evicted when the cache is full.
    """

    def __init__(self, lifetime: float, clock: Callable[[], float]) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._entries: dict[str, tuple[float, ToolResult]] = {}

    def get(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult | None:
        """Return the result of the same call, unless it has expired."""
        until, result = self._entries.get(_key(tool, arguments), (0.0, None))
        return result if self._clock() < until else None

    def put(self, tool: str, arguments: Mapping[str, JSON], result: ToolResult) -> None:
        """Cache a result."""
        if self._lifetime <= 0 or result.is_error:
            return
        key = _key(tool, arguments)
        self._entries.pop(key, None)
        self._entries[key] = (self._clock() + self._lifetime, result)
        if len(self._entries) > _MAX_CACHED:
            del self._entries[next(iter(self._entries))]


def _key(tool: str, arguments: Mapping[str, JSON]) -> str:
    return json.dumps([tool, dict(arguments)], sort_keys=True)


class _EndedLink(NamedTuple):
    """A link that has ended, and why; `timed_out`: the server did not answer in time."""

    link: Link
    error: str
    timed_out: bool


class Connection:
    """The connection to one server. `run` it in a task; `close` ends that task."""

    def __init__(
        self,
        server: McpServerConfig,
        *,
        guard: ProcessGuard,
        pins: Pins,
        random: Callable[[], float],
        timeouts: ConnectionTimeouts,
        on_change: Callable[[], None],
        sampling: "SamplingFnT | None" = None,
        elicitation: "ElicitationFnT | None" = None,
        logins: "OAuthLogins | None" = None,
        roots: Sequence[Path] = (),
    ) -> None:
        self.server = server
        self.error = ""
        self.has_resources = False
        self.cache = ResultCache(server.cache, time.monotonic)
        self.listed = ListedTools(server, pins, on_change)
        self._guard, self._timeouts = guard, timeouts
        self.mask = secrets_mask(server)
        self._logins, self._roots = logins, roots
        self._sampling = sampling.for_server(server.name) if isinstance(sampling, SamplingCallback) else sampling
        self._elicitation = (
            elicitation.for_server(server.name) if isinstance(elicitation, ElicitationCallback) else elicitation
        )
        slowest = MAX_DELAY_REMOTE if isinstance(server.transport, HttpTransport) else MAX_DELAY_PROCESS
        self._backoff = Backoff(slowest, random)
        self._state = StateTracker()
        self._reconnect_now = asyncio.Event()
        self._closing = False
        self._scope: anyio.CancelScope | None = None
        self._link: Link | None = None
        self._client: Client | None = None
        self._failures = 0
        self._last_ready = -math.inf
        self._active_calls = 0
        self._modes = ConnectModes(server, pins)
        self._was_ready = False  # in the current attempt
        self._resource_changes: dict[str, asyncio.Event] = {}

    @property
    def state(self) -> ConnectionState:
        """The current state."""
        return self._state.current

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the server's last list; none while a change waits for approval."""
        return self.listed.offered

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version; empty while there is no connection."""
        return "" if self._client is None else self._client.protocol_version

    async def run(self) -> None:
        """Connect, and reconnect after each loss, until `close`."""
        try:
            if isinstance(self.server.transport, UnusableTransport):
                self.error = self.server.transport.reason
                return
            while not self._closing:
                await self._connect()
                if not self._closing:
                    await self._wait_to_reconnect()
        finally:
            self._state.move_to(ConnectionState.CLOSED)

    def close(self) -> None:
        """End `run`, whatever it is doing."""
        self._closing = True
        self._reconnect_now.set()
        if self._scope is not None:
            self._scope.cancel()

    async def wait_first_attempt(self) -> None:
        """Wait for the outcome of the first attempt to connect."""
        await self._state.wait_until(
            lambda: self.state in (ConnectionState.READY, ConnectionState.CLOSED) or self._failures > 0
        )

    def unavailable_message(self, tool: str) -> str:
        """Return why a tool of this server cannot be called, for the model."""
        if self.listed.changed:
            names = ", ".join(self.listed.changed)
            return f"The MCP server {self.server.name!r} changed what it says of {names}, and waits for approval."
        if self._client is None:
            return f"The MCP server {self.server.name!r} is not connected" + (f": {self.error}" if self.error else ".")
        return f"The MCP server {self.server.name!r} has no tool named {tool}."

    async def call(
        self, tool: str, arguments: Mapping[str, JSON], *, report: Callable[[ToolProgress], None] | None = None
    ) -> CallToolResult:
        """Call a tool, within the server's timeout. Raises `ToolError`, which names the server, and `MCPError`."""
        self._active_calls += 1
        try:
            async with asyncio.timeout(self.server.timeout):
                return await self._call(tool, dict(arguments), _progress_callback(report))
        except TimeoutError:
            message = f"{self.server.name}: {tool} gave no result within {self.server.timeout:g} seconds"
            raise ToolError(message) from None
        finally:
            self._active_calls -= 1

    async def request(self, send: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request that only reads, within the server's timeout. Raises `ToolError` and `MCPError`."""
        self._active_calls += 1
        try:
            async with asyncio.timeout(self.server.timeout):
                client, _ = await self._wait_connected()
                return await send(client)
        except TimeoutError:
            raise ToolError(f"{self.server.name} gave no answer within {self.server.timeout:g} seconds") from None
        finally:
            self._active_calls -= 1

    async def resource_updates(self, uri: str) -> AsyncIterator[None]:
        """Subscribe to a resource; yield each time it changes. Raises `ToolError` and `MCPError`."""
        client, _ = await self._wait_connected()
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            async with client.listen(resource_subscriptions=[uri]) as subscription:
                async for _ in subscription:
                    yield
            return
        changed = self._resource_changes.setdefault(uri, asyncio.Event())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the SDK calls the subscriptions of the protocols before 2026 deprecated
            subscribed = client.session.subscribe_resource(uri)
        await subscribed
        while True:
            await changed.wait()
            changed.clear()
            yield

    def _on_resource(self, uri: str) -> None:
        if uri in self._resource_changes:
            self._resource_changes[uri].set()

    def has(self, capability: str) -> bool:
        """Return whether the connected server declares a capability: `resources`, `prompts`, `completions`."""
        client = self._client
        return client is not None and getattr(client.server_capabilities, capability, None) is not None

    async def _call(self, tool: str, arguments: dict[str, JSON], listener: "ProgressFnT | None") -> CallToolResult:
        for attempt in range(1, _MAX_SENDS + 1):
            client, link = await self._wait_connected()
            if self.listed.changed:
                raise ToolError(self.unavailable_message(tool))
            try:
                with track_send() as sent:
                    return await client.call_tool(tool, arguments, progress_callback=listener)
            except MCPError as error:
                unsent = link.was_not_sent(sent, error)
                if unsent or link.lost.is_set() or error.code == CONNECTION_CLOSED:
                    self._drop_link(link)
                if error.code == CONNECTION_CLOSED and not unsent:
                    raise ToolError(f"{self.server.name} was lost during the call, which may have been done") from error
                if not unsent or attempt == _MAX_SENDS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _wait_connected(self) -> tuple[Client, Link]:
        """Return the connection; wait for a server that was lost recently, else for one more attempt."""
        if self._client is None:
            failures = self._failures
            self._reconnect_now.set()

            def is_settled() -> bool:
                is_overdue = self._now() - self._last_ready > self._timeouts.reconnect
                return self._client is not None or self._closing or (is_overdue and self._failures > failures)

            with anyio.move_on_after(self._timeouts.reconnect):
                await self._state.wait_until(is_settled)
        if self._client is None or self._link is None:
            raise ToolError(self.unavailable_message(""))
        return self._client, self._link

    async def _connect(self) -> None:
        """Connect, and stay until the connection is lost."""
        self._state.move_to(ConnectionState.CONNECTING)
        first = ended = await self._connect_once()
        # A server that does not answer gets the handshake in the same attempt.
        while not (self._was_ready or self._closing or ended.timed_out) and self._modes.follow(ended.link):
            ended = await self._connect_once()
        if not self._was_ready:
            ended = first if self._modes.current.sse else ended  # the error of the configured mode
            self._modes.reset()
        if not self._closing:
            self.error = ended.error

    async def _connect_once(self) -> _EndedLink:
        """Connect in the current mode, and stay until the connection is lost."""
        self._was_ready = False
        link = Link(self.server, self._guard, self._logins, sse=self._modes.current.sse, on_open=self._on_open)
        is_package = isinstance(self.server.transport, NpmTransport)
        seconds = max(self._timeouts.connect, _PACKAGE_CONNECT_SECONDS if is_package else 0.0)
        failure: BaseException = TimeoutError()
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + seconds) as self._scope:
                await self._hold_connection(link)
                failure = ConnectionError("the connection was lost")
        except Exception as error:  # noqa: BLE001 - any error of the SDK means that this attempt failed
            failure = error
        finally:
            self._drop_link(link)
        reason = self.mask.mask_text(describe_error(failure, link.diagnostics()))
        return _EndedLink(link, reason, timed_out=isinstance(failure, TimeoutError))

    async def _hold_connection(self, link: Link) -> None:
        monitor = ConnectionMonitor(
            link,
            set_tools=self.listed.update,
            is_busy=lambda: self._active_calls > 0,
            ping_interval=self._timeouts.ping,
            on_resource=self._on_resource,
        )
        async with self._new_client(link, monitor) as client:
            self._on_open()
            self.listed.left_out = link.left_out
            tools = await list_tools(client)
            self.has_resources = await lists_resources(client)
            self.listed.update(tools)
            self._on_ready(client, link)
            ready_since = self._now()
            await monitor.run(client)
            if self._now() - ready_since > _STABLE_SECONDS:
                self._backoff.reset()

    def _new_client(self, link: Link, monitor: ConnectionMonitor) -> Client:
        return Client(
            link.target,
            client_info=Implementation(name="fcshim", version=version("fcshim")),
            message_handler=monitor.on_message,
            sampling_callback=self._sampling,
            elicitation_callback=self._elicitation,
            list_roots_callback=roots_callback(self._roots) if self._roots else None,
            mode="legacy" if self._modes.current.handshake else "auto",
            cache=None,  # a list that is read again after a change must not come from the SDK's cache
        )

    def _on_ready(self, client: Client, link: Link) -> None:
        if self._scope is not None:
            self._scope.deadline = math.inf
        self._client, self._link, self.error = client, link, ""
        self._was_ready = True
        self._modes.remember()
        self._state.move_to(ConnectionState.READY)

    def _on_open(self) -> None:
        if self.state is ConnectionState.CONNECTING:
            self._state.move_to(ConnectionState.INITIALISING)

    def _drop_link(self, link: Link) -> None:
        """Mark the link as lost, so that no call uses it any more."""
        link.lost.set()
        if self._link is link:
            self._client = self._link = None
            self._last_ready = self._now()

    async def _wait_to_reconnect(self) -> None:
        """Wait before the next attempt; a waiting call ends the wait."""
        if self.state is not ConnectionState.READY:
            self._failures += 1
        self._state.move_to(ConnectionState.WAITING)
        with anyio.move_on_after(self._backoff.next_delay()):
            await self._reconnect_now.wait()
        self._reconnect_now.clear()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _progress_callback(report: Callable[[ToolProgress], None] | None) -> "ProgressFnT | None":
    if report is None:
        return None

    async def callback(progress: float, total: float | None, message: str | None) -> None:
        report(ToolProgress(progress, total, message or ""))

    return callback
