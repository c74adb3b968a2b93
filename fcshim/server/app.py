"""The proxy as an ASGI application: who serves which path, and how errors are told.

Rule: the only place where every exception is caught; a client always gets an answer in its API's form, or a cut line.
Neighbours: `codecs.table` knows the paths, `guard` refuses, `chat`, `desk` and `relay` serve, `run` puts it behind a
socket.
"""

import logging
import time

import msgspec

from fcshim.capabilities import model_reports
from fcshim.codecs.base import Codec
from fcshim.codecs.reply_store import ReplyStore
from fcshim.codecs.routes import OPENAI, RouteMatch, find_route
from fcshim.config import Config
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.server.asgi import Receive, Scope, Send
from fcshim.server.client_connection import ClientConnection, ClientGone
from fcshim.server.guard import RequestGuard, header_names
from fcshim.server.metadata_endpoints import MetadataEndpoints
from fcshim.server.relay import Relay
from fcshim.server.reply_endpoints import ReplyEndpoints
from fcshim.server.server_tools import ServerTools
from fcshim.upstream import upstream_for

logger = logging.getLogger("fcshim.server")

_ALLOWED_METHODS = b"GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"


class App:
    """One proxy. `stop` ends the streams that are still running. Raises `ConfigError` for a wrong file of servers."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._upstream = upstream_for(config)
        self._upstream_kind = self._upstream.kind
        self._serves_metadata = (
            config.tools == "prompt" or config.mcp is not None or not self._upstream_kind.allows_verbatim
        )
        self._guard = RequestGuard(config)
        self._relay = Relay(config, self._upstream)
        memory = ReplyStore(max_entries=config.memory_entries, max_bytes=config.memory_bytes)
        self._server_tools = ServerTools(config)
        self._replies = ReplyEndpoints(config, self._upstream, self._relay, memory, self._server_tools)
        self._metadata = MetadataEndpoints(config, self._upstream, memory, self._server_tools)
        self._connections: set[ClientConnection] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            await self._serve_http(ClientConnection(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)

    def stop(self) -> None:
        """End every running request: in the stream where it has begun, else with 503."""
        for line in list(self._connections):
            line.interrupt(UpstreamError("the proxy is shutting down", status=503, kind="unavailable"))

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._server_tools.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._server_tools.aclose()
        await self._upstream.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve_http(self, connection: ClientConnection) -> None:
        begin = time.monotonic()
        self._connections.add(connection)
        outcome = ""
        found = find_route(
            connection.method,
            connection.path,
            header_names(connection),
            model_lists=not self._upstream_kind.full_openai_api,
        )
        try:
            await self._route(connection, found)
        except ClientGone:
            outcome = ", the client left"
        except FcshimError as error:
            outcome = f", {error.message}"
            await _send_error(connection, found.api.codec, error)
        except Exception:
            logger.exception("%s %s failed", connection.method, connection.path)
            await _send_error(connection, found.api.codec, FcshimError("something went wrong inside the proxy"))
        finally:
            self._connections.discard(connection)
            took = time.monotonic() - begin
            logger.info(
                "%s %s %s in %.3f s%s", connection.method, connection.path, connection.status or "-", took, outcome
            )

    async def _route(self, connection: ClientConnection, route: RouteMatch) -> None:
        self._guard.check(connection)
        connection.extra_headers += self._guard.cors_headers(connection)
        if connection.method == "OPTIONS" and connection.header(b"access-control-request-method"):
            await _answer_preflight(connection)
        elif connection.path == "/health":
            await connection.respond(200, b'{"status":"ok"}')
        elif connection.path == "/fcshim/models" and connection.method == "GET":
            self._guard.check_key(connection)
            await connection.respond(
                200, msgspec.json.encode(await model_reports(self._config, self._replies.tool_support))
            )
        else:
            await self._serve_api(connection, route)

    async def _serve_api(self, connection: ClientConnection, route: RouteMatch) -> None:
        if self._is_relayed(connection, route):
            self._guard.check_key(connection)
            await self._relay.serve(connection)
        elif route.operation is not None:
            self._guard.check_key(connection)
            await (self._replies if route.operation == "reply" else self._metadata).serve(connection, route)
        elif route.allowed_methods:
            raise RequestError(
                f"{connection.method} is not for {connection.path!r:.200}, {route.allowed_methods[0]} is", status=405
            )
        else:
            raise RequestError(
                f"there is nothing at {connection.path!r:.200}; the API is at /v1", status=404, kind="not_found"
            )

    def _is_relayed(self, connection: ClientConnection, route: RouteMatch) -> bool:
        """Tell whether the upstream itself answers: what we do not serve, and what it knows better."""
        if route.operation is None:
            unknown = route.api is OPENAI and not route.allowed_methods
            return unknown and self._upstream_kind.full_openai_api and connection.path.startswith("/v1/")
        return route.operation != "reply" and route.api.codec is self._upstream_kind.codec and not self._serves_metadata


async def _send_error(connection: ClientConnection, codec: Codec, error: FcshimError) -> None:
    """Tell an error, or where the response has begun, leave it unfinished: the server then cuts the connection."""
    if connection.started:
        return
    body = codec.encode_error(error)
    if error.status in {413, 431}:
        # What is left of a refused request's body would be read as the next request's.
        await connection.respond_before_body(error.status, body)
    else:
        await connection.respond(error.status, body)


async def _answer_preflight(connection: ClientConnection) -> None:
    """Answer a browser that asks before it sends; the guard has let its origin pass."""
    asked = connection.header(b"access-control-request-headers")
    connection.prepare(
        204,
        [
            (b"access-control-allow-methods", _ALLOWED_METHODS),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", b"600"),
        ],
    )
    await connection.start()
    await connection.end()


def create_app(config: Config) -> App:
    """Make the ASGI application for `config`."""
    return App(config)
