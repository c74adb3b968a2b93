"""Wire types of the upstream's JSON, with only the fields that become events.

Unknown fields are skipped; a missing field has a neutral default.
"""

import msgspec

from fcshim.codecs.json_text import json_reader
from fcshim.events import JSON


class PartialArg(msgspec.Struct, gc=False, rename="camel"):
    """A piece of a call's arguments: a value, or the next characters of a text, at a path."""

    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: JSON = msgspec.UNSET
    will_continue: bool = False


class GeminiFunctionCall(msgspec.Struct, gc=False, rename="camel"):
    """A call, or a piece of one."""

    id: str | None = None
    name: str | None = None
    args: dict[str, JSON] | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool = False


class GeminiPart(msgspec.Struct, gc=False, rename="camel"):
    """A part of the model's turn."""

    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: GeminiFunctionCall | None = None


class GeminiContent(msgspec.Struct, gc=False):
    """The model's turn, or what a chunk adds to it."""

    parts: list[GeminiPart] | None = None


class GeminiCandidate(msgspec.Struct, gc=False, rename="camel"):
    """One choice."""

    index: int = 0
    content: GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class GeminiChunk(msgspec.Struct, gc=False, rename="camel"):
    """One chunk of a stream, or a whole reply."""

    candidates: list[GeminiCandidate] | None = None
    usage_metadata: dict[str, JSON] | None = None
    prompt_feedback: dict[str, JSON] | None = None
    error: JSON = None


read_chunk = json_reader(GeminiChunk)
read_chunks = json_reader(list[GeminiChunk])
"""Reads a stream that was not sent as events: one JSON array."""
