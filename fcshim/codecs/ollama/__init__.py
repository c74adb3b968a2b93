"""Ollama's own API: `/api/chat` and `/api/generate`, streamed as lines of JSON unless the client turns that off.

Rule: stateless; `OLLAMA` serves every exchange. The upstream always gets a chat request, whatever the client sent.

What a client gets for a call that ends with an error after its start: nothing, because a call is written only after it
has ended, complete and with an object as arguments.

- Truncated: the call is dropped, and `done_reason` is `length`.
- Malformed, invalid or above a limit, with valid calls in the same reply: the call is dropped; the valid ones run.
- The same without any valid call: a line with an error, and no `done` after it.
- Not streamed, the call is dropped; if nothing else is left, its excerpt is the content.

This format cannot express: streamed arguments, stop reasons other than `stop` and `length`, cached and reasoning
tokens. White space between the tokens of arguments may change, because every reader gets an object anyway.
"""

from collections.abc import Callable, Sequence

from fcshim.codecs.base import NO_TARGET, Decoder, Encoder, ReplyIdentity, RequestTarget
from fcshim.codecs.limits import DEFAULT_LIMITS, RequestLimits
from fcshim.codecs.ndjson import write_line
from fcshim.codecs.ollama.decoder import OllamaDecoder
from fcshim.codecs.ollama.encoder import OllamaEncoder
from fcshim.codecs.ollama.errors import write_error
from fcshim.codecs.ollama.models import (
    MODELS_PATH,
    OllamaModel,
    find_model,
    read_models,
    read_requested_model,
    write_running,
    write_show,
    write_tags,
    write_version,
)
from fcshim.codecs.ollama.options import OllamaClientOptions
from fcshim.codecs.ollama.reply import write_reply
from fcshim.codecs.ollama.request import read_request
from fcshim.codecs.ollama.upstream_request import write_request
from fcshim.codecs.sse import LINE_BYTES
from fcshim.codecs.upstream_errors import read_error
from fcshim.errors import FcshimError
from fcshim.ids import id_source
from fcshim.messages import Request
from fcshim.reply import Reply

__all__ = ["OLLAMA", "Ollama", "OllamaDecoder", "OllamaEncoder"]

_GENERATE_PATH = "/api/generate"


class Ollama:
    """The codec. `new_id` makes ids for native calls that arrive without one."""

    name = "ollama"
    reply_prefix = "ollama-"
    call_prefix = "call_"
    models_path = MODELS_PATH
    # Methods of `Codec` that are plain functions.
    encode_request = staticmethod(write_request)
    encode_error = staticmethod(write_error)
    decode_error = staticmethod(read_error)

    def __init__(
        self,
        *,
        request_limits: RequestLimits = DEFAULT_LIMITS,
        line_bytes: int = LINE_BYTES,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._request_limits = request_limits
        self._line_bytes = line_bytes
        self._new_id = new_id or id_source()

    def decode_request(self, body: bytes, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request; one that only loads the model has no messages. Raises `RequestError`."""
        return read_request(body, self._request_limits, generate=target.path == _GENERATE_PATH)

    def decoder(self) -> Decoder:
        """Make a decoder for one upstream reply (streamed, or one JSON body)."""
        return OllamaDecoder(self._new_id, line_bytes=self._line_bytes)

    def encoder(self, request: Request, identity: ReplyIdentity) -> Encoder:
        """Make an encoder for one streamed reply to this request."""
        return OllamaEncoder(OllamaClientOptions.of(request), identity)

    def encode_reply(self, request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
        """Write a whole reply; with no replies, report that the model is loaded.

        Raises `UpstreamError` if the reply has an error.
        """
        return write_reply(OllamaClientOptions.of(request), identity, replies)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a running stream."""
        return write_line(write_error(error))

    def decode_models(self, body: bytes) -> list[str]:
        """Return the names in an upstream's list of models; none if the body is something else."""
        return [model.name for model in read_models(body)]

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:  # noqa: ARG002  # contract
        """Return the version."""
        return write_version()

    def describe(self, target: RequestTarget, body: bytes, names: Sequence[str], listed: bytes) -> bytes:
        """Describe the models that the upstream lists: all, those in use, or one. Raises `RequestError`."""
        known = {model.name: model for model in read_models(listed)}
        models = [known.get(name, OllamaModel(name=name)) for name in names]
        match target.path:
            case "/api/show":
                return write_show(find_model(models, read_requested_model(body)))
            case "/api/ps":
                return write_running(models)
            case _:
                return write_tags(models)


OLLAMA = Ollama()
