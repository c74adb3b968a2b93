"""The proxy as an ASGI application: who serves which path, and how errors are told.

Rule: the only place where every exception is caught; a client always gets an answer in its API's form, or a cut line.
Neighbours: `codecs.table` knows the paths, `guard` refuses, `chat`, `desk` and `relay` serve, `run` puts it behind a
socket.
"""

import logging
import time

import msgspec

from fcshim.codecs.base import Codec
from fcshim.codecs.reply_store import ReplyStore
from fcshim.codecs.routes import OPENAI, RouteMatch, find_route
from fcshim.config import Config
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.inquiry import outlook
from fcshim.server.asgi import Receive, Scope, Send
from fcshim.server.chat import Chat
from fcshim.server.desk import Desk
from fcshim.server.guard import Guard, spoken
from fcshim.server.line import ClientGone, Line
from fcshim.server.own_tools import OwnTools
from fcshim.server.relay import Relay
from fcshim.upstream import upstream_for

logger = logging.getLogger("fcshim.server")

_METHODS = b"GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"


class App:
    """One proxy. `stop` ends the streams that are still running. Raises `ConfigError` for a wrong file of servers."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._upstream = upstream_for(config)
        self._kind = self._upstream.kind
        self._replies_only = config.tools == "prompt" or config.mcp is not None or not self._kind.allows_verbatim
        self._guard = Guard(config)
        self._relay = Relay(config, self._upstream)
        memory = ReplyStore(max_entries=config.memory_entries, max_bytes=config.memory_bytes)
        self._own_tools = OwnTools(config)
        self._chat = Chat(config, self._upstream, self._relay, memory, self._own_tools)
        self._desk = Desk(config, self._upstream, memory, self._own_tools)
        self._lines: set[Line] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "http":
            await self._serve(Line(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    def stop(self) -> None:
        """End every running request: in the stream where it has begun, else with 503."""
        for line in list(self._lines):
            line.interrupt(UpstreamError("the proxy is shutting down", status=503, kind="unavailable"))

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._own_tools.open()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._own_tools.aclose()
        await self._upstream.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, line: Line) -> None:
        begin = time.monotonic()
        self._lines.add(line)
        outcome = ""
        found = find_route(line.method, line.path, spoken(line), model_lists=not self._kind.full_openai_api)
        try:
            await self._route(line, found)
        except ClientGone:
            outcome = ", the client left"
        except FcshimError as error:
            outcome = f", {error.message}"
            await _refuse(line, found.api.codec, error)
        except Exception:
            logger.exception("%s %s failed", line.method, line.path)
            await _refuse(line, found.api.codec, FcshimError("something went wrong inside the proxy"))
        finally:
            self._lines.discard(line)
            took = time.monotonic() - begin
            logger.info("%s %s %s in %.3f s%s", line.method, line.path, line.status or "-", took, outcome)

    async def _route(self, line: Line, found: RouteMatch) -> None:
        self._guard.check(line)
        line.extra_headers += self._guard.cors(line)
        if line.method == "OPTIONS" and line.header(b"access-control-request-method"):
            await _allow(line)
        elif line.path == "/health":
            await line.answer(200, b'{"status":"ok"}')
        elif line.path == "/fcshim/models" and line.method == "GET":
            self._guard.check_key(line)
            await line.answer(200, msgspec.json.encode(await outlook(self._config, self._chat.aptitude)))
        else:
            await self._serve_api(line, found)

    async def _serve_api(self, line: Line, found: RouteMatch) -> None:
        if self._is_relayed(line, found):
            self._guard.check_key(line)
            await self._relay.serve(line)
        elif found.operation is not None:
            self._guard.check_key(line)
            await (self._chat if found.operation == "reply" else self._desk).serve(line, found)
        elif found.allowed_methods:
            raise RequestError(f"{line.method} is not for {line.path!r:.200}, {found.allowed_methods[0]} is", status=405)
        else:
            raise RequestError(
                f"there is nothing at {line.path!r:.200}; the API is at /v1", status=404, kind="not_found"
            )

    def _is_relayed(self, line: Line, found: RouteMatch) -> bool:
        """Tell whether the upstream itself answers: what we do not serve, and what it knows better."""
        if found.operation is None:
            unknown = found.api is OPENAI and not found.allowed_methods
            return unknown and self._kind.full_openai_api and line.path.startswith("/v1/")
        return found.operation != "reply" and found.api.codec is self._kind.codec and not self._replies_only


async def _refuse(line: Line, codec: Codec, error: FcshimError) -> None:
    """Tell an error, or where the response has begun, leave it unfinished: the server then cuts the connection."""
    if line.started:
        return
    body = codec.encode_error(error)
    if error.status in {413, 431}:
        # What is left of a refused request's body would be read as the next request's.
        await line.refuse(error.status, body)
    else:
        await line.answer(error.status, body)


async def _allow(line: Line) -> None:
    """Answer a browser that asks before it sends; the guard has let its origin pass."""
    asked = line.header(b"access-control-request-headers")
    line.plan(
        204,
        [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", b"600"),
        ],
    )
    await line.start()
    await line.end()


def create_app(config: Config) -> App:
    """Make the ASGI application for `config`."""
    return App(config)
