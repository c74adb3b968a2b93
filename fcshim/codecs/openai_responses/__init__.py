"""OpenAI's Responses API: items instead of messages, and stored replies.

Rule: the codec is stateless; replies are stored in the `ReplyStore` of the request target or the reply identity, and
without one nothing is stored.

A call that ends with an error after its start was sent never reaches the client as a finished tool call:

- Its arguments are never valid JSON: the last brace is buffered until the call has ended without error. After an error
  a closing bracket of the wrong kind invalidates them. `response.function_call_arguments.done` never comes, and the
  final `output` does not have the call.
- Error `truncated`: `response.incomplete`, reason `max_output_tokens`; the item has no `done` event.
- Error `malformed`, `invalid` or `limit`, and the reply has a valid call: `response.completed`; the item's `done` event
  has the status `incomplete` and the invalidated arguments, so that clients can report them to their model.
- The same without a valid call: `response.failed`, then an `error` event; the item has no `done` event.
- In a reply that is not streamed the call is left out; if the reply has no other content, its excerpt is the message.

The model sees a custom tool (free text instead of JSON) as a function with one string; its calls are converted back to
custom calls once they are complete. The model sees tools in a namespace as `namespace__name`. Hosted tools (web search
and the like) are not offered. The format has no stop reason for a stop sequence.
"""

from collections.abc import Callable

from fcshim.codecs.base import NO_TARGET, Decoder, RequestTarget
from fcshim.codecs.json_writer import write_json
from fcshim.codecs.limits import DEFAULT_LIMITS, RequestLimits
from fcshim.codecs.openai_chat.decoder import DecoderLimits
from fcshim.codecs.openai_chat.errors import write_error
from fcshim.codecs.openai_chat.models import MODELS_PATH, read_models
from fcshim.codecs.openai_responses import stored_responses
from fcshim.codecs.openai_responses.decoder import ResponsesDecoder
from fcshim.codecs.openai_responses.encoder import ResponsesEncoder
from fcshim.codecs.openai_responses.errors import error_event_fields
from fcshim.codecs.openai_responses.input_resolver import InputResolver
from fcshim.codecs.openai_responses.reply import write_reply
from fcshim.codecs.openai_responses.request import read_request
from fcshim.codecs.openai_responses.upstream_request import write_request
from fcshim.codecs.single_choice import SingleChoiceDecoder
from fcshim.codecs.upstream_errors import read_error
from fcshim.errors import FcshimError
from fcshim.events import Error
from fcshim.ids import id_source
from fcshim.messages import Request

__all__ = ["OPENAI_RESPONSES", "OpenAIResponses", "ResponsesEncoder"]

_MAX_RECALLED_BYTES = 64 * 2**20
"""Bytes of stored items that one request may load: the default size of the store."""


class OpenAIResponses:
    """The codec; `new_id` creates ids for native calls that come without one."""

    name = "openai_responses"
    reply_prefix = "resp_"
    call_prefix = "call_"
    models_path = MODELS_PATH
    # Members of `Codec` that a function or class implements as it is.
    encoder = staticmethod(ResponsesEncoder)
    encode_request = staticmethod(write_request)
    encode_reply = staticmethod(write_reply)
    encode_error = staticmethod(write_error)
    decode_error = staticmethod(read_error)
    decode_models = staticmethod(read_models)

    def __init__(
        self,
        *,
        request_limits: RequestLimits = DEFAULT_LIMITS,
        decoder_limits: DecoderLimits = DecoderLimits(),  # noqa: B008  # frozen
        max_recalled_bytes: int = _MAX_RECALLED_BYTES,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._request_limits = request_limits
        self._decoder_limits = decoder_limits
        self._max_recalled_bytes = max_recalled_bytes
        self._new_id = new_id or id_source()

    def decode_request(self, body: bytes, target: RequestTarget = NO_TARGET) -> Request:
        """Read a client's request. Raises `RequestError`."""
        conversation = InputResolver(
            target.reply_store, max_bytes=self._max_recalled_bytes, stored_upstream=target.stored_upstream
        )
        return read_request(body, conversation, self._request_limits)

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        interpreter = ResponsesDecoder(self._new_id, self._decoder_limits.call_chars)
        return SingleChoiceDecoder(interpreter, line_bytes=self._decoder_limits.line_bytes)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error as an event of a running stream; its sequence number is not known here."""
        fields = error_event_fields(Error(error.kind, error.message))
        return b"event: error\ndata: " + write_json({"type": "error", "sequence_number": 0, **fields}) + b"\n\n"

    def decode_count(self, body: bytes, target: RequestTarget) -> Request:
        """Read a request to count tokens. Raises `RequestError`."""
        return self.decode_request(body, target)

    def encode_count(self, tokens: int) -> bytes:
        """Write the number of tokens as a response body."""
        return write_json({"object": "response.input_tokens", "input_tokens": tokens})

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:  # noqa: ARG002  # contract
        """Serve or delete a stored response. Raises `RequestError`."""
        return stored_responses.respond(method, target)


OPENAI_RESPONSES = OpenAIResponses()
