"""OpenAI's Chat Completions API, which nearly every local engine imitates.

Rule: the codec is stateless; `OPENAI_CHAT` serves every exchange. Deviations of real servers and clients are accepted;
the output is what the official client accepts.

A call that ends with an error after its start was sent never reaches the client as a finished tool call:

- Its arguments are never valid JSON: the last brace is buffered until the call has ended without error. After an error
  a closing bracket of the wrong kind invalidates them, because some clients complete arguments that are merely cut off.
- Error `truncated`: finish_reason is `length`.
- Error `malformed`, `invalid` or `limit`, and the choice has a valid call: finish_reason is `tool_calls`; the valid
  calls run, and clients handle the invalid one as they handle invalid JSON of a native model.
- The same without a valid call: an error in the stream, and no `[DONE]`.
- In a reply that is not streamed the call is left out; if the reply has no other content, a sentence says so.

The model sees a custom tool (free text instead of JSON) as a function with one string `input`. A whole reply converts
its calls back to custom calls; a stream has function calls, because the official client crashes on custom deltas.
"""

from fcshim.codecs.base import NO_TARGET, Codec, Decoder, RequestTarget
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.openai_chat.decoder import ChatDecoder
from fcshim.codecs.openai_chat.encoder import ChatEncoder, write_error, write_reply
from fcshim.codecs.openai_chat.models import read_models, write_model, write_models
from fcshim.codecs.openai_chat.relayed_body import relayed_body, relayed_reply
from fcshim.codecs.openai_chat.request import FIELDS, read_request
from fcshim.codecs.openai_chat.upstream_request import write_request
from fcshim.messages import Request

__all__ = ["OPENAI_CHAT", "ChatDecoder", "ChatEncoder", "OpenAIChat"]


class OpenAIChat(Codec):
    """The codec."""

    name = "openai_chat"
    reply_prefix = "chatcmpl-"
    field_rules = FIELDS
    encode_request = staticmethod(write_request)
    encoder = ChatEncoder
    encode_reply = staticmethod(write_reply)
    encode_error = staticmethod(write_error)
    decode_models = staticmethod(read_models)
    encode_models = staticmethod(write_models)
    encode_model = staticmethod(write_model)

    def decode_request(self, body: bytes | BodyFields, target: RequestTarget = NO_TARGET) -> Request:  # noqa: ARG002  # contract
        """Read a client's request. Raises `RequestError`."""
        return read_request(body, self._request_limits)

    def relayed_body(self, body: bytes) -> bytes:
        """Write what strict servers refuse in another way; everything else keeps its bytes."""
        return relayed_body(body)

    def relayed_reply(self, body: bytes) -> bytes:
        """Add the required fields that many servers omit, `refusal` and `logprobs`; the rest keeps its bytes."""
        return relayed_reply(body)

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        return ChatDecoder(self._new_id, self._decoder_limits)


OPENAI_CHAT = OpenAIChat()
