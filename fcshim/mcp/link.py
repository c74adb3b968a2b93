"""An open transport to a server: the one module that knows the kinds of transports.

Rule: whatever the transport, a link reports that it opened, that it was lost, and whether a failed request was provably
not executed, so that it can be sent again.
"""

import contextlib
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
import httpx2
import msgspec
from mcp import MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.mcp.definitions import repair_tool_list
from fcshim.mcp.http_client import McpHttpClient, PostOutcomes, SendStatus
from fcshim.mcp.line_splitter import DEFAULT_LINE_LIMIT
from fcshim.mcp.settings import (
    HttpTransport,
    InProcessTransport,
    McpServerConfig,
    NpmTransport,
    ServerTransport,
    StdioTransport,
    UnusableTransport,
)
from fcshim.mcp.stdio_transport import ServerProcess, open_stdio
from fcshim.tools.process_guard import ProcessGuard

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, Transport, TransportStreams
    from mcp.shared._httpx_utils import McpHttpClientFactory

    from fcshim.mcp.logins import OAuthLogins

_NPX_ARGS = ("--yes", "--")
_NO_POST = (400, 404, 405, 406, 415, 501)
"""Statuses after which MCP says to try the older transport."""
_STDERR_EXCERPT = 500
"""Characters of a program's standard error in a message: the last lines of a traceback."""


class Link:
    """One connection to a server, from its opening to its loss."""

    def __init__(
        self,
        server: McpServerConfig,
        guard: ProcessGuard,
        logins: "OAuthLogins | None",
        *,
        sse: bool = False,
        on_open: Callable[[], None],
    ) -> None:
        self.lost = anyio.Event()
        self.opened = False
        self.left_out: dict[str, str] = {}
        """Why tools of the server's list are not offered, by their names."""
        self._server = server
        self._transport_config = _with_sse(server.transport) if sse else server.transport
        self._posts = PostOutcomes()
        self._logins = logins
        self._guard = guard
        self._on_open = on_open
        self._not_sent_token = secrets.token_hex(8)
        self._session_lost = False
        self._process: ServerProcess | None = None

    @property
    def target(self) -> JSON:
        """The argument for the SDK's `Client`: a server object, or streams."""
        return (
            self._transport_config.server
            if isinstance(self._transport_config, InProcessTransport)
            else self._open_streams()
        )

    def was_not_sent(self, send_status: SendStatus, error: MCPError) -> bool:
        """Return whether the server cannot have executed the request that failed with this error."""
        http = isinstance(self._transport_config, HttpTransport)
        return (http and not send_status.started) or error.data == self._not_sent_token or self._session_lost

    @property
    def wants_sse(self) -> bool:
        """Whether the URL accepts no POST at all, as with the older HTTP transport."""
        http = isinstance(self._transport_config, HttpTransport) and not self._transport_config.sse
        return http and not self._posts.accepted and self._posts.refused_with in _NO_POST

    def diagnostics(self) -> str:
        """Return how a program ended and what it wrote to standard error, or what status a server answered."""
        if self._process is None:
            return "" if self._posts.accepted else _status_text(self._posts.refused_with)
        code = self._process.child.process.returncode
        ended_by_us = not self._process.exited_by_itself and code in (None, 0, -signal.SIGTERM, -signal.SIGKILL)
        ended = "" if ended_by_us else f"it ended with code {code}"
        wrote = " ".join(self._process.stderr_tail.split())
        excerpt = wrote if len(wrote) <= _STDERR_EXCERPT else f"…{wrote[-_STDERR_EXCERPT:]}"
        return "; ".join(filter(None, (ended, excerpt and f"it wrote: {excerpt}")))

    @contextlib.asynccontextmanager
    async def _open_streams(self) -> AsyncIterator["TransportStreams"]:
        async with self._open_transport() as (read, write):
            self.opened = True
            self._on_open()
            yield _ObservedStream(read, self._repair, self.lost.set), write

    def _open_transport(self) -> "Transport":
        match self._transport_config:
            case StdioTransport(command=command, args=args, env=env, cwd=cwd):
                return self._open_program(command, args, env, cwd)
            case NpmTransport(package=package, args=args, env=env, cwd=cwd):
                return self._open_program("npx", (*_NPX_ARGS, package, *args), env, cwd)
            case HttpTransport(url=url, headers=headers, sse=True):
                return sse_client(url, httpx_client_factory=self._client_factory(headers))
            case HttpTransport(url=url, headers=headers):
                return self._open_streamable_http(url, headers)
            case InProcessTransport():
                raise AssertionError("a server in this process has no transport")
            case UnusableTransport(reason=reason):
                raise ConfigError(reason)

    def _open_program(
        self, command: str, args: tuple[str, ...], env: Mapping[str, str], cwd: str | None
    ) -> "Transport":
        if sys.platform == "win32":  # the SDK ends children by job objects there
            return stdio_client(StdioServerParameters(command=command, args=list(args), env=dict(env), cwd=cwd))
        return open_stdio(
            command,
            args,
            env,
            cwd,
            guard=self._guard,
            line_limit=DEFAULT_LINE_LIMIT,
            not_sent_token=self._not_sent_token,
            on_start=self._on_start,
        )

    def _on_start(self, process: ServerProcess) -> None:
        self._process = process

    @contextlib.asynccontextmanager
    async def _open_streamable_http(self, url: str, headers: Mapping[str, str]) -> AsyncIterator["TransportStreams"]:
        async with (
            self._http_client(headers) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=DEFAULT_LINE_LIMIT) as streams,
        ):
            yield streams

    def _client_factory(self, given: Mapping[str, str]) -> "McpHttpClientFactory":
        def make(
            headers: dict[str, str] | None = None,  # noqa: ARG001 - our settings replace the SDK's
            timeout: httpx2.Timeout | None = None,  # noqa: ARG001
            auth: httpx2.Auth | None = None,  # noqa: ARG001
        ) -> httpx2.AsyncClient:
            return self._http_client(given)

        return make

    def _http_client(self, headers: Mapping[str, str]) -> McpHttpClient:
        return McpHttpClient(headers, auth=self._auth(), on_session_lost=self._on_session_lost, outcomes=self._posts)

    def _auth(self) -> httpx2.Auth | None:
        """Return the OAuth handler if the settings ask for one, or the user has logged in; its module is slow."""
        if not isinstance(self._transport_config, HttpTransport):
            return None
        from fcshim.mcp.logins import OAuthLogins, default_login_folder  # noqa: PLC0415

        logins = self._logins or OAuthLogins(default_login_folder(os.environ))
        if not (self._transport_config.oauth or logins.has_login(self._server)):
            return None
        return logins.auth(self._server, self._transport_config.url)

    def _repair(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Repair a list of tools that the SDK would reject as a whole."""
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            repair_tool_list(item.message.result, self.left_out)
        return item

    def _on_session_lost(self) -> None:
        self._session_lost = True
        self.lost.set()


def _with_sse(transport: ServerTransport) -> ServerTransport:
    return msgspec.structs.replace(transport, sse=True) if isinstance(transport, HttpTransport) else transport


def _status_text(status: int) -> str:
    if status in (401, 403):
        return f"it answered {status}: it needs a login (fcshim tools login) or a key in its headers"
    return f"it answered {status}" if status else ""


class _ObservedStream:
    """A stream of messages that are repaired; it reports its end."""

    def __init__(
        self,
        stream: "ReadStream[SessionMessage | Exception]",
        repair: Callable[[SessionMessage | Exception], SessionMessage | Exception],
        on_end: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._repair = repair
        self._on_end = on_end

    @property
    def last_context(self) -> JSON:
        """The context of the last message, which the SDK reads."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            return self._repair(await self._stream.receive())
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._repair(await self._stream.__anext__())
        except (StopAsyncIteration, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)
