"""The event vocabulary: every provider, dialect and parser speaks in these pieces, in this order.

Rule: `start chunk* end` per call; text never lies inside a call; a call's chunks, joined, are its complete arguments.
Neighbours: parsers and codecs make events, `reply.fold` adds them up, codecs write them for a client.
"""

from typing import Any, Literal, TypeAlias

import msgspec

JSON: TypeAlias = Any
"""Whatever `json.loads` can return. The one place where `Any` is written."""

StopReason = Literal["complete", "tool_use", "max_tokens", "stop_sequence", "content_filter", "error"]
CallErrorKind = Literal["truncated", "malformed", "invalid", "limit"]


class Text(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """A piece of the answer's text."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False, tag="reasoning", tag_field="type"):
    """A piece of the model's reasoning; `signature` where the provider signs it."""

    text: str
    signature: str | None = None


class ToolCallStart(msgspec.Struct, frozen=True, gc=False, tag="tool_call_start", tag_field="type"):
    """A call begins. `index` counts the calls of this reply from 0."""

    tool_call_id: str
    tool_call_name: str
    index: int


class ToolCallChunk(msgspec.Struct, frozen=True, gc=False, tag="tool_call_chunk", tag_field="type"):
    """A fragment of the call's arguments: the next characters of one JSON object."""

    tool_call_id: str
    tool_call_arguments_chunk: str
    index: int


class CallError(msgspec.Struct, frozen=True, gc=False):
    """Why a call must not be executed; `raw` is an excerpt of what the model wrote."""

    kind: CallErrorKind
    message: str
    raw: str


class Coercion(msgspec.Struct, frozen=True, gc=False, rename={"from_": "from"}):
    """One value that the tool's schema changed; `path` is a JSON Pointer into the arguments."""

    path: str
    from_: JSON
    to: JSON


class ToolCallEnd(msgspec.Struct, frozen=True, gc=False, tag="tool_call_end", tag_field="type"):
    """A call ends. With `error` null the arguments are one strict JSON object; else the call is not executable."""

    tool_call_id: str
    tool_call_name: str
    tool_call_arguments_complete: str
    index: int
    coerced: list[Coercion] = msgspec.field(default_factory=list)
    error: CallError | None = None


class Usage(msgspec.Struct, frozen=True, gc=False, tag="usage", tag_field="type"):
    """Token counts; `input_tokens` includes the cached ones, `output_tokens` the reasoning ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class Stop(msgspec.Struct, frozen=True, gc=False, tag="stop", tag_field="type"):
    """The reply ended, and why."""

    stop_reason: StopReason


class Error(msgspec.Struct, frozen=True, gc=False, tag="error", tag_field="type"):
    """The stream broke; what came before stands, nothing comes after."""

    kind: str
    message: str


Event: TypeAlias = Text | Reasoning | ToolCallStart | ToolCallChunk | ToolCallEnd | Usage | Stop | Error


def event_to_dict(event: Event) -> dict[str, JSON]:
    """Give the event as a dict of plain values, with the names of its JSON form."""
    result: dict[str, JSON] = msgspec.to_builtins(event)
    return result
