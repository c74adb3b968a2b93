"""OpenAI's Responses API: items instead of messages, replies that are remembered.

Rule: the codec is stateless; what is remembered lies in the `Memory` that comes with an address or an identity, and
without one nothing is.
Neighbours: request, request_items, request_tools, conversation, outgoing: what is asked; interpreter, wire: the
upstream's reply; encoder, emitter, items, response, reply: the client's; archive; errors; style.

How a client sees a call that ends with an error after its start was sent: never as a finished tool use.

- Its arguments are no JSON at any moment: the last brace is held back until the call has ended well; when it ends
  badly, a closing bracket of the wrong kind spoils them. `response.function_call_arguments.done` never comes, and the
  call is in no final `output`.
- Cut off (`truncated`): `response.incomplete`, reason `max_output_tokens`; the item is never done.
- Malformed, invalid or beyond a limit, with good calls beside it: `response.completed`; the item is done with the
  status `incomplete` and its spoiled arguments, so that clients that go by items can tell their model.
- The same without any good call: `response.failed`, then an `error` event; the item is never done.
- Not streamed, it is left out; with nothing else to say, its excerpt is the message.

Custom tools (free text instead of JSON) are functions with one string to the model, and come back as custom calls once
they are whole. Tools in a namespace are known to the model as `namespace__name`. Hosted tools (web search and the like)
are not offered. What this format cannot say: that a stop sequence ended the reply.
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
"""Bytes that one request may pull out of the memory: as much as a memory holds by default."""


class OpenAIResponses:
    """The codec; `new_id` names native calls that come without an id."""

    name = "openai_responses"
    reply_prefix = "resp_"
    call_prefix = "call_"
    models_path = MODELS_PATH
    # What `Codec` asks for and a function already does.
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
        """Make a reader for one upstream reply (streamed, or one whole JSON body)."""
        interpreter = ResponsesDecoder(self._new_id, self._decoder_limits.call_chars)
        return SingleChoiceDecoder(interpreter, line_bytes=self._decoder_limits.line_bytes)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a stream that is under way; its number is not known here."""
        fields = error_event_fields(Error(error.kind, error.message))
        return b"event: error\ndata: " + write_json({"type": "error", "sequence_number": 0, **fields}) + b"\n\n"

    def decode_count(self, body: bytes, target: RequestTarget) -> Request:
        """Read a request whose tokens are to be counted. Raises `RequestError`."""
        return self.decode_request(body, target)

    def encode_count(self, tokens: int) -> bytes:
        """Write the count."""
        return write_json({"object": "response.input_tokens", "input_tokens": tokens})

    def respond(self, method: str, target: RequestTarget, body: bytes) -> bytes:  # noqa: ARG002  # contract
        """Give or forget a response that is remembered. Raises `RequestError`."""
        return stored_responses.respond(method, target)


OPENAI_RESPONSES = OpenAIResponses()
