"""Defines the events of a reply, which are the same for every provider and dialect, and the ids of calls and replies.

Rule: `start chunk* end` per call; text never lies inside a call; a call's chunks, joined, are its complete arguments.
An id is unique in a conversation that lasts days and crosses processes. An id that grants access to something stored
must not be guessable from other ids.
"""

import itertools
import json
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from fcshim.errors import ModelOutputError

__all__ = [
    "JSON",
    "CallError",
    "CallErrorKind",
    "Coercion",
    "Error",
    "Event",
    "Reasoning",
    "Stop",
    "StopReason",
    "Text",
    "ToolCallChunk",
    "ToolCallEnd",
    "ToolCallStart",
    "Usage",
    "WebErrorCode",
    "WebResult",
    "WebToolUse",
    "event_to_dict",
    "id_source",
    "total_usage",
]

JSON: TypeAlias = Any
"""Any value that `json.loads` can return. The only place that uses `Any`."""

StopReason = Literal["complete", "tool_use", "max_tokens", "stop_sequence", "content_filter", "error"]
CallErrorKind = Literal["truncated", "malformed", "invalid", "limit"]


class Text(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """A fragment of the reply's text."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False, tag="reasoning", tag_field="type"):
    """A fragment of the model's reasoning; `signature` is the provider's, null without one."""

    text: str
    signature: str | None = None


class ToolCallStart(msgspec.Struct, frozen=True, gc=False, tag="tool_call_start", tag_field="type"):
    """A call starts. `index` counts the calls of this reply from 0."""

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
    """One value that was converted to fit the tool's schema; `path` is a JSON Pointer into the arguments."""

    path: str
    from_: JSON
    to: JSON


class ToolCallEnd(msgspec.Struct, frozen=True, gc=False, tag="tool_call_end", tag_field="type"):
    """A call ends. If `error` is null, the arguments are one strict JSON object; otherwise it must not be executed."""

    tool_call_id: str
    tool_call_name: str
    tool_call_arguments_complete: str
    index: int
    coerced: list[Coercion] = msgspec.field(default_factory=list)
    error: CallError | None = None

    @property
    def arguments(self) -> dict[str, JSON]:
        """The arguments, parsed anew each time. Raises `ModelOutputError` for a call that must not be executed."""
        if self.error is not None:
            raise ModelOutputError(self.error.message, kind=self.error.kind, raw=self.error.raw)
        parsed: dict[str, JSON] = json.loads(self.tool_call_arguments_complete or "{}")
        return parsed


WebErrorCode = Literal[
    "max_uses_exceeded", "unavailable", "url_not_accessible", "url_not_allowed", "url_not_in_prior_context"
]


class WebResult(msgspec.Struct, frozen=True, gc=False):
    """A page that was found or loaded; `text` is an excerpt or all of it."""

    title: str
    url: str
    text: str


class WebToolUse(msgspec.Struct, frozen=True, gc=False, tag="web_tool_use", tag_field="type"):
    """The proxy has run a tool for the web that the client expects its provider to run; `subject`: the query or URL."""

    tool_call_id: str
    tool_call_name: str
    action: Literal["search", "fetch"]
    subject: str
    results: tuple[WebResult, ...] = ()
    error: WebErrorCode | None = None


class Usage(msgspec.Struct, frozen=True, gc=False, tag="usage", tag_field="type"):
    """Token counts; `input_tokens` includes `cached_tokens`, `output_tokens` includes `reasoning_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class Stop(msgspec.Struct, frozen=True, gc=False, tag="stop", tag_field="type"):
    """The reply has ended, for this reason."""

    stop_reason: StopReason


class Error(msgspec.Struct, frozen=True, gc=False, tag="error", tag_field="type"):
    """The stream failed. Events before it are valid; it is the last event."""

    kind: str
    message: str


Event: TypeAlias = Text | Reasoning | ToolCallStart | ToolCallChunk | ToolCallEnd | WebToolUse | Usage | Stop | Error
Piece: TypeAlias = str | Text | Reasoning | Usage | Stop
"""A part of a reply: text, or an event that says more. Without a `Stop`, the reply is complete at its end."""


def event_to_dict(event: Event) -> dict[str, JSON]:
    """Return the event as a dict of plain values, with the field names of its JSON form."""
    result: dict[str, JSON] = msgspec.to_builtins(event)
    return result


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Add up the token counts of several replies; None if no reply has any."""
    known = [msgspec.structs.astuple(usage) for usage in usages if usage is not None]
    return Usage(*map(sum, zip(*known, strict=True))) if known else None


def id_source(prefix: str = "call_") -> Callable[[], str]:
    """Return a function that makes a new id at each call: the prefix, 80 random bits in hex, a counter in hex."""
    seed = secrets.token_hex(10)
    return map(f"{prefix}{seed}{{:04x}}".format, itertools.count()).__next__


def secret_source(prefix: str) -> Callable[[], str]:
    """Return a function that makes unguessable ids: the prefix, 128 random bits in hex."""
    return lambda: prefix + secrets.token_hex(16)
