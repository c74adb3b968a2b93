"""Anthropic's Messages API.

Rule: stateless; `ANTHROPIC` serves every exchange.

What a client gets for a call that ends with an error after its start was sent: never a finished tool use.

- Streamed, the stream ends with an `error` event, which every SDK raises, without `content_block_stop`, stop reason or
  `message_stop`. The API's own form of a truncated call (an open block, and `max_tokens`) is not used: the SDKs parse
  incomplete arguments as far as possible, and their tool runners ignore the stop reason.
- Not streamed, the call is left out; if it was truncated, the stop reason is `max_tokens`. If nothing else is left, the
  call's excerpt is the text.
"""

from collections.abc import Callable, Sequence

from fcshim.codecs.anthropic.decoder import MessagesDecoder
from fcshim.codecs.anthropic.encoder import MessagesEncoder, write_error_event
from fcshim.codecs.anthropic.errors import write_error
from fcshim.codecs.anthropic.models import MODELS_PATH, read_models, write_model, write_models
from fcshim.codecs.anthropic.reply import write_reply
from fcshim.codecs.anthropic.request import read_request
from fcshim.codecs.anthropic.upstream_request import write_request
from fcshim.codecs.base import NO_TARGET, Decoder, RequestTarget
from fcshim.codecs.json_writer import write_json
from fcshim.codecs.limits import DEFAULT_LIMITS, RequestLimits
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.codecs.sse import LINE_BYTES
from fcshim.codecs.upstream_errors import read_error
from fcshim.errors import FcshimError
from fcshim.ids import id_source
from fcshim.messages import Request

__all__ = ["ANTHROPIC", "Anthropic", "MessagesEncoder"]


class Anthropic:
    """The codec. `new_id` makes ids for native calls that arrive without one."""

    name = "anthropic"
    reply_prefix = "msg_"
    call_prefix = "toolu_"
    models_path = MODELS_PATH
    # Methods of `Codec` that are plain functions.
    encoder = staticmethod(MessagesEncoder)
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
        return read_request(body, self._request_limits, stored_upstream=target.stored_upstream)

    def decoder(self) -> Decoder:
        """Make a decoder for one upstream reply (streamed, or one JSON body)."""
        return SingleChoiceDecoder(MessagesDecoder(self._new_id, self._line_bytes), line_bytes=self._line_bytes)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a running stream."""
        return write_error_event(write_error(error))

    def decode_count(self, body: bytes, target: RequestTarget) -> Request:
        """Read a token count request. Raises `RequestError`."""
        return self.decode_request(body, target)

    def encode_count(self, tokens: int) -> bytes:
        """Write the count."""
        return write_json({"input_tokens": tokens})

    def encode_models(self, names: Sequence[str], created: int) -> bytes:  # noqa: ARG002  # contract
        """Write the list of all models."""
        return write_models(names)

    def encode_model(self, name: str, created: int, target: RequestTarget) -> bytes:  # noqa: ARG002  # contract
        """Write one model."""
        return write_model(name)


ANTHROPIC = Anthropic()
