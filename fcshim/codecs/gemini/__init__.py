"""Google's Gemini API (`generateContent` and related methods).

Rule: stateless; `GEMINI` serves every exchange.

What a client gets for a call that ends with an error after its start: nothing, because a call is sent only after it has
ended without error. The finish reason reports it: `MAX_TOKENS` if it was truncated, else `MALFORMED_FUNCTION_CALL` with
a message, or `STOP` if the reply has valid calls as well. A client that asked for arguments in pieces
(`streamFunctionCallArguments`) has the start of such a call, which never ends, and gets no call after it.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.base import NO_TARGET, Codec, Decoder, RequestTarget
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.gemini.decoder import GeminiDecoder
from fcshim.codecs.gemini.encoder import GeminiEncoder, write_error, write_reply
from fcshim.codecs.gemini.options import FIELDS
from fcshim.codecs.gemini.request import read_count_request, read_request
from fcshim.codecs.gemini.upstream_request import write_request
from fcshim.codecs.json_text import write_json
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.events import JSON
from fcshim.messages import Request

# Names of models start with `models/` in the API's lists and nowhere else.

_PREFIX = "models/"


class _GeminiModel(msgspec.Struct):
    name: str


class _GeminiModelList(msgspec.Struct):
    models: list[_GeminiModel]


def write_models(names: Sequence[str], created: int) -> bytes:  # noqa: ARG001  # contract
    """Write the list, always as one page."""
    return write_json({"models": [_model(name) for name in names]})


def write_model(name: str, created: int) -> bytes:  # noqa: ARG001  # contract
    """Write one model."""
    return write_json(_model(name))


def read_models(body: bytes) -> list[str]:
    """Return the names in a list; none if the body is something else."""
    try:
        return [model.name.removeprefix(_PREFIX) for model in msgspec.json.decode(body, type=_GeminiModelList).models]
    except (ValueError, RecursionError):
        return []


def _model(name: str) -> dict[str, JSON]:
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    return {"name": _PREFIX + name, "displayName": name, "supportedGenerationMethods": methods}


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
