"""Serves a gateway: over stdio to the program that started us, or over HTTP.

Rule: on a loopback address only local `Host` headers and no `Origin` but the server's own are accepted, against web
pages and DNS rebinding (CVE-2025-66416); any other address needs an API key.
"""

import asyncio
import hmac
import ipaddress
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, TypeAlias, cast

import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from fcshim.errors import ConfigError
from fcshim.events import JSON
from fcshim.mcp.gateway import Gateway
from fcshim.mcp.line_splitter import BoundedLineSplitter

if TYPE_CHECKING:
    import anyio

    from fcshim.config import Secret

Scope: TypeAlias = MutableMapping[str, JSON]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, JSON]]]
Send: TypeAlias = Callable[[MutableMapping[str, JSON]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_READ_SIZE = 256 * 1024
_END_SECONDS = 5
"""Seconds for running calls after a signal; a client that keeps its stream open would prevent the end."""
_TOO_SLOW = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "the body did not come in time"}}'
_UNAUTHORIZED = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "an API key is needed"}}'


async def serve_stdio(gateway: Gateway) -> None:
    """Serve the program that started us, until it closes our standard input."""
    async with stdio_server(await _open_stdin()) as (read, write):
        await gateway.server.run(read, write, gateway.initialization_options)


async def _open_stdin() -> "anyio.AsyncFile[str] | None":
    """Return the lines of standard input; the SDK's own reader blocks in a thread, where ctrl-C has no effect.

    Return None for standard input that is neither a pipe nor a terminal: the event loop cannot wait for it.
    """
    reader = asyncio.StreamReader()
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    except ValueError:
        return None
    return cast("anyio.AsyncFile[str]", _read_lines(reader))  # the SDK only iterates over its lines


async def _read_lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    splitter = BoundedLineSplitter()
    while data := await reader.read(_READ_SIZE):
        for line in splitter.feed(data):
            if isinstance(line, bytes):
                yield line.decode(errors="replace")


async def serve_http(
    gateway: Gateway, *, host: str, port: int, protocol: type[asyncio.Protocol], key: "Secret | None" = None
) -> None:
    """Serve at `http://host:port/mcp` until a signal ends the process; `protocol` limits the heads of requests."""
    config = uvicorn.Config(
        http_app(gateway, host=host, port=port, key=key),
        host=host,
        port=port,
        http=protocol,
        ws="none",
        log_level="warning",
        timeout_graceful_shutdown=_END_SECONDS,
    )
    await uvicorn.Server(config).serve()


def http_app(
    gateway: Gateway,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    key: "Secret | None" = None,
    body_timeout: float = 60.0,
) -> App:
    """Create the ASGI application; with `port` it knows its own origin.

    A body may pause for `body_timeout` seconds.

    Raises `ConfigError` for an address beyond this machine without a key.
    """
    if not _is_loopback(host) and key is None:
        raise ConfigError(f"{host} can be reached from outside: expected an API key")
    # The origins of a page that this server itself would serve; a browser leaves out port 80.
    end = "" if port == 80 else f":{port}"
    origins = [] if port is None else [f"http://{name}{end}" for name in _LOCAL_NAMES]
    local = TransportSecuritySettings(allowed_hosts=[f"{name}:*" for name in _LOCAL_NAMES], allowed_origins=origins)
    anywhere = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = gateway.server.streamable_http_app(transport_security=local if _is_loopback(host) else anywhere)
    limited = _BodyTimer(_HeaderTrimmer(app), body_timeout)
    return limited if key is None else _ApiKeyMiddleware(limited, key.reveal())


class _HeaderTrimmer:
    """Removes white space around the values of headers, which is not part of them (RFC 9110, 5.5).

    uvicorn's parsers keep it behind a value, and the SDK compares values with the body as they are.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "headers" in scope:
            scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)


class _BodyTimer:
    """Answers a request whose body stops with status 408; a client could hold any number of connections."""

    def __init__(self, app: App, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        complete, refused = scope["type"] != "http", False

        async def receive_in_time() -> MutableMapping[str, JSON]:
            nonlocal complete, refused
            if complete:
                return await receive()
            try:
                async with asyncio.timeout(self._seconds):
                    message = await receive()
            except TimeoutError:
                complete = refused = True
                await _refuse(send, 408, _TOO_SLOW)
                return {"type": "http.disconnect"}
            complete = not message.get("more_body", False)
            return message

        async def send_unless_refused(message: MutableMapping[str, JSON]) -> None:
            if not refused:
                await send(message)

        await self._app(scope, receive_in_time, send_unless_refused)


async def _refuse(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    plain = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": status, "headers": [plain, *headers]})
    await send({"type": "http.response.body", "body": body})


class _ApiKeyMiddleware:
    """Answers HTTP requests without the key with status 401."""

    def __init__(self, app: App, key: str) -> None:
        self._app = app
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        # In constant time: the duration of a plain comparison reveals the key (CVE-2025-59425).
        if scope["type"] != "http" or hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        await _refuse(send, 401, _UNAUTHORIZED, (b"www-authenticate", b"Bearer"))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
