"""The client's whole reply: a folded reply becomes one message.

Rule: only calls that ended without error become tool uses. If nothing else is left, the excerpt of a malformed call is
the text, so that no reply is silently empty.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.anthropic.blocks import REDACTED_PREFIX
from fcshim.codecs.anthropic.options import AnthropicClientOptions
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_text import write_json
from fcshim.codecs.outcome import COMPLETE_REASONS, is_truncated, raise_error, valid_calls, visible_text
from fcshim.events import JSON, StopReason, ToolCallEnd, Usage
from fcshim.messages import Request
from fcshim.reply import Reply

_STOP_REASONS: dict[StopReason | None, str] = {
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "stop_sequence": "stop_sequence",
    "content_filter": "refusal",
}


def stop_fields(reason: StopReason | None, request: Request) -> dict[str, JSON]:
    """Return `stop_reason` and `stop_sequence`. Which of several sequences matched is unknown here."""
    stop_reason = _STOP_REASONS.get(reason, "end_turn")
    matched = request.stop[0] if stop_reason == "stop_sequence" and len(request.stop) == 1 else None
    return {"stop_reason": stop_reason, "stop_sequence": matched}


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Return token counts in the API's form, in which input tokens exclude cached ones."""
    return {
        "input_tokens": max(usage.input_tokens - usage.cached_tokens, 0),
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
    }


def message_dict(identity: ReplyIdentity, content: list[JSON], stop: dict[str, JSON], usage: Usage) -> dict[str, JSON]:
    """Return a message object."""
    return {
        "id": identity.id,
        "type": "message",
        "role": "assistant",
        "model": identity.model,
        "content": content,
        **stop,
        "usage": usage_dict(usage),
    }


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply. The API has one choice. Raises `UpstreamError` if the reply has an error."""
    reply = replies[0]
    raise_error(reply)
    content: list[JSON] = []
    if AnthropicClientOptions.of(request).thinking:
        content += _thinking(reply)
    if text := visible_text(reply):
        content.append({"type": "text", "text": text})
    content += map(_tool_use, valid_calls(reply))
    reason = reply.stop_reason
    if reason in COMPLETE_REASONS and is_truncated(reply):
        reason = "max_tokens"
    return write_json(message_dict(identity, content, stop_fields(reason, request), reply.usage or Usage()))


def _thinking(reply: Reply) -> list[JSON]:
    if reply.signature.startswith(REDACTED_PREFIX):
        return [{"type": "redacted_thinking", "data": reply.signature.removeprefix(REDACTED_PREFIX)}]
    if not reply.reasoning and not reply.signature:
        return []
    return [{"type": "thinking", "thinking": reply.reasoning, "signature": reply.signature}]


def _tool_use(call: ToolCallEnd) -> dict[str, JSON]:
    return {
        "type": "tool_use",
        "id": call.tool_call_id,
        "name": call.tool_call_name,
        "input": msgspec.Raw(call.tool_call_arguments_complete.encode()),
    }
