"""Types of the upstream's JSON, with only the fields that become events.

Rule: unknown fields are skipped by the parser; a missing field has a default that has no effect.
"""

import msgspec

from fcshim.codecs.json_text import json_reader
from fcshim.events import JSON


class FunctionDelta(msgspec.Struct, gc=False):
    """Part of a call; `arguments` is an object where the upstream did not encode it as a string."""

    name: str | None = None
    arguments: str | dict[str, JSON] | None = None


class ToolCallDelta(msgspec.Struct, gc=False):
    """Part of one of several calls."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class ChatDelta(msgspec.Struct, gc=False):
    """The delta of a choice, or a whole message."""

    content: str | list[JSON] | None = None
    reasoning_content: str | None = None
    reasoning: JSON = None
    refusal: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionDelta | None = None


class ChatChoice(msgspec.Struct, gc=False):
    """One choice of a chunk (`delta`), of a whole reply (`message`), or of a text completion (`text`)."""

    index: int = 0
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: JSON = None


class ChatChunk(msgspec.Struct, gc=False):
    """One chunk of a stream, or one whole reply."""

    choices: list[ChatChoice] | None = None
    usage: dict[str, JSON] | None = None
    error: JSON = None
    prompt_progress: JSON = None


class PlainDelta(msgspec.Struct, gc=False):
    """A delta with text and no other field that becomes an event."""

    content: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class PlainChoice(msgspec.Struct, gc=False):
    """A choice with a text delta."""

    delta: PlainDelta
    index: int = 0
    finish_reason: str | None = None


class PlainChunk(msgspec.Struct, gc=False):
    """A chunk with text only; its types reject every other chunk, which is then read as a `ChatChunk`."""

    choices: list[PlainChoice]
    usage: None = None
    error: None = None


read_chunk = json_reader(ChatChunk)
"""Reads one chunk; None where the payload is not JSON or has another shape."""

_decode_plain = msgspec.json.Decoder(PlainChunk).decode


def read_plain_chunk(payload: bytes) -> PlainChunk | None:
    """Read a chunk with text only; None for any other."""
    try:
        return _decode_plain(payload)
    except (ValueError, RecursionError):
        return None
