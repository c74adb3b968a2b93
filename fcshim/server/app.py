"""The proxy as an ASGI application: routing, error responses, request logging.

Rule: this is the only place that catches every exception. A client always gets a response in the format of its API, or,
once the response has started, a cut connection.
"""

import asyncio
import functools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.codecs.base import Codec
from fcshim.codecs.routes import OPENAI, RouteMatch, expected_path, find_route, relayed_methods
from fcshim.config import Config, scoped_config
from fcshim.errors import FcshimError, RequestError, StoreError, UpstreamError, release_frames
from fcshim.server.client_connection import ClientConnection, ClientGone, Receive, Scope, Send
from fcshim.server.guard import RequestGuard, header_names, is_inspector
from fcshim.server.inspector.endpoints import InspectorEndpoints
from fcshim.server.metadata_endpoints import EmbeddingEndpoint, MetadataEndpoints
from fcshim.server.observers import Observers, load_observers
from fcshim.server.pool import PoolMember, UpstreamPool
from fcshim.server.readiness import UNAVAILABLE, Readiness, check_store
from fcshim.server.relay import Relay
from fcshim.server.reply_endpoints import ReplyEndpoints, new_id_sources
from fcshim.server.request_log import (
    REQUEST_ID_HEADER,
    LoggedRequest,
    config_secrets,
    current_request,
    mask_request_logs,
)
from fcshim.server.server_tools import ServerTools, load_server_tools
from fcshim.server.status_page import prefers_html, serve_status_page
from fcshim.server.store import Store
from fcshim.server.store.open import open_store
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.health import MeasuredUpstream, endpoint_key, measured_upstream_for
from fcshim.upstream.model_report import ModelReport, model_reports

logger = logging.getLogger("fcshim.server")

_PROBE_PATHS = ("/health", "/ready")

_ALLOWED_METHODS = b"GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"

_OF_ALL_UPSTREAMS = frozenset({"models", "model", "describe", "local"})
"""Operations that no single one of several upstreams serves."""


@dataclass(frozen=True, slots=True)
class SharedState:
    """The state that is kept when the settings are loaded again: the store, server tools, ids and observers."""

    store: Store
    server_tools: ServerTools
    id_sources: Mapping[str, Callable[[], str]]
    observers: Observers
    inspector_port: int
    """The port that serves the inspector and nothing else; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class AppEndpoints:
    """What serves the requests of one configuration, apart from those about the proxy itself."""

    relay: Relay
    replies: ReplyEndpoints
    metadata: MetadataEndpoints
    embeddings: EmbeddingEndpoint
    inspector: InspectorEndpoints | None


class App:
    """The ASGI application for one configuration. Made by `create_app`."""

    def __init__(
        self,
        config: Config,
        capabilities: Capabilities,
        state: SharedState,
        served: AppEndpoints,
        *,
        reports: Callable[[], Awaitable[list[ModelReport]]],
        pool: UpstreamPool | None = None,
    ) -> None:
        self.config = config
        self.state = state
        self.reports = reports
        """Returns a report for every model. Raises `UpstreamError`."""
        self.pool = pool
        self._served = served
        self._observers = state.observers
        self.capabilities = capabilities
        self._upstream = capabilities.upstream
        self._upstream_kind = kind = capabilities.upstream.kind
        self._aliases = config.aliases
        self._serves_model_lists = pool is not None or not kind.full_openai_api or bool(self._aliases)
        by_prompt = config.merged_with().tools == "prompt"
        self._serves_metadata = by_prompt or config.mcp is not None or not kind.allows_verbatim
        self._guard = RequestGuard(config)
        self._readiness = Readiness(capabilities.upstream)
        self._secrets = config_secrets(config)
        self._server_tools = state.server_tools
        self._connections: set[ClientConnection] = set()
        self.request_count = 0
        """Requests so far, also those that their clients abandoned, which uvicorn does not count."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            await self._serve_http(ClientConnection(scope, receive, send, body_timeout=self.config.body_timeout))
        elif scope["type"] == "lifespan":
            await run_lifespan(receive, send, self.open, self.aclose)

    def stop(self) -> None:
        """End every running request: with an error event if its stream has started, else with 503."""
        for connection in list(self._connections):
            connection.interrupt(UpstreamError("the proxy is shutting down", status=503, kind="unavailable"))

    @property
    def endpoints(self) -> list[tuple[Config, Capabilities]]:
        """The settings and the capabilities of each upstream."""
        if self.pool is None:
            return [(self.config, self.capabilities)]
        return [(member.config, member.capabilities) for member in self.pool.members.values()]

    @property
    def is_idle(self) -> bool:
        """Whether no request is running."""
        return not self._connections

    async def open(self) -> None:
        """Begin to connect to the MCP servers; check the store, which logs an outage."""
        await self._server_tools.open()
        await check_store(self.config, self.state.store)

    async def aclose(self) -> None:
        """Stop the MCP servers, close the connections to the upstreams, and close the store."""
        await self._server_tools.aclose()
        for _, capabilities in self.endpoints:
            await capabilities.upstream.aclose()
        await self.state.store.aclose()
        await asyncio.to_thread(self._observers.close)

    async def _serve_http(self, connection: ClientConnection) -> None:
        started_at = time.monotonic()
        self.request_count += 1
        self._connections.add(connection)
        logged = LoggedRequest(connection, self._secrets)
        current_request.set(logged)
        connection.extra_headers.append((REQUEST_ID_HEADER, logged.id.encode()))
        outcome = ""
        route = find_route(
            connection.method,
            connection.path,
            header_names(connection),
            model_lists=self._serves_model_lists,
        )
        inspector = self._served.inspector
        if inspector is not None and not inspector.serves(connection):
            inspector = None
        if inspector is None and self._observers.listed:
            self._observers.begin(logged.id, route, connection)
        try:
            with connection.interruptible():
                await self._route(connection, route, inspector)
        except ClientGone as error:
            outcome = ", the client left"
            release_frames(error)
        except FcshimError as error:
            outcome = f", {error.message}"
            if isinstance(error, StoreError):
                connection.extra_headers.append((b"retry-after", str(error.retry_after).encode()))
            release_frames(error)
            await _send_error(connection, route.api.codec, error)
        except Exception as error:
            outcome = ", something went wrong inside the proxy"
            logger.exception("%s %s failed", connection.method, connection.path)
            release_frames(error)
            await _send_error(connection, route.api.codec, FcshimError("something went wrong inside the proxy"))
        finally:
            self._connections.discard(connection)
            if connection.observers is not None:
                connection.observers.end(connection.status, outcome.removeprefix(", "))
            seconds = time.monotonic() - started_at
            _log_outcome(connection, seconds, await logged.shown(outcome) if outcome else "")
            logged.close()

    async def _route(
        self, connection: ClientConnection, route: RouteMatch, inspector: InspectorEndpoints | None
    ) -> None:
        """Serve a request; `inspector` is the inspector if the request is for it."""
        self._guard.check(connection)
        connection.extra_headers += self._guard.cors_headers(connection)
        if connection.method == "OPTIONS" and connection.header(b"access-control-request-method"):
            await _answer_preflight(connection)
            return
        if inspector is not None and inspector.is_page(connection):
            await inspector.serve_page(connection)
            return
        self._guard.check_key(connection)
        if inspector is not None:
            await inspector.serve_api(connection, self)
        elif connection.path == "/health":
            await connection.respond(200, b'{"status":"ok"}', (b"server", b"fcshim"))
        elif self._observers.serve_metrics is not None and connection.path == "/metrics":
            await self._observers.serve_metrics(connection)
        elif connection.path == "/ready":
            await self._serve_readiness(connection)
        elif connection.path == "/" and connection.method in {"GET", "HEAD"}:
            await self._serve_root(connection)
        elif connection.path == "/fcshim/models" and connection.method == "GET":
            await connection.respond(200, msgspec.json.encode(await self.reports()))
        else:
            self._check_inspector_port(connection)
            await self.serve_api(connection, route)

    def _check_inspector_port(self, connection: ClientConnection) -> None:
        """Raise `RequestError` if the inspector is asked for at the proxy's port, and has another."""
        port = self.state.inspector_port
        if port and (connection.path == "/fcshim" or connection.path.startswith("/fcshim/")):
            raise RequestError(
                f"the inspector has a port of its own here: {port}, at /fcshim/", status=404, kind="not_found"
            )

    async def _serve_readiness(self, connection: ClientConnection) -> None:
        """Answer whether requests would be served now; only a client with a key gets the reason."""
        known = self._guard.is_known(connection)
        # The check writes to the store, so it needs a key.
        store = await check_store(self.config, self.state.store) if known else None
        readiness = self.pool.readiness(store) if self.pool is not None else await self._readiness.check(store)
        answer = readiness if known else {"status": readiness.status}
        await connection.respond(503 if readiness.status == UNAVAILABLE else 200, msgspec.json.encode(answer))

    async def _serve_root(self, connection: ClientConnection) -> None:
        """Answer a browser with the status page, any other client as Ollama does."""
        if prefers_html(connection):
            await serve_status_page(connection, self.config, self.capabilities, self.reports)
            return
        connection.prepare(200, [(b"content-type", b"text/plain; charset=utf-8"), (b"vary", b"Accept")])
        await connection.end(b"Ollama is running")

    async def serve_api(self, connection: ClientConnection, route: RouteMatch) -> None:
        """Serve a request of a client API. Raises `FcshimError`."""
        if route.operation is None and not route.allowed_methods:
            _check_base_url(connection.path)
        if self.pool is not None and route.operation not in _OF_ALL_UPSTREAMS:
            await self.pool.serve(connection, route)
        elif self.pool is None and self._is_relayed(connection, route):
            if route.operation is None:
                _check_method(connection, relayed_methods(connection.encoded_path))
            await self._served.relay.serve(connection)
        elif route.operation == "embed":
            await self._served.embeddings.serve(connection)
        elif route.operation is not None:
            endpoint = self._served.replies if route.operation == "reply" else self._served.metadata
            await endpoint.serve(connection, route)
        elif route.allowed_methods:
            _check_method(connection, route.allowed_methods)
        else:
            raise RequestError(
                f"there is nothing at {connection.path!r:.200}; the API is at /v1", status=404, kind="not_found"
            )

    def _is_relayed(self, connection: ClientConnection, route: RouteMatch) -> bool:
        """Return whether the upstream answers this request itself."""
        if route.operation is None:
            # Embeddings, files and the other paths of OpenAI's API have no tools to emulate.
            unknown = route.api is OPENAI and not route.allowed_methods
            return unknown and self._upstream_kind.full_openai_api and connection.path.startswith("/v1/")
        if route.operation == "model" and route.api.codec is OPENAI.codec and self._upstream_kind.full_openai_api:
            return route.path_params["model"] not in self._aliases
        # The upstream counts tokens and lists models exactly, but only for requests that it would get unchanged.
        return (
            route.operation not in {"reply", "embed"}
            and route.api.codec is self._upstream_kind.codec
            and not self._serves_metadata
            and (route.operation == "count" or not self._aliases)
        )


async def run_lifespan(
    receive: Receive, send: Send, start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]
) -> None:
    """Serve ASGI's lifespan scope."""
    await receive()
    await start()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await stop()
    await send({"type": "lifespan.shutdown.complete"})


def _check_base_url(path: str) -> None:
    """Raise `RequestError` if the path shows that the client's base URL has `/v1` once too often, or not at all.

    An upstream would answer such a path with a 404 that does not say what is wrong.
    """
    expected = expected_path(path)
    if expected:
        change = "add /v1 to" if expected.startswith("/v1" + path) else "remove /v1 from"
        message = f"there is nothing at {path!r:.200}, but at {expected!r:.200}: {change} the base URL of your client"
        raise RequestError(message, status=404, kind="not_found")


def _check_method(connection: ClientConnection, allowed: Sequence[str]) -> None:
    if connection.method not in allowed:
        expected = ", ".join(allowed)
        connection.extra_headers += [(b"allow", expected.encode())]
        raise RequestError(
            f"{connection.method} is not allowed at {connection.path!r:.200}; use {expected}", status=405
        )


async def _send_error(connection: ClientConnection, codec: Codec, error: FcshimError) -> None:
    """Send an error response.

    If the response has started, leave it unfinished: the server then cuts the connection.
    """
    if connection.started:
        return
    body = _with_request_id(codec.encode_error(error))
    if error.status in {408, 413, 431}:
        # Otherwise the unread rest of the body would be parsed as the next request on this connection.
        await connection.respond_before_body(error.status, body)
    else:
        await connection.respond(error.status, body)


def _with_request_id(body: bytes) -> bytes:
    """Add the id of the request to an error body, where Anthropic's API has it; clients of the others ignore it."""
    request = current_request.get()
    fields = msgspec.json.decode(body)
    if request is None or not isinstance(fields, dict):
        return body
    return msgspec.json.encode({**fields, "request_id": request.id})


def _log_outcome(connection: ClientConnection, seconds: float, outcome: str) -> None:
    """Log one line for a request that has ended; without an `outcome`, it quotes nothing that needs a mask.

    A healthy answer to a probe or to the inspector's page comes every few seconds and says nothing: only
    `--log-level debug` shows it.
    """
    is_routine = (connection.path in _PROBE_PATHS and connection.status == 200) or (
        is_inspector(connection.path) and connection.status < 400
    )
    fields = {
        "method": connection.method,
        "path": connection.path,
        "status": connection.status or None,
        "seconds": round(seconds, 6),
    }
    logger.log(
        logging.DEBUG if is_routine else logging.INFO,
        "%s %s %s in %.3f s%s",
        connection.method,
        connection.path,
        connection.status or "-",
        seconds,
        outcome,
        extra={"plain": not outcome, "fields": fields},
    )


async def _answer_preflight(connection: ClientConnection) -> None:
    """Answer a CORS preflight request. The guard has already checked its origin."""
    requested_headers = connection.header(b"access-control-request-headers")
    connection.prepare(
        204,
        [
            (b"access-control-allow-methods", _ALLOWED_METHODS),
            (b"access-control-allow-headers", requested_headers),
            (b"access-control-max-age", b"600"),
        ],
    )
    await connection.start()
    await connection.end()


def create_app(config: Config, previous: App | None = None, *, inspector_port: int = 0) -> App:
    """Make the ASGI application for `config`. Raises `ConfigError` if the MCP servers file is invalid.

    It takes over from `previous` what stays when settings change, and what is known of upstreams that stay the same.
    `inspector_port` serves the inspector and nothing else; without one, the inspector is at the port of the API.
    """
    mask_request_logs()
    if previous is None:
        observers = load_observers(config, os.environ)
        state = SharedState(open_store(config), load_server_tools(config), new_id_sources(), observers, inspector_port)
        known = []
    else:
        state, known = previous.state, previous.endpoints
    if not config.upstreams:
        return _make_app(config, _capabilities_of(config, known), state)
    members = []
    for name in config.upstreams:
        scoped = scoped_config(config, name)
        capabilities = _capabilities_of(scoped, known)
        upstream = capabilities.upstream
        assert isinstance(upstream, MeasuredUpstream)
        serve = _make_app(scoped, capabilities, state).serve_api
        members.append(PoolMember(name, scoped, capabilities, upstream, serve))
    return _make_app(config, members[0].capabilities, state, UpstreamPool(config, members))


def _make_app(config: Config, capabilities: Capabilities, state: SharedState, pool: UpstreamPool | None = None) -> App:
    upstream, store, tools = capabilities.upstream, state.store, state.server_tools
    captures = state.observers.captures
    relay = Relay(config, upstream)
    reports = functools.partial(model_reports, config, capabilities) if pool is None else pool.reports
    served = AppEndpoints(
        relay,
        ReplyEndpoints(config, capabilities, relay, store, tools, state.id_sources),
        MetadataEndpoints(config, capabilities, store, tools, None if pool is None else pool.directory),
        EmbeddingEndpoint(config, upstream, relay),
        None if captures is None else InspectorEndpoints(config, reports, captures, port=state.inspector_port),
    )
    return App(config, capabilities, state, served, reports=reports, pool=pool)


def _capabilities_of(config: Config, known: Sequence[tuple[Config, Capabilities]]) -> Capabilities:
    """Return the capabilities of the configuration's upstream, which are empty at first."""
    key = endpoint_key(config)
    found = next((capabilities for each, capabilities in known if endpoint_key(each) == key), None)
    return found or Capabilities(measured_upstream_for(config), config.constrain)
