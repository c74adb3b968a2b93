"""The client's reply: events become events of the Messages API, a folded reply one message.

Rule: blocks are written one at a time and numbered without a gap, as the SDKs require. The stop reason and all usage
are in `message_delta`. Nothing follows an error. A truncated call ends with arguments that no tool accepts. A call that
fails otherwise after its start was sent ends the stream with an error, so that no client takes its block for a finished
tool use. A call that fails within one batch, or in a whole reply, is dropped. If nothing else is left, it becomes an
error in a stream unless it was truncated, and its excerpt the text of a whole reply.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Literal, assert_never

import msgspec

from fcshim.codecs.anthropic.blocks import REDACTED_PREFIX
from fcshim.codecs.anthropic.errors import write_error
from fcshim.codecs.anthropic.options import AnthropicClientOptions
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.framing import EVENT_STREAM, write_comment
from fcshim.codecs.json_text import write_json
from fcshim.codecs.outcome import (
    COMPLETE_REASONS,
    FAILED,
    UNFINISHED,
    WHOLE_REASONS,
    BufferedArguments,
    CallOutcomes,
    is_truncated,
    raise_error,
    valid_calls,
    visible_text,
)
from fcshim.errors import UpstreamError
from fcshim.events import (
    JSON,
    CallError,
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
from fcshim.messages import Request
from fcshim.reply import Reply, split_text

_STOP_REASONS: dict[StopReason | None, str] = {
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "content_filter": "refusal",
}


_NOT_STOPPED: dict[str, JSON] = {
    "stop_reason": None,
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
}
_USAGE_OF_MESSAGE: dict[str, JSON] = {
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "inference_geo": None,
    "service_tier": "standard",
}
"""What the usage of a message has, beside the counts."""
_TEXT_BLOCK: dict[str, JSON] = {"type": "text", "text": "", "citations": None}


def stop_fields(reason: StopReason | None, request: Request) -> dict[str, JSON]:
    """Return how the reply stopped. Which of several sequences matched is unknown here."""
    stop_reason = _STOP_REASONS.get(reason, "end_turn")
    matched = request.stop[0] if stop_reason == "stop_sequence" and len(request.stop) == 1 else None
    return {**_NOT_STOPPED, "stop_reason": stop_reason, "stop_sequence": matched}


def usage_dict(usage: Usage, uses: Sequence[WebToolUse] = ()) -> dict[str, JSON]:
    """Return token counts in the API's form, in which input tokens exclude cached ones, and the counts of web tools."""
    return {
        "input_tokens": max(usage.input_tokens - usage.cached_tokens, 0),
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        "server_tool_use": use_counts(uses),
    }


def message_dict(
    identity: ReplyIdentity, content: list[JSON], stop: dict[str, JSON], usage: dict[str, JSON]
) -> dict[str, JSON]:
    """Return a message object with every field that the API documents."""
    return {
        "id": identity.id,
        "type": "message",
        "role": "assistant",
        "model": identity.model,
        "content": content,
        **stop,
        "usage": {**usage, **_USAGE_OF_MESSAGE},
    }


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply. The API has one choice. Raises `UpstreamError` if the reply has an error."""
    reply = replies[0]
    raise_error(reply)
    content: list[JSON] = []
    if AnthropicClientOptions.of(request).thinking:
        content += _thinking(reply)
    for part in split_text(visible_text(reply), reply.web_tool_uses):
        content += [{**_TEXT_BLOCK, "text": part}] if isinstance(part, str) else web_blocks(part)
    content += [_tool_use(call, request) for call in valid_calls(reply)]
    reason = reply.stop_reason
    if reason in COMPLETE_REASONS and is_truncated(reply):
        reason = "max_tokens"
    usage = usage_dict(reply.usage or Usage(), [use for _, use in reply.web_tool_uses])
    return write_json(message_dict(identity, content, stop_fields(reason, request), usage))


def _thinking(reply: Reply) -> list[JSON]:
    if reply.signature.startswith(REDACTED_PREFIX):
        return [{"type": "redacted_thinking", "data": reply.signature.removeprefix(REDACTED_PREFIX)}]
    if not reply.reasoning and not reply.signature:
        return []
    return [{"type": "thinking", "thinking": reply.reasoning, "signature": reply.signature}]


def _tool_use(call: ToolCallEnd, request: Request) -> dict[str, JSON]:
    return {
        "type": "tool_use",
        "id": call.tool_call_id,
        "name": call.tool_call_name,
        **AnthropicClientOptions.of(request).call_fields(call.tool_call_name),
        "input": msgspec.Raw(call.tool_call_arguments_complete.encode()),
        **DIRECT_CALLER,
    }


PING = b'event: ping\ndata: {"type":"ping"}\n\n'


class MessagesEncoder:
    """Writes one streamed reply for the client."""

    content_type = EVENT_STREAM

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        self._request = request
        self._identity = identity
        self._client_options = AnthropicClientOptions.of(request)
        self._usage = Usage()
        self._block_index = -1
        self._block_kind = ""  # of the open block
        self._delta_prefix = b""  # the bytes before each delta of the open block
        self._progress: Literal["", "begun", "stopped", "done"] = ""
        self._arguments = BufferedArguments()  # of the open tool use
        self._outcomes = CallOutcomes()
        self._voided = False  # the open block is that of a truncated call, and no other one may open
        self._followed = False  # the reply continued after it; the continuation is left out
        self._web_tool_uses: list[WebToolUse] = []

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events. The API has one choice, so events of others are dropped."""
        if self._progress == "done" or choice or not events:
            return b""
        out: list[bytes] = []
        if not self._progress:
            self._write_message_start(out)
        for event in self._without_failed_calls(events):
            # Fast path for nearly every event of a live stream.
            if type(event) is Text and self._block_kind == "text":
                out.append(self._delta_prefix + write_json(event.text) + b"}}\n\n")
            elif self._voided and not isinstance(event, Usage | Stop | Error):
                self._followed = True
            else:
                final_error = self._write(event, out)
                if final_error is not None:
                    self._progress = "done"
                    out.append(_error_event(final_error))
                    break
        return b"".join(out)

    def close(self) -> bytes:
        """Return the clean end of the stream; an error if the reply has not ended; nothing after an error."""
        progress, self._progress = self._progress, "done"
        if progress == "done":
            return b""
        return _write_event("message_stop", {}) if progress == "stopped" else _error_event(UNFINISHED)

    def ping(self, note: str = "") -> bytes:
        """Return a `ping` event, after an SSE comment with the note."""
        return write_comment(note) + PING if note else PING

    def _write_message_start(self, out: list[bytes]) -> None:
        self._progress = "begun"
        # The SDKs need a usage here; `message_delta` overrides its counts.
        message = message_dict(self._identity, [], _NOT_STOPPED, usage_dict(Usage(output_tokens=1)))
        out.append(_write_event("message_start", {"message": message}))

    def _write(self, event: Event, out: list[bytes]) -> Error | None:
        """Write one event; return the error that must end the stream, if there is one."""
        match event:
            case Text():
                self._open_block("text", _TEXT_BLOCK, "text_delta", "text", out)
                out.append(self._delta_prefix + write_json(event.text) + b"}}\n\n")
            case Reasoning():
                self._write_reasoning(event, out)
            case ToolCallStart():
                names = {"name": event.tool_call_name, **self._client_options.call_fields(event.tool_call_name)}
                block = {"type": "tool_use", "id": event.tool_call_id, **names, "input": {}, **DIRECT_CALLER}
                self._open_block("tool_use", block, "input_json_delta", "partial_json", out)
                self._arguments = BufferedArguments()
            case ToolCallChunk():
                self._write_arguments(self._arguments.feed(event.tool_call_arguments_chunk), out)
            case ToolCallEnd():
                return self._end_call(event, out)
            case WebToolUse():
                self._write_web_tool_use(event, out)
            case Usage():
                self._usage = event
            case Stop():
                return self._write_stop(event, out)
            case Error():
                return event
            case _:
                assert_never(event)
        return None

    def _write_reasoning(self, event: Reasoning, out: list[bytes]) -> None:
        if not self._client_options.thinking:
            return
        if event.signature and event.signature.startswith(REDACTED_PREFIX):
            data = event.signature.removeprefix(REDACTED_PREFIX)
            self._open_block("redacted", {"type": "redacted_thinking", "data": data}, "", "", out)
            self._close_block(out)
            return
        if self._block_kind != "thinking":
            block = {"type": "thinking", "thinking": "", "signature": ""}
            self._open_block("thinking", block, "thinking_delta", "thinking", out)
        if event.text:
            out.append(self._delta_prefix + write_json(event.text) + b"}}\n\n")
        if event.signature:
            delta = {"type": "signature_delta", "signature": event.signature}
            out.append(_write_event("content_block_delta", {"index": self._block_index, "delta": delta}))
            self._close_block(out)

    def _write_web_tool_use(self, event: WebToolUse, out: list[bytes]) -> None:
        self._web_tool_uses.append(event)
        called, result = web_blocks(event)
        self._open_block("server_tool_use", {**called, "input": {}}, "input_json_delta", "partial_json", out)
        out.append(self._delta_prefix + write_json(write_json(called["input"]).decode()) + b"}}\n\n")
        self._open_block("web_result", result, "", "", out)
        self._close_block(out)

    def _open_block(self, kind: str, block: dict[str, JSON], delta: str, field: str, out: list[bytes]) -> None:
        self._close_block(out)
        self._block_index += 1
        self._block_kind = kind
        head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,' % self._block_index
        self._delta_prefix = head + f'"delta":{{"type":"{delta}","{field}":'.encode()
        out.append(_write_event("content_block_start", {"index": self._block_index, "content_block": block}))

    def _close_block(self, out: list[bytes]) -> None:
        if self._block_kind:
            self._block_kind = ""
            out.append(_write_event("content_block_stop", {"index": self._block_index}))

    def _without_failed_calls(self, events: Sequence[Event]) -> Iterable[Event]:
        """Drop the calls that start and fail within this batch: the client has seen nothing of them."""
        if len(events) < 2:  # nearly every read of a live stream
            return events
        started = {event.tool_call_id for event in events if isinstance(event, ToolCallStart)}
        ends = (event for event in events if isinstance(event, ToolCallEnd) and event.tool_call_id in started)
        failed = {event.tool_call_id: event.error for event in ends if event.error is not None}
        if not failed:
            return events
        for end in events:
            if isinstance(end, ToolCallEnd) and end.tool_call_id in failed:
                self._outcomes.record(end)
        call_events = (ToolCallStart, ToolCallChunk, ToolCallEnd)
        return [event for event in events if not (isinstance(event, call_events) and event.tool_call_id in failed)]

    def _write_arguments(self, text: str, out: list[bytes]) -> None:
        if text:
            out.append(self._delta_prefix + write_json(text) + b"}}\n\n")

    def _end_call(self, event: ToolCallEnd, out: list[bytes]) -> Error | None:
        self._outcomes.record(event)
        if event.error is None:
            rest: str | None = self._arguments.close(valid=True)
        else:
            rest = self._arguments.void() if event.error.kind == "truncated" else None
        if rest is None and event.error is not None:
            return Error("model_output_error", call_error_message(event.error))
        self._write_arguments(rest or "", out)
        self._voided = event.error is not None
        if not self._voided:  # otherwise no block may follow: eager runners run a call once another block opens
            self._close_block(out)
        return None

    def _write_stop(self, event: Stop, out: list[bytes]) -> Error | None:
        reason = event.stop_reason
        if reason == "error":
            return FAILED
        failed = self._outcomes.call_error
        if failed is not None and failed.kind != "truncated" and not self._outcomes.valid_calls:
            return Error("model_output_error", call_error_message(failed))
        if reason in WHOLE_REASONS and self._followed:
            return Error("model_output_error", "a tool call of the reply is incomplete, and the reply went on after it")
        if reason in WHOLE_REASONS and (self._voided or self._outcomes.truncated):
            reason = "max_tokens"  # also after valid calls: for any other reason, tool runners run every block
        self._close_block(out)
        self._progress = "stopped"
        delta = stop_fields(reason, self._request)
        usage = usage_dict(self._usage, self._web_tool_uses)
        out.append(_write_event("message_delta", {"delta": delta, "usage": usage}))
        return None


def call_error_message(error: CallError) -> str:
    """Return the message of a failed call, for an error event."""
    if error.kind == "truncated":
        return f"the reply ended inside a tool call: {error.message}; more max_tokens may help"
    return f"the model wrote a tool call that cannot be used: {error.message}"


def write_error_event(error: bytes) -> bytes:
    """Return the event that carries an error body."""
    return b"event: error\ndata: " + error + b"\n\n"


def _error_event(error: Error) -> bytes:
    return write_error_event(write_error(UpstreamError(error.message, kind=error.kind)))


def _write_event(kind: str, fields: dict[str, JSON]) -> bytes:
    name = kind.encode()
    return b"event: " + name + b"\ndata: " + write_json({"type": kind, **fields}) + b"\n\n"


# The blocks of a web tool that the proxy ran: the use and its result. Fields that the API encrypts for its own use
# later hold the Base64 of the excerpt; clients only send them back.

_ID_PREFIX = "srvtoolu_"
DIRECT_CALLER: dict[str, JSON] = {"caller": {"type": "direct"}}
"""Who makes a call: the model itself, not a program that it runs at the provider."""


def web_blocks(use: WebToolUse) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """Return the `server_tool_use` block and its result block."""
    name = "web_search" if use.action == "search" else "web_fetch"
    parameter = "query" if use.action == "search" else "url"
    use_id = _ID_PREFIX + use.tool_call_id.removeprefix("toolu_")
    called = {"type": "server_tool_use", "id": use_id, "name": name, "input": {parameter: use.subject}, **DIRECT_CALLER}
    result = {"type": f"{name}_tool_result", "tool_use_id": use_id, "content": _content(use, name), **DIRECT_CALLER}
    return called, result


def _content(use: WebToolUse, name: str) -> JSON:
    if use.error is not None:
        return {"type": f"{name}_tool_result_error", "error_code": use.error}
    if use.action == "search":
        return [
            {
                "type": "web_search_result",
                "title": result.title,
                "url": result.url,
                "encrypted_content": base64.b64encode(result.text.encode("utf-8", "replace")).decode(),
                "page_age": None,
            }
            for result in use.results
        ]
    page = use.results[0]
    source = {"type": "text", "media_type": "text/plain", "data": page.text}
    document = {"type": "document", "source": source, "title": page.title, "citations": None}
    return {"type": "web_fetch_result", "url": page.url, "content": document, "retrieved_at": None}


def use_counts(uses: Sequence[WebToolUse]) -> JSON:
    """Return the counts of the calls; None without any."""
    searches = sum(use.action == "search" for use in uses)
    counts = {"web_search_requests": searches, "web_fetch_requests": len(uses) - searches}
    return counts if uses else None
