"""Anthropic's Messages API.

Rule: stateless; `ANTHROPIC` serves every exchange.
Neighbours: request, outgoing, blocks: what is asked; interpreter, wire: the upstream's reply; encoder, reply: the
client's; errors; models; style.

How a client sees a call that ends with an error after its start was sent: never as a finished tool use.

- Streamed, the stream ends there with an `error` event, which every SDK raises; no `content_block_stop`, no stop reason
  and no `message_stop` come. The API's own way of saying that a call was cut off, half a block and `max_tokens`, is not
  taken: the SDKs read half arguments as far as they go, and their tool runners do not look at the stop reason.
- Not streamed, it is left out; where it was cut off the stop reason is `max_tokens`. With nothing else to say, its
  excerpt is the text.
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
    """The codec; `new_id` names native calls that come without an id."""

    name = "anthropic"
    reply_prefix = "msg_"
    call_prefix = "toolu_"
    models_path = MODELS_PATH
    # What `Codec` asks for and a function already does.
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
        """Make a reader for one upstream reply (streamed, or one whole JSON body)."""
        return SingleChoiceDecoder(MessagesDecoder(self._new_id, self._line_bytes), line_bytes=self._line_bytes)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a stream that is under way."""
        return write_error_event(write_error(error))

    def decode_count(self, body: bytes, target: RequestTarget) -> Request:
        """Read a request whose tokens are to be counted. Raises `RequestError`."""
        return self.decode_request(body, target)

    def encode_count(self, tokens: int) -> bytes:
        """Write the count."""
        return write_json({"input_tokens": tokens})

    def encode_models(self, names: Sequence[str], created: int) -> bytes:  # noqa: ARG002  # contract
        """Write the list of all models."""
        return write_models(names)

    def encode_model(self, name: str, created: int, target: RequestTarget) -> bytes:  # noqa: ARG002  # contract
        """Write what there is to say about one model."""
        return write_model(name)


ANTHROPIC = Anthropic()
