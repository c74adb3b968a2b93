"""Ollama's own API: `/api/chat` and `/api/generate`, streamed as lines of JSON unless the client turns that off.

Rule: stateless; `OLLAMA` serves every exchange. The upstream always gets a chat request, whatever the client sent.

What a client gets for a call that ends with an error after its start: nothing, because a call is written only after it
has ended, complete and with an object as arguments.

- Truncated: the call is dropped, and `done_reason` is `length`.
- Malformed, invalid or above a limit, with valid calls in the same reply: the call is dropped; the valid ones run.
- The same without any valid call: a line with an error, and no `done` after it.
- Not streamed, the call is dropped; if nothing else is left, a sentence about it is the content.

This format cannot express: streamed arguments, stop reasons other than `stop` and `length`, cached and reasoning
tokens. White space between the tokens of arguments may change, because every reader gets an object anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fcshim.codecs.base import NO_TARGET, Codec, Decoder, RequestTarget, UpstreamRequest
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.model_info import ModelInfo, find_model, read_models
from fcshim.codecs.ndjson import write_line
from fcshim.codecs.ollama.decoder import OllamaDecoder
from fcshim.codecs.ollama.encoder import OllamaEncoder, write_error, write_reply
from fcshim.codecs.ollama.models import (
    MODELS_PATH,
    read_requested_model,
    write_running,
    write_show,
    write_tags,
    write_version,
)
from fcshim.codecs.ollama.request import FIELDS, read_request
from fcshim.codecs.ollama.upstream_request import write_request
from fcshim.errors import FcshimError
from fcshim.messages import Request

__all__ = ["OLLAMA", "Ollama", "OllamaDecoder", "OllamaEncoder", "OllamaWithContext"]

_GENERATE_PATH = "/api/generate"
_SHOW_PATH = "/api/show"
_RUNNING_PATH = "/api/ps"


class Ollama(Codec):
    """The codec."""

    name = "ollama"
    reply_prefix = "ollama-"
    field_rules = FIELDS
    models_path = MODELS_PATH
    encode_request = staticmethod(write_request)
    encoder = OllamaEncoder
    encode_reply = staticmethod(write_reply)
    encode_error = staticmethod(write_error)

    def decode_request(self, body: bytes | BodyFields, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request; one that only loads the model has no messages. Raises `RequestError`."""
        return read_request(body, self._request_limits, generate=target.path == _GENERATE_PATH)

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        return OllamaDecoder(self._new_id, self._decoder_limits)

    def decode_models(self, body: bytes) -> list[str]:
        """Return the names in a list of models; none if the body is something else."""
        return [model.name for model in read_models(body)]

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a running stream."""
        return write_line(write_error(error))

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:  # noqa: ARG002  # contract
        """Return the version."""
        return write_version()

    def described_name(self, target: RequestTarget, body: bytes) -> str | None:
        """Read the model in a request to `/api/show`; None for a list. Raises `RequestError`."""
        return read_requested_model(body) if target.path == _SHOW_PATH else None

    def describe(self, target: RequestTarget, body: bytes, models: Sequence[ModelInfo]) -> bytes:
        """Describe the models: all, those in use, or one. Raises `RequestError`."""
        name = self.described_name(target, body)
        if name is not None:
            return write_show(find_model(models, name))
        return write_running(models) if target.path == _RUNNING_PATH else write_tags(models)


OLLAMA = Ollama()


@dataclass(frozen=True, slots=True)
class OllamaWithContext:
    """The upstream half of the codec, with a context length in tokens that every request asks for (`num_ctx`)."""

    context: int

    def encode_request(self, request: Request) -> UpstreamRequest:
        """Write a request. Raises `RequestError`."""
        return write_request(request, self.context)

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply."""
        return OLLAMA.decoder()
