"""OpenAI's dicts: messages and tools of the Chat API become a request, events become deltas or a message.

Rule: the codec of the Chat API reads and writes everything, so a program in this process gets what a client of the
proxy gets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_text import write_json
from fcshim.codecs.openai_chat import OPENAI_CHAT, ChatEncoder
from fcshim.codecs.openai_chat.encoder import write_reply
from fcshim.errors import ModelOutputError, RequestError, UpstreamError
from fcshim.events import JSON, Event
from fcshim.messages import Message, Request, TextPart, Tool, UserMessage, as_function
from fcshim.reply import fold

__all__ = ["ChoiceEncoder", "Messages", "choices", "deltas", "message"]

Messages: TypeAlias = str | Sequence[Message | dict[str, JSON]]
"""The conversation: the text of one user message, or messages as objects or as dicts of the Chat API."""

_REQUEST = Request(model="", messages=())
_IDENTITY = ReplyIdentity("", 0, "")
_DATA = b"data: "
_DONE = b"[DONE]"
_PLACEHOLDER = {"role": "user"}
"""Stands in for a message that is an object already, so that the codec's messages keep their positions."""


def read_request(messages: Messages, tools: Sequence[Tool], fields: Mapping[str, JSON]) -> Request:
    """Make a request from messages, tools and other fields of the Chat API; its codec validates them.

    Raises `RequestError`, whose `param` names the field.
    """
    if not isinstance(messages, Iterable) or isinstance(messages, bytes | Mapping):
        found = type(messages).__name__
        raise RequestError(f"messages: expected a text or a list of messages, got {found}", param="messages")
    given: list[Message | dict[str, JSON]]
    given = [UserMessage((TextPart(messages),))] if isinstance(messages, str) else list(messages)
    body = {**fields, "messages": [_PLACEHOLDER if isinstance(item, Message) else item for item in given]}
    body["tools"] = [{"type": "function", "function": as_function(tool)} for tool in tools] or None
    request = OPENAI_CHAT.decode_request(_encode(body))
    read = zip(given, request.messages, strict=True)
    conversation = tuple(item if isinstance(item, Message) else message for item, message in read)
    return msgspec.structs.replace(request, messages=conversation, tools=tuple(tools))


def _encode(fields: Mapping[str, JSON]) -> bytes:
    try:
        return write_json(fields)
    except (TypeError, RecursionError):
        for name, value in fields.items():
            try:
                write_json(value)
            except (TypeError, RecursionError) as error:
                raise RequestError(f"{name}: the value cannot be written as JSON: {error}", param=name) from error
        raise


class ChoiceEncoder:
    """Encodes the events of one reply as they come; `choices` does the same for an iterable."""

    def __init__(self) -> None:
        self._encoder = ChatEncoder(_REQUEST, _IDENTITY)

    def encode(self, events: Sequence[Event]) -> list[dict[str, JSON]]:
        """Return the choices for these events. Raises as `choices` does."""
        return _read_chunks(self._encoder.encode(0, events))

    def close(self) -> list[dict[str, JSON]]:
        """Handle the end of the reply. Raises `UpstreamError` if no `Stop` came."""
        return _read_chunks(self._encoder.close())


def choices(events: Iterable[Event]) -> Iterator[dict[str, JSON]]:
    """Yield the `choices[0]` of each chunk that the Chat API streams: `{index, delta, logprobs, finish_reason}`.

    `events` are all events of one reply, as they come. A call that fails after its start never has complete arguments.
    Raises `ModelOutputError` (kind `invalid_call`) at the end of a reply whose calls all failed, and `UpstreamError`
    for an `Error` and for events that end without `Stop`.
    """
    encoder = ChoiceEncoder()
    for event in events:
        yield from encoder.encode((event,))
    yield from encoder.close()


def deltas(events: Iterable[Event]) -> Iterator[dict[str, JSON]]:
    """Yield the delta of each chunk: `{role, content}` first, then `{content}`, `{reasoning_content}`, `{tool_calls}`.

    `events` and errors are those of `choices`.
    """
    for choice in choices(events):
        if choice["delta"]:
            yield choice["delta"]


def message(events: Iterable[Event]) -> dict[str, JSON]:
    """Return the assistant's message of a whole reply: `{role, content, refusal}`, and `tool_calls` if there are any.

    Calls that ended with an error are left out; if the reply has nothing else, a sentence for each is the content.
    Raises `UpstreamError` for an `Error`.
    """
    written = msgspec.json.decode(write_reply(_REQUEST, _IDENTITY, [fold(events)]))
    found: dict[str, JSON] = written["choices"][0]["message"]
    return found


def _read_chunks(written: bytes) -> list[dict[str, JSON]]:
    """Return the choices of what the encoder wrote. Raises the error among them."""
    lines = (line.removeprefix(_DATA) for line in written.split(b"\n\n"))
    chunks = [msgspec.json.decode(data) for data in lines if data and data != _DONE]
    for chunk in chunks:
        if "error" in chunk:
            error = chunk["error"]
            if error["type"] == ModelOutputError.kind:
                raise ModelOutputError(error["message"], kind="invalid_call")
            raise UpstreamError(error["message"], kind=error["code"] or error["type"])
    return [chunk["choices"][0] for chunk in chunks]
