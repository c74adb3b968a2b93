"""Google's Gemini API (`generateContent` and related methods).

Rule: stateless; `GEMINI` serves every exchange.

What a client gets for a call that ends with an error after its start: nothing, because a call is sent only after it has
ended without error. The finish reason reports it: `MAX_TOKENS` if it was truncated, else `MALFORMED_FUNCTION_CALL` with
a message, or `STOP` if the reply has valid calls as well.
"""

from collections.abc import Callable, Sequence

from fcshim.codecs.base import NO_TARGET, Decoder, RequestTarget
from fcshim.codecs.gemini.decoder import GeminiDecoder
from fcshim.codecs.gemini.encoder import GeminiEncoder
from fcshim.codecs.gemini.errors import write_error
from fcshim.codecs.gemini.models import MODELS_PATH, read_models, write_model, write_models
from fcshim.codecs.gemini.reply import write_reply
from fcshim.codecs.gemini.request import read_count_request, read_request
from fcshim.codecs.gemini.upstream_request import write_request
from fcshim.codecs.json_writer import write_json
from fcshim.codecs.limits import DEFAULT_LIMITS, RequestLimits
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.codecs.sse import LINE_BYTES, write_data
from fcshim.codecs.upstream_errors import read_error
from fcshim.errors import FcshimError
from fcshim.ids import id_source
from fcshim.messages import Request

__all__ = ["GEMINI", "Gemini", "GeminiEncoder"]


class Gemini:
    """The codec. `new_id` makes ids for native calls that arrive without one."""

    name = "gemini"
    reply_prefix = "resp_"
    call_prefix = "call_"
    models_path = MODELS_PATH
    # Methods of `Codec` that are plain functions.
    encoder = staticmethod(GeminiEncoder)
    encode_request = staticmethod(write_request)
    encode_reply = staticmethod(write_reply)
    encode_error = staticmethod(write_error)
    decode_error = staticmethod(read_error)
    decode_models = staticmethod(read_models)

    def __init__(
        self,
        *,
        request_limits: RequestLimits = DEFAULT_LIMITS,
        line_bytes: int = LINE_BYTES,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._request_limits = request_limits
        self._line_bytes = line_bytes
        self._new_id = new_id or id_source(self.call_prefix)

    def decode_request(self, body: bytes, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request. Raises `RequestError`."""
        return read_request(body, target, self._request_limits)

    def decoder(self) -> Decoder:
        """Make a decoder for one upstream reply (streamed, or one JSON body)."""
        return SingleChoiceDecoder(GeminiDecoder(self._new_id, self._line_bytes), line_bytes=self._line_bytes)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a running stream."""
        return write_data(write_error(error))

    def decode_count(self, body: bytes, target: RequestTarget) -> Request:
        """Read a token count request. Raises `RequestError`."""
        return read_count_request(body, target, self._request_limits)

    def encode_count(self, tokens: int) -> bytes:
        """Write the count."""
        return write_json({"totalTokens": tokens})

    def encode_models(self, names: Sequence[str], created: int) -> bytes:  # noqa: ARG002  # contract
        """Write the list of all models."""
        return write_models(names)

    def encode_model(self, name: str, created: int, target: RequestTarget) -> bytes:  # noqa: ARG002  # contract
        """Write one model."""
        return write_model(name)


GEMINI = Gemini()
