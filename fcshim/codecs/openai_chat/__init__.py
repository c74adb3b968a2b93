"""OpenAI's Chat Completions API, which nearly every local engine imitates.

Rule: stateless; `OPENAI_CHAT` serves every exchange. What real servers and clients get wrong is understood, what we
write is what the official client accepts.
Neighbours: request, outgoing: what is asked; decoder, choice, wire: the upstream's reply; encoder, choice_writer,
reply: the client's; errors; models; style. `held` keeps a call's end back.

How a client sees a call that ends with an error after its start was sent: never as a finished tool use.

- Its arguments are no JSON at any moment: the last brace is held back until the call has ended well; when it ends
  badly, a closing bracket of the wrong kind spoils them, because some clients mend what is merely incomplete.
- Cut off (`truncated`): finish_reason is `length`.
- Malformed, invalid or beyond a limit, with good calls beside it: finish_reason is `tool_calls`; the good ones run, and
  clients treat the bad one as they treat a native model's bad JSON.
- The same without any good call: an error in the stream, and no `[DONE]`.
- Not streamed, it is left out; with nothing else to say, its excerpt is the content.

Custom tools (free text instead of JSON) are functions with one string `input` to the model. A whole reply turns their
calls back into custom calls; a stream gives function calls, because the official client crashes on custom deltas.
"""

from collections.abc import Callable, Sequence

from fcshim.codecs.base import NO_TARGET, Decoder, RequestTarget
from fcshim.codecs.limits import DEFAULT_LIMITS, RequestLimits
from fcshim.codecs.openai_chat.decoder import ChatDecoder, DecoderLimits
from fcshim.codecs.openai_chat.encoder import ChatEncoder
from fcshim.codecs.openai_chat.errors import write_error
from fcshim.codecs.openai_chat.models import MODELS_PATH, read_models, write_model, write_models
from fcshim.codecs.openai_chat.reply import write_reply
from fcshim.codecs.openai_chat.request import read_request
from fcshim.codecs.openai_chat.upstream_request import write_request
from fcshim.codecs.sse import write_data
from fcshim.codecs.upstream_errors import read_error
from fcshim.errors import FcshimError
from fcshim.ids import id_source
from fcshim.messages import Request

__all__ = ["OPENAI_CHAT", "ChatDecoder", "ChatEncoder", "DecoderLimits", "OpenAIChat", "RequestLimits"]


class OpenAIChat:
    """The codec; `new_id` names native calls that come without an id."""

    name = "openai_chat"
    reply_prefix = "chatcmpl-"
    call_prefix = "call_"
    models_path = MODELS_PATH
    # What `Codec` asks for and a function already does.
    encoder = staticmethod(ChatEncoder)
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
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._request_limits = request_limits
        self._decoder_limits = decoder_limits
        self._new_id = new_id or id_source()

    def decode_request(self, body: bytes, target: RequestTarget = NO_TARGET) -> Request:  # noqa: ARG002  # contract
        """Read a client's request. Raises `RequestError`."""
        return read_request(body, self._request_limits)

    def decoder(self) -> Decoder:
        """Make a reader for one upstream reply (streamed, or one whole JSON body)."""
        return ChatDecoder(self._new_id, self._decoder_limits)

    def encode_stream_error(self, error: FcshimError) -> bytes:
        """Write an error into a stream that is under way."""
        return write_data(write_error(error))

    def encode_models(self, names: Sequence[str], created: int) -> bytes:
        """Write the list of all models."""
        return write_models(names, created)

    def encode_model(self, name: str, created: int, target: RequestTarget) -> bytes:  # noqa: ARG002  # contract
        """Write what there is to say about one model."""
        return write_model(name, created)


OPENAI_CHAT = OpenAIChat()
