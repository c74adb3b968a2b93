"""Ollama's endpoints for embeddings, in front of any upstream that has embeddings.

Ollama itself gets the request as it is; an upstream with OpenAI's API a request of that API.
"""

import time

from fcshim.codecs.ollama.embeddings import (
    FIELDS,
    EmbeddingReply,
    EmbeddingRequest,
    read_embedding_request,
    read_upstream_reply,
    write_embeddings,
    write_upstream_request,
)
from fcshim.config import Config
from fcshim.errors import RequestError
from fcshim.server.client_connection import ClientConnection
from fcshim.server.relay import Relay, with_model_name
from fcshim.server.request_body import split_body
from fcshim.upstream import Upstream

_PATH = "/embeddings"
_CONTENT_HEADERS = [(b"content-type", b"application/json"), (b"accept", b"application/json")]


class EmbeddingEndpoint:
    """Serves embeddings with one upstream."""

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
        async with self._upstream.send("POST", _PATH, headers=headers, content=content) as reply:
            if reply.status != 200:
                raise self._upstream.kind.codec.decode_error(reply.status, {}, await reply.read_error())
            return read_upstream_reply(await reply.read(self._config.max_reply), request)
