"""Folds all events of one choice into a whole reply.

Rule: `fold` is the only way from events to a reply, so a reply that is not streamed equals the streamed one.
"""

from collections.abc import Iterable, Iterator

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
    WebToolUse,
)


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply of one choice. `tool_calls` has every call that ended, including those with an error.

    `signature` is the first one that came with the reasoning or before the first call.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = ""
    tool_calls: tuple[ToolCallEnd, ...] = ()
    web_tool_uses: tuple[tuple[int, WebToolUse], ...] = ()
    """Tools for the web that the proxy ran, each with the length of the text before it."""
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    error: Error | None = None


def split_text(text: str, uses: Iterable[tuple[int, WebToolUse]]) -> Iterator[str | WebToolUse]:
    """Yield the parts of a reply's text and the web tools that ran between them, in order."""
    start = 0
    for end, use in uses:
        if text[start:end]:
            yield text[start:end]
        yield use
        start = end
    if text[start:]:
        yield text[start:]


def fold(events: Iterable[Event]) -> Reply:
    """Fold events into a `Reply`."""
    text: list[str] = []
    reasoning: list[str] = []
    signature = ""
    calls: list[ToolCallEnd] = []
    uses: list[tuple[int, WebToolUse]] = []
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
            case WebToolUse():
                uses.append((sum(map(len, text)), event))
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
        web_tool_uses=tuple(uses),
        usage=usage,
        stop_reason=stop_reason,
        error=error,
    )
