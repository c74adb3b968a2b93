"""Embeddings in Ollama's API, served by an upstream with OpenAI's.

Rule: the numbers of a vector stay as the upstream wrote them. `truncate`, `options` and `keep_alive` have no
counterpart there; a request without input loads the model: the reply has no embeddings, and no upstream request is
made.
"""

import msgspec

from fcshim.codecs.body_fields import BodyFields, FieldRules
from fcshim.codecs.json_text import expect, field_error, read_field, read_integer, read_object
from fcshim.errors import UpstreamError

OLDER_PATH = "/api/embeddings"
"""The endpoint before `/api/embed`: one `prompt`, one `embedding`."""


FIELDS = FieldRules(known=frozenset({"model", "prompt", "input", "dimensions"}))


class EmbeddingRequest(msgspec.Struct, frozen=True):
    """A client's request. `older`: it came to the older endpoint, whose response has another form."""

    model: str
    inputs: tuple[str, ...]
    dimensions: int | None = None
    older: bool = False


class EmbeddingReply(msgspec.Struct, frozen=True):
    """The vectors, as JSON in the order of the inputs, and the number of tokens."""

    vectors: tuple[msgspec.Raw, ...] = ()
    tokens: int = 0


class _Vector(msgspec.Struct):
    embedding: msgspec.Raw
    index: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Reply(msgspec.Struct):
    data: list[_Vector]
    usage: _Usage | None = None


def read_embedding_request(body: bytes | BodyFields, path: str) -> EmbeddingRequest:
    """Read a request. Raises `RequestError`."""
    source, older = read_object(body, FIELDS), path == OLDER_PATH
    model = expect(source.get("model"), str, "model")
    if older:
        prompt = read_field(source, "prompt", str, "")
        return EmbeddingRequest(model, (prompt,) if prompt else (), older=True)
    given = source.get("input")
    inputs = given if isinstance(given, list) else [given] if given else []
    if not all(isinstance(text, str) for text in inputs):
        raise field_error(given, "a string or an array of strings", "input")
    return EmbeddingRequest(model, tuple(inputs), read_integer(source, "dimensions", minimum=1))


def write_upstream_request(request: EmbeddingRequest, model: str) -> bytes:
    """Write a request of OpenAI's API."""
    fields = {} if request.dimensions is None else {"dimensions": request.dimensions}
    return msgspec.json.encode({"model": model, "input": request.inputs, "encoding_format": "float", **fields})


def read_upstream_reply(body: bytes, request: EmbeddingRequest) -> EmbeddingReply:
    """Read a reply of OpenAI's API. Raises `UpstreamError`."""
    try:
        reply = msgspec.json.decode(body, type=_Reply)
    except (ValueError, RecursionError) as error:
        raise UpstreamError(f"the upstream's reply is not a list of embeddings: {error}") from error
    vectors = sorted(reply.data, key=lambda vector: vector.index)
    if len(vectors) != len(request.inputs):
        raise UpstreamError(f"expected {len(request.inputs)} embeddings from the upstream, got {len(vectors)}")
    tokens = 0 if reply.usage is None else reply.usage.prompt_tokens
    return EmbeddingReply(tuple(vector.embedding for vector in vectors), tokens)


def write_embeddings(request: EmbeddingRequest, reply: EmbeddingReply, nanoseconds: int) -> bytes:
    """Write the response for the client."""
    if request.older:
        return msgspec.json.encode({"embedding": reply.vectors[0] if reply.vectors else []})
    counts = {"total_duration": nanoseconds, "load_duration": 0, "prompt_eval_count": reply.tokens}
    return msgspec.json.encode({"model": request.model, "embeddings": reply.vectors, **counts})
