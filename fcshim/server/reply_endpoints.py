"""The endpoints that give a reply, of every client API.

Rule: what needs no shim is relayed verbatim where the upstream speaks the client's API.
Neighbours: `conversation` has the rest answered, `relay` passes on; the settings say what stands between.
"""

import logging
import time
from dataclasses import dataclass

import msgspec

from fcshim.capabilities import ToolSupport
from fcshim.codecs.base import Codec, ReplyIdentity
from fcshim.codecs.reply_store import ReplyStore
from fcshim.codecs.routes import CODECS, RouteMatch
from fcshim.config import Config, ModelConfig
from fcshim.constrain.constraint import constrains_document
from fcshim.constrain.response_format import requested_schema
from fcshim.constraint_support import ConstraintSupport
from fcshim.dispatch import RequestAttempts, is_native
from fcshim.exchange_factory import ExchangeFactory
from fcshim.ids import id_source, secret_source
from fcshim.messages import Request, uses_tools
from fcshim.response import response_for
from fcshim.server.client_connection import ClientConnection
from fcshim.server.guard import client_key
from fcshim.server.relay import Relay
from fcshim.server.request_handler import RequestHandler
from fcshim.server.server_tools import ServerTools
from fcshim.server.tool_loop import ToolLoop
from fcshim.upstream import Upstream, key_header

logger = logging.getLogger("fcshim.server")

_CODEC_HEADERS = {b"content-type", b"accept"}


@dataclass(frozen=True, slots=True)
class _RequestContext:
    """One request: as its client wrote it, and as the model is asked; `course` where tools run here."""

    connection: ClientConnection
    codec: Codec
    model_config: ModelConfig
    client_request: Request
    upstream_request: Request
    tool_loop: ToolLoop | None


class ReplyEndpoints:
    """Serves every client API in front of one upstream."""

    def __init__(
        self, config: Config, upstream: Upstream, relay: Relay, reply_store: ReplyStore, server_tools: ServerTools
    ) -> None:
        self._config = config
        self._reply_store = reply_store
        self._upstream = upstream
        self._upstream_kind = upstream.kind
        self._codec = upstream.kind.codec
        self._constraint_support = ConstraintSupport(upstream, config.constrain)
        self.tool_support = ToolSupport(upstream)
        self._relay = relay
        self._server_tools = server_tools
        self._id_sources = {
            **{each.call_prefix: id_source(each.call_prefix) for each in CODECS.values()},
            **{each.reply_prefix: secret_source(each.reply_prefix) for each in CODECS.values()},
        }

    async def serve(self, connection: ClientConnection, route: RouteMatch) -> None:
        """Answer one request. Raises `FcshimError` where nothing has been sent yet."""
        codec = route.api.codec
        body = await connection.body(self._config.max_body)
        relayed = self._upstream_stores_replies(route)
        target = route.make_target(
            connection.path, connection.query, None if relayed else self._reply_store, stored_upstream=relayed
        )
        request = codec.decode_request(body, target)
        for note in request.notes:
            logger.info("%s %s: %s", connection.method, connection.path, note)
        model = self._config.for_model(request.model)
        asked, course = self._server_tools.add_to_request(request, connection)
        if asked is request and await self._is_relayed(request, model, route):
            await self._relay.forward(connection, with_model_name(body, model.upstream_model))
        elif not request.messages:
            await connection.respond(200, codec.encode_reply(request, self._new_identity(request, codec), ()))
        else:
            await self._handle(_RequestContext(connection, codec, model, request, asked, course))

    async def _is_relayed(self, request: Request, model: ModelConfig, route: RouteMatch) -> bool:
        """Tell whether the upstream gets the request as it came: it speaks the API, and there is nothing to do."""
        if route.api.codec is not self._codec or (model.upstream_model and "model" in route.path_params):
            return False
        if route.api.stateful:
            return self._upstream_stores_replies(route)
        if not uses_tools(request):
            return not await self._is_document_constrained(request)
        there = msgspec.structs.replace(request, model=model.upstream_model or request.model)
        return self._upstream_kind.allows_verbatim and await is_native(there, model.tools, self.tool_support)

    async def _is_document_constrained(self, request: Request) -> bool:
        """Tell whether a reply without calls is held to its format here; probabilities are only to be had relayed."""
        if requested_schema(request) is None or request.extra.get("logprobs"):
            return False
        return constrains_document((await self._constraint_support.backend(request)).form, request)

    def _upstream_stores_replies(self, route: RouteMatch) -> bool:
        """Tell whether earlier replies are the upstream's to remember: it gives them all."""
        there = route.api.codec is self._codec and self._upstream_kind.allows_verbatim
        return there and self._config.tools != "prompt" and self._config.mcp is None

    def _new_identity(self, request: Request, codec: Codec) -> ReplyIdentity:
        began = time.monotonic()
        return ReplyIdentity(
            id=self._id_sources[codec.reply_prefix](),
            created=int(time.time()),
            model=request.model,
            clock=lambda: time.monotonic() - began,
            reply_store=self._reply_store,
        )

    async def _handle(self, context: _RequestContext) -> None:
        request = context.client_request
        identity = self._new_identity(request, context.codec)
        conversation = RequestHandler(
            context.connection,
            self._upstream,
            self._codec,
            new_attempts=lambda asked: self._new_attempts(context, asked),
            new_response=lambda: response_for(request, identity, context.codec, max_reply=self._config.max_reply),
            headers=self._upstream_headers(context.connection, context.codec),
            tool_loop=context.tool_loop,
        )
        times = {"first_ping": self._config.first_ping, "ping": self._config.ping}
        await conversation.run(context.upstream_request, streamed=request.stream, **times)

    def _new_attempts(self, context: _RequestContext, request: Request) -> RequestAttempts:
        model = context.model_config
        style = "" if context.codec is not self._codec else request.style
        asked = msgspec.structs.replace(request, model=model.upstream_model or request.model, style=style)

        make = ExchangeFactory(
            asked,
            model,
            self._upstream_kind,
            self.tool_support,
            self._id_sources[context.codec.call_prefix],
            buffered=not context.client_request.stream,
            translated=context.codec is not self._codec,
        )
        return RequestAttempts(
            asked, make, tools=model.tools, tool_support=self.tool_support, constraint_support=self._constraint_support
        )

    def _upstream_headers(self, connection: ClientConnection, codec: Codec) -> list[tuple[bytes, bytes]]:
        """Give the client's headers that the upstream may see; those of another API mean nothing there but the key."""
        if codec is self._codec:
            return [pair for pair in self._relay.forwarded_headers(connection.headers) if pair[0] not in _CODEC_HEADERS]
        key = client_key(connection.headers, connection.query)
        if not key or not self._config.forward_client_key or self._config.upstream_key is not None:
            return []
        return [key_header(self._upstream_kind, key)]


def with_model_name(body: bytes, model: str | None) -> bytes:
    """Give the request body with another model name; every other byte of a value stays as it is."""
    if model is None:
        return body
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**fields, "model": model})
