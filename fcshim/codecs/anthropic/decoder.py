"""The upstream's reply: events of the Messages API become internal events.

Rule: blocks are identified by their index, so interleaved ones stay apart. The stop reason ends the choice, and the
token counts are emitted with it.
"""

from collections.abc import Callable

import msgspec

from fcshim.codecs.anthropic.blocks import REDACTED_PREFIX
from fcshim.codecs.choice_reader import ChoiceReader
from fcshim.codecs.json_text import json_reader, read_count
from fcshim.codecs.single_choice import read_document, upstream_failure
from fcshim.codecs.upstream_errors import find_error_message
from fcshim.events import JSON, Event, Reasoning, StopReason, Text, Usage

# The upstream's JSON: only the fields that become events. Unknown fields are skipped. One type covers
# all events, so that each is decoded once.


class ContentBlock(msgspec.Struct, gc=False):
    """A content block: its start in a stream, or all of it."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, JSON] | None = None


class MessagesDelta(msgspec.Struct, gc=False):
    """The part of a block, or of the message, that an event adds."""

    type: str = ""
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class InitialMessage(msgspec.Struct, gc=False):
    """The message object with which a stream starts."""

    usage: dict[str, JSON] | None = None


class MessagesEvent(msgspec.Struct, gc=False):
    """One event of a stream, or a whole message."""

    type: str = ""
    index: int = 0
    message: InitialMessage | None = None
    content_block: ContentBlock | None = None
    delta: MessagesDelta | None = None
    usage: dict[str, JSON] | None = None
    content: list[ContentBlock] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    error: JSON = None


read_event = json_reader(MessagesEvent)


_STOP_REASONS: dict[str, StopReason] = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "content_filter",
}
"""The API's stop reasons; any other means a complete reply."""


class MessagesDecoder:
    """Decodes the events of one reply."""

    def __init__(self, new_id: Callable[[], str], call_chars: int) -> None:
        self.choice = ChoiceReader(new_id, call_chars)
        self.done = False
        self._usage: dict[str, JSON] = {}

    def read(self, document: bytes, out: list[Event], *, whole: bool) -> None:
        """Read one event, or a whole message. Raises `UpstreamError`."""
        event = read_document(document, read_event)
        match event.type:
            case "content_block_delta" if event.delta is not None:
                self._read_delta(event.index, event.delta, out)
            case "content_block_start" if event.content_block is not None:
                self._read_block(event.index, event.content_block, out)
            case "message_start" if event.message is not None:
                self._usage |= event.message.usage or {}
                self.choice.started = True
            case "message_delta" if event.delta is not None:
                self._usage |= _reported_counts(event.usage)
                self._finish(event.delta.stop_reason, event.delta.stop_sequence, out)
            case "message_stop":
                self.done = True
            case "message" if whole:
                self._read_message(event, out)
            case "error":
                raise upstream_failure(find_error_message({"error": event.error}) or "no reason given")
            case _ if whole:
                raise upstream_failure(find_error_message({"error": event.error}) or "its answer is not a message")

    def _read_message(self, message: MessagesEvent, out: list[Event]) -> None:
        for index, block in enumerate(message.content or ()):
            self._read_block(index, block, out)
        self._usage |= _reported_counts(message.usage)
        self._finish(message.stop_reason or "end_turn", message.stop_sequence, out)
        self.done = True

    def _read_block(self, index: int, block: ContentBlock, out: list[Event]) -> None:
        match block.type:
            case "text":
                self.choice.emit_text(Text(block.text or ""), out)
            case "thinking":
                self.choice.emit_text(Reasoning(block.thinking or "", block.signature or None), out)
            case "redacted_thinking":
                self.choice.emit_text(Reasoning("", REDACTED_PREFIX + (block.data or "")), out)
            case "tool_use":
                self.choice.read_call(index, out, call_id=block.id, name=block.name, arguments=block.input or None)

    def _read_delta(self, index: int, delta: MessagesDelta, out: list[Event]) -> None:
        match delta.type:
            case "text_delta":
                self.choice.emit_text(Text(delta.text or ""), out)
            case "input_json_delta":
                self.choice.read_call(index, out, arguments=delta.partial_json)
            case "thinking_delta":
                self.choice.emit_text(Reasoning(delta.thinking or ""), out)
            case "signature_delta":
                self.choice.emit_text(Reasoning("", delta.signature or None), out)

    def _finish(self, reason: str | None, matched: str | None, out: list[Event]) -> None:
        if reason is None or self.choice.finished:
            return
        stop = _STOP_REASONS.get(reason, "complete")
        if reason == "stop_sequence" and matched is not None:
            stop = "stop_sequence"
        self.choice.finish(stop, out, read_usage(self._usage))


def read_usage(usage: dict[str, JSON]) -> Usage:
    """Read token counts; one that is missing or not a number counts as 0.

    The API's `input_tokens` exclude cached tokens, so these are added.
    """
    cached = read_count(usage, "cache_read_input_tokens")
    return Usage(
        input_tokens=read_count(usage, "input_tokens") + cached + read_count(usage, "cache_creation_input_tokens"),
        output_tokens=read_count(usage, "output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=read_count(usage.get("output_tokens_details"), "thinking_tokens"),
    )


def _reported_counts(usage: dict[str, JSON] | None) -> dict[str, JSON]:
    """Return the counts of a later report that are not null: a null leaves the earlier count unchanged."""
    return {name: value for name, value in (usage or {}).items() if value is not None}
