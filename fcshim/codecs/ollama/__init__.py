"""Ollama's own API: `/api/chat` and `/api/generate`, lines of JSON, streamed unless the client says no.

Rule: stateless; `OLLAMA` serves every exchange; whatever the client asked, an upstream is asked for a chat.
Neighbours: request, request_messages, options, outgoing: what is asked; decoder, wire: the upstream's reply; encoder,
reply: the client's; listing: models and version; errors; style; times.

How a client sees a call that ends with an error after its start was sent: not at all, because a call is written when
it has ended, whole and with arguments that are an object.

- Cut off (`truncated`): it is left out, and `done_reason` is `length`.
- Malformed, invalid or beyond a limit, with good calls beside it: it is left out; the good ones run.
- The same without any good call: a line with an error, after which there is no `done`.
- Not streamed, it is left out; with nothing else to say, its excerpt is the content.

What this format cannot say: calls that stream, why a reply stopped beyond `stop` and `length`, cached and reasoning
tokens; and white space between the tokens of arguments may change, as whoever reads them gets an object anyway.
"""

from collections.abc import Callable, Sequence

from fcshim.codecs.base import NO_TARGET, Decoder, Encoder, ReplyIdentity, RequestTarget
from fcshim.codecs.limits import DEFAULT_LIMITS, RequestLimits
from fcshim.codecs.ndjson import write_line
from fcshim.codecs.ollama.client_options import read_client_options
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
    """The codec; `new_id` names native calls that come without an id."""

    name = "ollama"
    reply_prefix = "ollama-"
    call_prefix = "call_"
    models_path = MODELS_PATH
    # What `Codec` asks for and a function already does.
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
        """Make a reader for one upstream reply (streamed, or one whole JSON body)."""
        return OllamaDecoder(self._new_id, line_bytes=self._line_bytes)

    def encoder(self, request: Request, identity: ReplyIdentity) -> Encoder:
        """Make a writer for one streamed reply to this request."""
        return OllamaEncoder(read_client_options(request.style), identity)

    def encode_reply(self, request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
        """Write a whole reply; without any, that the model is loaded. Raises `UpstreamError` where it broke."""
        return write_reply(read_client_options(request.style), identity, replies)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a stream that is under way."""
        return write_line(write_error(error))

    def decode_models(self, body: bytes) -> list[str]:
        """Read the names in an upstream's list of models; none where it is no such list."""
        return [model.name for model in read_models(body)]

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:  # noqa: ARG002  # contract
        """Tell the version."""
        return write_version()

    def describe(self, target: RequestTarget, body: bytes, names: Sequence[str], listed: bytes) -> bytes:
        """Tell of the models that the upstream has listed: all, those in use, or one. Raises `RequestError`."""
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
