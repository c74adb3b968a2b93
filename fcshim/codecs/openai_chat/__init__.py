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

A request without tools is relayed in a form that every server of the API accepts, and its reply in one for strict
clients. Only what strict servers refuse is rewritten, without a change of meaning: null and empty fields, fields that
accompany tools although there are none, the role `developer`, text in parts. A reply gets the required fields that may
be null and that many servers omit. Every other value keeps its bytes, and a body without any of these is unchanged.
"""

import msgspec

from fcshim.codecs.base import NO_TARGET, Codec, Decoder, RequestTarget
from fcshim.codecs.body_fields import BodyFields
from fcshim.codecs.openai_chat.decoder import ChatDecoder
from fcshim.codecs.openai_chat.encoder import ChatEncoder, write_error, write_reply
from fcshim.codecs.openai_chat.models import read_models, write_model, write_models
from fcshim.codecs.openai_chat.request import FIELDS, read_request
from fcshim.codecs.openai_chat.upstream_request import write_request
from fcshim.events import JSON
from fcshim.messages import Request

__all__ = ["OPENAI_CHAT", "ChatDecoder", "ChatEncoder", "OpenAIChat"]

_Fields = dict[str, msgspec.Raw]

_NULL, _EMPTY_TEXT = msgspec.Raw(b"null"), msgspec.Raw(b'""')
_TOOL_FIELDS = frozenset(["tools", "functions"])
_COMPANIONS = frozenset(["tool_choice", "parallel_tool_calls", "function_call"])
"""Fields that some servers refuse where no tools are offered, even `tool_choice: "none"`."""
_LISTS = _TOOL_FIELDS | {"stop"}
"""Fields of the request for which an empty list means nothing; some servers want at least one item."""
_SEPARATOR = "\n"
"""The text that llama.cpp and vLLM insert between the text parts of a message."""


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
        fields = msgspec.json.decode(body, type=_Fields)
        listed = msgspec.json.decode(fields["messages"], type=list[msgspec.Raw])
        messages = [msgspec.json.decode(message, type=_Fields) for message in listed]  # other threads run in between
        kept = {
            name: value
            for name, value in fields.items()
            if value != _NULL and not (name in _LISTS and _is_empty_list(value))
        }
        if not _TOOL_FIELDS & kept.keys():
            kept = {name: value for name, value in kept.items() if name not in _COMPANIONS}
        written = [_message(message) for message in messages]
        if len(kept) == len(fields) and written == messages:
            return body
        return msgspec.json.encode({**kept, "messages": written})

    def relayed_reply(self, body: bytes) -> bytes:
        """Add the required fields that many servers omit, `refusal` and `logprobs`, to each choice of one document.

        The rest keeps its bytes; any other body is returned as it is.
        """
        try:
            fields = msgspec.json.decode(body, type=_Fields)
            choices = msgspec.json.decode(fields.get("choices", b"[]"), type=list[_Fields])
            completed = [_completed(choice) for choice in choices]
        except (ValueError, RecursionError):
            return body
        return body if completed == choices else msgspec.json.encode({**fields, "choices": completed})

    def decoder(self) -> Decoder:
        """Create a decoder for one upstream reply, which is a stream or one JSON body."""
        return ChatDecoder(self._new_id, self._decoder_limits)


def _completed(choice: _Fields) -> _Fields:
    message = choice.get("message")
    if message is None:  # a reply of another kind
        return choice
    found = msgspec.json.decode(message, type=_Fields)
    if "refusal" not in found:
        message = msgspec.Raw(msgspec.json.encode({**found, "refusal": _NULL}))
    return {"logprobs": _NULL, **choice, "message": message}


def _is_empty_list(value: msgspec.Raw) -> bool:
    data = bytes(value)
    return data[:1] == b"[" and not data[1:-1].strip()


def _message(message: _Fields) -> _Fields:
    """Return a message without null fields and empty lists; it has a content, which is one text if it is only text."""
    kept = {name: value for name, value in message.items() if value != _NULL and not _is_empty_list(value)}
    if bytes(kept.get("role", b"")) == b'"developer"':
        kept["role"] = msgspec.Raw(b'"system"')
    return {**kept, "content": _content(kept.get("content", _EMPTY_TEXT))}


def _content(content: msgspec.Raw) -> msgspec.Raw:
    """Join the parts of a text. Parts with more fields than a text has stay, since some servers read those."""
    if bytes(content)[:1] != b"[":
        return content
    parts: list[JSON] = msgspec.json.decode(content)
    texts = [part["text"] for part in parts if _is_plain_text(part)]
    return msgspec.Raw(msgspec.json.encode(_SEPARATOR.join(texts))) if len(texts) == len(parts) else content


def _is_plain_text(part: JSON) -> bool:
    return (
        isinstance(part, dict)
        and part.keys() == {"type", "text"}
        and part["type"] == "text"
        and isinstance(part["text"], str)
    )


OPENAI_CHAT = OpenAIChat()
