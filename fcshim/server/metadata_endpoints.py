"""The endpoints of every client API that return no reply: lists of models, token counts, embeddings and the like.

Rule: the upstream's own data is used if it has any. The upstream counts the tokens of a request as it would be sent; if
one method fails, the next is tried. A token count that had to be estimated is marked by a header.
"""

import functools
import time
from typing import Protocol

import msgspec

from fcshim.codecs.base import LocalResponder, ModelCatalogue, ModelDescriber, TokenCounter
from fcshim.codecs.model_info import ModelInfo, find_model, read_models, with_aliases
from fcshim.codecs.ollama.embeddings import (
    FIELDS,
    EmbeddingReply,
    EmbeddingRequest,
    read_embedding_request,
    read_upstream_reply,
    write_embeddings,
    write_upstream_request,
)
from fcshim.codecs.openai_chat.models import extend_models
from fcshim.codecs.routes import OPENAI_MODEL_LISTS, RouteMatch
from fcshim.config import Config
from fcshim.dispatch import make_shim, run_off_loop
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import Request, uses_tools
from fcshim.pipeline.attempt import estimate_usage
from fcshim.server.client_connection import ClientConnection
from fcshim.server.relay import Relay, with_model_name
from fcshim.server.request_body import split_body
from fcshim.server.server_tools import ServerTools
from fcshim.server.store import Store
from fcshim.server.store.client_memory import ClientMemory
from fcshim.upstream import Upstream
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.model_pages import complete_model
from fcshim.upstream.model_resolution import apply_evidence
from fcshim.upstream.token_count import count_exactly


async def count_tokens(request: Request, upstream: Upstream) -> tuple[int, bool]:
    """Count the tokens of a request as the upstream gets it; return the count and whether it is exact."""
    exact = await count_exactly(request, upstream)
    return (estimate_usage(request, 0).input_tokens, False) if exact is None else (exact, True)


COUNT_HEADER = b"x-fcshim-count"
"""Response header of a token count: `exact` or `estimate`."""


class ModelLister(Protocol):
    """The models of several upstreams together."""

    async def list_models(self) -> tuple[list[str], bytes]:
        """Return the names of the models, and the body of the list. Raises `UpstreamError`."""
        ...

    async def locate(self, model: str) -> tuple[Upstream, str]:
        """Return the upstream that has a model, and its own name for it. Raises `UpstreamError`."""
        ...


class MetadataEndpoints:
    """Serves the metadata endpoints of every client API, with one upstream, or with the models of `lister`."""

    def __init__(
        self,
        config: Config,
        capabilities: Capabilities,
        store: Store,
        server_tools: ServerTools,
        lister: ModelLister | None = None,
    ) -> None:
        self._lister = lister
        self._config = config
        self._store = store
        self._capabilities = capabilities
        self._upstream = capabilities.upstream
        self._server_tools = server_tools

    async def serve(self, connection: ClientConnection, route: RouteMatch) -> None:
        """Serve one request. Raises `FcshimError`."""
        body = await connection.body(self._config.max_body)
        api = route.api
        async with connection.watch_disconnect():
            if route.operation == "count" and api.counter is not None:
                await self._count(connection, route, api.counter, body)
            elif route.operation in ("models", "model") and api.catalogue is not None:
                await self._list_models(connection, route, api.catalogue)
            elif route.operation == "describe" and api.describer is not None:
                await self._describe(connection, route, api.describer, body)
            elif api.local is not None:
                await self._respond(connection, route, api.local, body)

    async def _respond(
        self, connection: ClientConnection, route: RouteMatch, local: LocalResponder, body: bytes
    ) -> None:
        """Answer without the upstream; a reply that the path names is fetched before, and deleted after."""
        memory = ClientMemory(self._store, connection)
        for name in route.path_params.values() if route.api.recaller is not None else ():
            await memory.fetch(name)
        target = route.make_target(connection.path, connection.query, memory)
        data = local.respond(connection.method, target, body)
        await memory.forget_deleted()
        await connection.respond(200, data)

    async def _count(self, connection: ClientConnection, route: RouteMatch, counter: TokenCounter, body: bytes) -> None:
        memory = ClientMemory(self._store, connection)
        target = route.make_target(connection.path, connection.query)
        fields = await split_body(body, route.api.codec.field_rules)
        if route.api.recaller is not None:
            request = await memory.read(route.api.recaller.recall_request(fields, target), len(body))
        else:
            request = await run_off_loop(len(body), functools.partial(counter.decode_count, fields, target))
        request, _ = await self._server_tools.add_to_request(request, connection, memory)
        request = self._server_tools.leave_out_provider_tools(request)
        model = self._config.for_model(request.model)
        named = msgspec.structs.replace(request, model=model.upstream_model or request.model)
        model = await self._capabilities.models.resolve(model, named.model, probe=False)
        by_prompt = uses_tools(named) and not self._capabilities.tools.uses_native(named, model)
        upstream_request = named
        if by_prompt:
            upstream_request = await run_off_loop(len(body), lambda: make_shim(named, model).prepared)
        tokens, exact = await count_tokens(upstream_request, self._upstream)
        await connection.respond(200, counter.encode_count(tokens), (COUNT_HEADER, b"exact" if exact else b"estimate"))

    async def _list_models(self, connection: ClientConnection, route: RouteMatch, catalogue: ModelCatalogue) -> None:
        listed, body = await (self._lister or self._upstream).list_models()
        names, now = list(dict.fromkeys([*listed, *self._config.aliases])), int(time.time())
        if route.operation == "models":
            own_form = route.api.catalogue is OPENAI_MODEL_LISTS.catalogue and self._upstream.kind.full_openai_api
            entries = catalogue.encode_models(names, now)
            aliases = {name: self._config.aliases[name] for name in names if name not in listed}
            described = {name: found for name in names if (found := self._settings_of(name))} if own_form else {}
            listed_here = extend_models(body, aliases, now, described) if own_form else entries
            await connection.respond(200, listed_here)
            return
        name = route.path_params["model"]
        if name not in names and self._config.for_model(name).upstream_model not in listed:
            raise RequestError(f"there is no model {name!r:.200}", status=404, kind="not_found")
        await connection.respond(200, catalogue.encode_model(name, now))

    def _settings_of(self, name: str) -> dict[str, JSON]:
        """Return how a model is asked for calls, and why, as far as it is known; nothing is asked for this."""
        model = self._config.for_model(name)
        evidence = self._capabilities.models.known(model.upstream_model or name) if self._lister is None else None
        if evidence is None:
            return {}
        model = apply_evidence(model, evidence)
        tools = self._capabilities.tools.choose(model.upstream_model or name, model)
        return {
            "tools": tools.name,
            "tools_reason": tools.reason,
            "dialect": model.dialect,
            "reason": model.dialect_reason,
        }

    async def _describe(
        self, connection: ClientConnection, route: RouteMatch, describer: ModelDescriber, body: bytes
    ) -> None:
        target = route.make_target(connection.path, connection.query)
        name = describer.described_name(target, body)
        names, listed = await (self._lister or self._upstream).list_models()
        known = {model.name: model for model in read_models(listed)}
        models = [known.get(each, ModelInfo(name=each)) for each in names]
        if name is not None:
            models = [await self._describe_model(models, name)]
        else:
            models = with_aliases(models, self._config.aliases)
        await connection.respond(200, describer.describe(target, body, models))

    async def _describe_model(self, models: list[ModelInfo], name: str) -> ModelInfo:
        """Return the description of one model. Raises `RequestError` (404)."""
        found = find_model(with_aliases(models, self._config.aliases), name)
        upstream_name = self._config.aliases.get(found.name, found.name)
        upstream = self._upstream
        if self._lister is not None:
            upstream, upstream_name = await self._lister.locate(found.name)
        return await complete_model(upstream, found, upstream_name, alone=len(models) == 1)


_EMBEDDINGS_PATH = "/embeddings"
_CONTENT_HEADERS = [(b"content-type", b"application/json"), (b"accept", b"application/json")]


class EmbeddingEndpoint:
    """Serves Ollama's endpoints for embeddings, in front of any upstream that has embeddings.

    Ollama itself gets the request as it is; an upstream with OpenAI's API a request of that API.
    """

    def __init__(self, config: Config, upstream: Upstream, relay: Relay) -> None:
        self._config = config
        self._upstream = upstream
        self._relay = relay

    async def serve(self, connection: ClientConnection) -> None:
        """Serve one request. Raises `FcshimError`."""
        body = await connection.body(self._config.max_body)
        fields = await split_body(body, FIELDS)
        request = read_embedding_request(fields, connection.path)
        name = request.model.removesuffix(":latest")  # the default tag
        model = self._config.for_model(name).upstream_model
        if self._upstream.kind.name == "ollama":
            await self._relay.forward(connection, with_model_name(body, model))
            return
        if not self._upstream.kind.full_openai_api:
            raise RequestError("the upstream's API has no embeddings that fcshim can ask for", status=404)
        started_at = time.monotonic_ns()
        async with connection.watch_disconnect():
            reply = await self._embed(connection, request, model or name) if request.inputs else EmbeddingReply()
        await connection.respond(200, write_embeddings(request, reply, time.monotonic_ns() - started_at))

    async def _embed(self, connection: ClientConnection, request: EmbeddingRequest, model: str) -> EmbeddingReply:
        content = write_upstream_request(request, model)
        headers = [*self._relay.translated_headers(connection), *_CONTENT_HEADERS]
        async with self._upstream.send("POST", _EMBEDDINGS_PATH, headers=headers, content=content) as reply:
            if reply.status != 200:
                raise self._upstream.kind.codec.decode_error(reply.status, {}, await reply.read_error())
            return read_upstream_reply(await reply.read(self._config.max_reply), request)
