"""A reply: all events of one choice, folded.

Rule: folding is the only way from events to a whole reply; a reply that is not streamed is the same events, added up.
Neighbours: codecs write a `Reply` for clients that do not stream, `client.complete` returns it.
"""

from collections.abc import Iterable

import msgspec

from fcshim.events import (
    Error,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one choice said; `tool_calls` holds every call that ended, those with an error included.

    `signature` is the first that came with the reasoning or before the first call.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = ""
    tool_calls: tuple[ToolCallEnd, ...] = ()
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    error: Error | None = None


def fold(events: Iterable[Event]) -> Reply:
    """Add events up to a `Reply`."""
    text: list[str] = []
    reasoning: list[str] = []
    signature = ""
    calls: list[ToolCallEnd] = []
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    error: Error | None = None
    for event in events:
        match event:
            case Text():
                text.append(event.text)
            case Reasoning():
                reasoning.append(event.text)
                signature = signature or event.signature or ""
            case ToolCallEnd():
                calls.append(event)
            case Usage():
                usage = event
            case Stop():
                stop_reason = event.stop_reason
            case Error():
                error = event
            case ToolCallStart() | ToolCallChunk():
                pass
    return Reply(
        text="".join(text),
        reasoning="".join(reasoning),
        signature=signature,
        tool_calls=tuple(calls),
        usage=usage,
        stop_reason=stop_reason,
        error=error,
    )


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Add up the token counts of several replies; none where no reply had any."""
    known = [msgspec.structs.astuple(usage) for usage in usages if usage is not None]
    return Usage(*map(sum, zip(*known, strict=True))) if known else None
