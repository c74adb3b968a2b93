"""Anthropic's Messages API.

Rule: stateless; `ANTHROPIC` serves every exchange.

What a client gets for a call that ends with an error after its start was sent: never a finished tool use.

- Streamed and truncated, the block ends as the API's own does, with the stop reason `max_tokens`, for which the SDKs'
  tool runners run nothing, not even the valid calls before it. Other clients run every block that ends, so its
  arguments are completed to an object that no tool accepts: the keys that were sent are null, and `_truncated` says
  why. (SDKs raise on invalid JSON.) No block follows it, as some runners run a call once another block opens: what the
  limit of tokens cut off is left out, and a reply that went on ends with an error as below.
- Streamed and failed otherwise, the stream ends with an `error` event, which every SDK raises, without
  `content_block_stop`, stop reason or `message_stop`.
- Not streamed, the call is left out; if it was truncated, the stop reason is `max_tokens`. If nothing else is left, a
  sentence about the call is the text.
"""

from collections.abc import Sequence

from fcshim.codecs.anthropic.decoder import MessagesDecoder
from fcshim.codecs.anthropic.encoder import MessagesEncoder, write_error_event, write_reply
from fcshim.codecs.anthropic.errors import write_error
from fcshim.codecs.anthropic.options import FIELDS
from fcshim.codecs.anthropic.request import read_request
from fcshim.codecs.anthropic.upstream_request import write_request
from fcshim.codecs.base import NO_TARGET, Codec, Decoder, RequestTarget
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.json_text import write_json
from fcshim.codecs.openai_chat.models import read_models
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.errors import FcshimError
from fcshim.events import JSON
from fcshim.messages import Request

# Lists of models: a required field whose value is unknown gets a valid placeholder.


def write_models(names: Sequence[str], created: int) -> bytes:  # noqa: ARG001  # contract
    """Write the list, always as one page."""
    page = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return write_json({"data": [_model(name) for name in names], "has_more": False, **page})


def write_model(name: str, created: int) -> bytes:  # noqa: ARG001  # contract
    """Write one model."""
    return write_json(_model(name))


def _model(name: str) -> dict[str, JSON]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


__all__ = ["ANTHROPIC", "Anthropic", "MessagesEncoder"]


class Anthropic(Codec):
    """The codec."""

    name = "anthropic"
    reply_prefix = "msg_"
    field_rules = FIELDS
    call_prefix = "toolu_"
    encode_request = staticmethod(write_request)
    encoder = MessagesEncoder
    encode_reply = staticmethod(write_reply)
    encode_error = staticmethod(write_error)
    decode_models = staticmethod(read_models)
    encode_models = staticmethod(write_models)
    encode_model = staticmethod(write_model)

    def decode_request(self, body: bytes | BodyFields, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request. Raises `RequestError`."""
        return read_request(body, self._request_limits, stored_upstream=target.stored_upstream)

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        limits = self._decoder_limits
        return SingleChoiceDecoder(MessagesDecoder(self._new_id, limits.call_chars), limits)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a running stream."""
        return write_error_event(write_error(error))

    def encode_count(self, tokens: int) -> bytes:
        """Write the count."""
        return write_json({"input_tokens": tokens})


ANTHROPIC = Anthropic()
