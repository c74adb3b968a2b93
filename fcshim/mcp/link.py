"""An open transport to a server: the one module that knows the kinds of transports.

Rule: whatever the transport, a link reports that it opened, that it was lost, and whether a failed request was provably
not executed, so that it can be sent again. A failure is described in one line, for people and for models, by its root
cause, with what a program wrote before it died.
"""

import contextlib
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
import anyio.lowlevel
import httpx2
import msgspec
from mcp import MCPError, StdioServerParameters
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCResponse
from pydantic import ValidationError

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.mcp.definitions import repair_tool_list
from fcshim.mcp.flood_limits import RateLimit
from fcshim.mcp.http_client import McpHttpClient, PostOutcomes, SendStatus
from fcshim.mcp.line_splitter import DEFAULT_LINE_LIMIT
from fcshim.mcp.pins import Pins
from fcshim.mcp.server_secrets import mask_message, secrets_mask
from fcshim.mcp.settings import (
    HttpTransport,
    InProcessTransport,
    McpServerConfig,
    NpmTransport,
    StdioTransport,
    UnusableTransport,
)
from fcshim.mcp.stdio_transport import ServerProcess, open_stdio
from fcshim.tools.process_guard import ProcessGuard

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, Transport, TransportStreams
    from mcp.shared._httpx_utils import McpHttpClientFactory

    from fcshim.mcp.logins import OAuthLogins

logger = logging.getLogger(__name__)

_NPX_ARGS = ("--yes", "--")
_NO_POST = (400, 404, 405, 406, 415, 501)
"""Statuses after which MCP says to try the older transport."""
_MAX_ITEMS = 2_000
"""Entries of a list in an answer, such as blocks of content: the SDK takes up to 0.02 ms to validate one."""
_RATES = {True: (10_000, 1_000), False: (1_000, 200)}
"""Answers (`True`) and other messages that are handled at once, then each second."""
_GENERIC_MESSAGES = frozenset({"Connection closed", "Not Found", "Server returned an error response"})
"""Messages of the SDK that have no cause; the diagnostics have it."""
_MAX_DESCRIPTION = 600
"""Characters of an error, and of the diagnostics: enough for the last lines of a traceback."""
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
        self._transport_config = server.transport
        if sse and isinstance(server.transport, HttpTransport):
            self._transport_config = msgspec.structs.replace(server.transport, sse=True)
        self._posts = PostOutcomes()
        self._logins = logins
        self._guard = guard
        self._on_open = on_open
        self._not_sent_token = secrets.token_hex(8)
        self._session_lost = False
        self._process: ServerProcess | None = None
        self._rates = {answers: RateLimit(*rate) for answers, rate in _RATES.items()}
        self._warned = False
        self._mask = secrets_mask(server)

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
            status = 0 if self._posts.accepted else self._posts.refused_with
            if status in (401, 403):
                return f"it answered {status}: it needs a login (fcshim tools login) or a key in its headers"
            return f"it answered {status}" if status else ""
        code = self._process.child.process.returncode
        ended_by_us = not self._process.exited_by_itself and code in (None, 0, -signal.SIGTERM, -signal.SIGKILL)
        ended = "" if ended_by_us else f"it exited with status {code}"
        wrote = " ".join(self._process.stderr_tail.split())
        excerpt = wrote if len(wrote) <= _STDERR_EXCERPT else f"…{wrote[-_STDERR_EXCERPT:]}"
        return "; ".join(filter(None, (ended, excerpt and f"it wrote: {excerpt}")))

    @contextlib.asynccontextmanager
    async def _open_streams(self) -> AsyncIterator["TransportStreams"]:
        # The SDK logs each message that it cannot read, with its text; the call's error says it once.
        for name in ("mcp.client.streamable_http", "mcp.client.sse"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        async with self._open_transport() as (read, write):
            self.opened = True
            self._on_open()
            yield _ObservedStream(read, self._admit, self.lost.set), write

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

    async def _admit(self, item: SessionMessage | Exception) -> SessionMessage | Exception | None:
        """Return a message without credentials, with a list of tools that the SDK accepts; None drops it."""
        if not isinstance(item, SessionMessage):
            return item
        if not self._is_within_rate(item):
            return None
        if isinstance(item.message, JSONRPCResponse):
            item = _without_long_lists(item.message)
        if isinstance(item.message, JSONRPCResponse):
            repair_tool_list(item.message.result, self.left_out)
        await mask_message(item.message, self._mask)
        return item

    def _is_within_rate(self, item: SessionMessage) -> bool:
        is_answer = isinstance(item.message, JSONRPCResponse | JSONRPCError)
        admitted = self._rates[is_answer].admits(anyio.current_time())
        if not admitted and not self._warned:
            self._warned = True
            logger.warning("%s: it sends too many messages; some are dropped", self._server.name)
        return admitted

    def _on_session_lost(self) -> None:
        self._session_lost = True
        self.lost.set()


def _without_long_lists(answer: JSONRPCResponse) -> SessionMessage:
    """Return an answer, or the error that one of its lists is too long."""
    for name, value in answer.result.items():
        if isinstance(value, list) and len(value) > _MAX_ITEMS:
            message = f"the answer has {len(value)} entries in {name[:50]!r}; at most {_MAX_ITEMS} are read"
            error = ErrorData(code=INTERNAL_ERROR, message=message)
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answer.id, error=error))
    return SessionMessage(answer)


def describe_error(error: BaseException, diagnostics: str = "") -> str:
    """Describe an error; `diagnostics` is the exit code and standard error of the server's program."""
    cause = root_cause(error)
    match cause:
        case FileNotFoundError(filename=filename) if filename:
            problem = f"{filename!r} was not found"
        case PermissionError(filename=filename) if filename:
            problem = f"no permission to run {filename}"
        case httpx2.HTTPStatusError(response=response) if response.status_code == 401:
            problem = "it answered 401: it needs a login (fcshim tools login) or a key in its headers"
        case httpx2.HTTPStatusError():
            problem = f"it answered {cause.response.status_code}"
        case OAuthFlowError():
            problem = f"it needs a login ({cause}); run: fcshim tools login"
        case MCPError():
            problem = "" if diagnostics and cause.message in _GENERIC_MESSAGES else cause.message
        case ValidationError():
            first, *_ = cause.errors()
            problem = f"its answer is not valid: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        case TimeoutError():
            problem = "it timed out"
        case _:
            problem = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return "; ".join(filter(None, (_one_line(problem), _one_line(diagnostics))))


def _one_line(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_DESCRIPTION else f"{line[: _MAX_DESCRIPTION - 1]}…"


def root_cause(error: BaseException) -> BaseException:
    """Return the first error that is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _ObservedStream:
    """A stream of the messages that `admit` returns; it reports its end."""

    def __init__(
        self,
        stream: "ReadStream[SessionMessage | Exception]",
        admit: Callable[[SessionMessage | Exception], Awaitable[SessionMessage | Exception | None]],
        on_end: Callable[[], None],
    ) -> None:
        self._stream = stream
        self._admit = admit
        self._on_end = on_end

    @property
    def last_context(self) -> JSON:
        """The context of the last message, which the SDK reads."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            item = None
            while item is None:
                item = await self._admit(await self._stream.receive())
                await anyio.lowlevel.checkpoint()  # a flood that is dropped must not keep other tasks from running
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._on_end()
            raise
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)


class _ConnectMode(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a server needs: the older HTTP transport, the handshake of the protocols before 2026."""

    sse: bool
    handshake: bool

    @property
    def name(self) -> str:
        """The mode's name in the file of pins; empty for the usual one."""
        return " ".join(filter(None, ("sse" * self.sse, "handshake" * self.handshake)))


class ConnectModes:
    """The modes in which one server is tried: the one that worked last, then those that older servers need."""

    def __init__(self, server: McpServerConfig, pins: Pins) -> None:
        self._server = server
        self._pins = pins
        http = isinstance(server.transport, HttpTransport)
        self._configured = _ConnectMode(
            sse=isinstance(server.transport, HttpTransport) and server.transport.sse, handshake=server.handshake
        )
        words = pins.connect_mode(server).split()
        self.current = _ConnectMode(
            sse=self._configured.sse or (http and "sse" in words),
            handshake=self._configured.handshake or "handshake" in words,
        )

    def follow(self, link: Link) -> bool:
        """Take the mode that a failed link shows its server to need, and return whether there is one."""
        if link.wants_sse:
            self.current = msgspec.structs.replace(self.current, sse=True)
        elif link.opened and not self.current.handshake:
            self.current = msgspec.structs.replace(self.current, handshake=True)
        else:
            return False
        return True

    def remember(self) -> None:
        """Begin with the current mode from now on, also in other processes."""
        self._pins.remember_connect_mode(self._server, self.current.name)

    def reset(self) -> None:
        """Return to the configured mode, since none has worked."""
        self.current = self._configured
