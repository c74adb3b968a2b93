"""Google's Gemini API (`generateContent` and related methods).

Rule: stateless; `GEMINI` serves every exchange.

What a client gets for a call that ends with an error after its start: nothing, because a call is sent only after it has
ended without error. The finish reason reports it: `MAX_TOKENS` if it was truncated, else `MALFORMED_FUNCTION_CALL` with
a message, or `STOP` if the reply has valid calls as well. A client that asked for arguments in pieces
(`streamFunctionCallArguments`) has the start of such a call, which never ends, and gets no call after it.
"""

from fcshim.codecs.base import NO_TARGET, Codec, Decoder, RequestTarget
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.gemini.decoder import GeminiDecoder
from fcshim.codecs.gemini.encoder import GeminiEncoder, write_error, write_reply
from fcshim.codecs.gemini.models import read_models, write_model, write_models
from fcshim.codecs.gemini.options import FIELDS
from fcshim.codecs.gemini.request import read_count_request, read_request
from fcshim.codecs.gemini.upstream_request import write_request
from fcshim.codecs.json_text import write_json
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.messages import Request

__all__ = ["GEMINI", "Gemini", "GeminiEncoder"]


class Gemini(Codec):
    """The codec."""

    name = "gemini"
    reply_prefix = "resp_"
    field_rules = FIELDS
    encode_request = staticmethod(write_request)
    encoder = GeminiEncoder
    encode_reply = staticmethod(write_reply)
    encode_error = staticmethod(write_error)
    decode_models = staticmethod(read_models)
    encode_models = staticmethod(write_models)
    encode_model = staticmethod(write_model)

    def decode_request(self, body: bytes | BodyFields, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request. Raises `RequestError`."""
        return read_request(body, target, self._request_limits)

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        limits = self._decoder_limits
        return SingleChoiceDecoder(GeminiDecoder(self._new_id, limits.call_chars), limits)

    def decode_count(self, body: bytes | BodyFields, target: RequestTarget) -> Request:
        """Read a token count request. Raises `RequestError`."""
        return read_count_request(body, target, self._request_limits)

    def encode_count(self, tokens: int) -> bytes:
        """Write the count."""
        return write_json({"totalTokens": tokens})


GEMINI = Gemini()
