"""The upstream's JSON, typed: only the fields that become events.

Rule: unknown fields cost nothing and break nothing; a missing one has the value that changes nothing.
Neighbours: the decoder reads these, `choice` turns them into events.
"""

import json

import msgspec

from fcshim.codecs.json_writer import repair_surrogates_in
from fcshim.events import JSON


class FunctionDelta(msgspec.Struct, gc=False):
    """A piece of a call; `arguments` is an object where the upstream forgot to encode it."""

    name: str | None = None
    arguments: str | dict[str, JSON] | None = None


class ToolCallDelta(msgspec.Struct, gc=False):
    """A piece of one of several calls."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class ChatDelta(msgspec.Struct, gc=False):
    """What a chunk adds to a choice, or a whole message."""

    content: str | list[JSON] | None = None
    reasoning_content: str | None = None
    reasoning: JSON = None
    refusal: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionDelta | None = None


class ChatChoice(msgspec.Struct, gc=False):
    """One choice of a chunk (`delta`) or of a whole reply (`message`)."""

    index: int = 0
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: str | None = None
    stop_reason: JSON = None


class ChatChunk(msgspec.Struct, gc=False):
    """One chunk of a stream, or one whole reply."""

    choices: list[ChatChoice] | None = None
    usage: dict[str, JSON] | None = None
    error: JSON = None


class PlainDelta(msgspec.Struct, gc=False):
    """A delta that holds text and nothing else that counts."""

    content: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class PlainChoice(msgspec.Struct, gc=False):
    """A choice that goes on with text."""

    delta: PlainDelta
    index: int = 0
    finish_reason: str | None = None


class PlainChunk(msgspec.Struct, gc=False):
    """A chunk that holds text alone; whatever holds more is refused by its types, and read as a `Chunk`."""

    choices: list[PlainChoice]
    usage: None = None
    error: None = None


_decode = msgspec.json.Decoder(ChatChunk).decode
_decode_plain = msgspec.json.Decoder(PlainChunk).decode


def read_plain_chunk(payload: bytes) -> PlainChunk | None:
    """Read a chunk that holds text alone; None for every other."""
    try:
        return _decode_plain(payload)
    except (ValueError, RecursionError):
        return None


def read_chunk(payload: bytes) -> ChatChunk | None:
    """Read one JSON document; None where it is none, or is of another shape."""
    try:
        return _decode(payload)
    except (ValueError, RecursionError):
        return _read_lenient(payload)


def _read_lenient(payload: bytes) -> ChatChunk | None:
    """Read what strict readers refuse: invalid UTF-8, half surrogates, raw control characters (all seen in relays)."""
    try:
        value = json.loads(payload.decode("utf-8", "replace"), strict=False)
        mended = msgspec.json.encode(repair_surrogates_in(value))
        return _decode(mended)
    except (ValueError, RecursionError):
        return None
