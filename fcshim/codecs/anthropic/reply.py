"""The client's whole reply: folded events become one message.

Rule: only calls that ended without error are tool uses. Where nothing else is left to say, the excerpt of a malformed
call is the text, so that no answer is silently empty.
Neighbours: `reply.fold` makes what is written here; the stream encoder shares stop reasons and usage.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.anthropic.blocks import REDACTED_PREFIX
from fcshim.codecs.anthropic.client_options import read_client_options
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_writer import write_json
from fcshim.errors import UpstreamError
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
    """Give `stop_reason` and `stop_sequence`. Which of several sequences it was is not known here."""
    word = _STOP_REASONS.get(reason, "end_turn")
    matched = request.stop[0] if word == "stop_sequence" and len(request.stop) == 1 else None
    return {"stop_reason": word, "stop_sequence": matched}


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Give the API's form of token counts: its input tokens are those that no cache held."""
    return {
        "input_tokens": max(usage.input_tokens - usage.cached_tokens, 0),
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
    }


def message_dict(identity: ReplyIdentity, content: list[JSON], stop: dict[str, JSON], usage: Usage) -> dict[str, JSON]:
    """Give a message."""
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
    """Write a whole reply; the API has one choice. Raises `UpstreamError` where it broke."""
    reply = replies[0]
    if reply.error is not None:
        raise UpstreamError(reply.error.message, kind=reply.error.kind)
    good = [call for call in reply.tool_calls if call.error is None]
    content: list[JSON] = []
    if read_client_options(request.style).thinking:
        content += _thinking(reply)
    text = reply.text
    if not text and not good:
        text = "".join(call.error.raw for call in reply.tool_calls if call.error)
    if text:
        content.append({"type": "text", "text": text})
    content += map(_tool_use, good)
    reason = _stop_reason(reply, any_valid=bool(good))
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


def _stop_reason(reply: Reply, *, any_valid: bool) -> StopReason | None:
    """Give the stop reason; a reply whose only call was cut off was cut off, whatever the upstream says."""
    truncated = any(call.error and call.error.kind == "truncated" for call in reply.tool_calls)
    if truncated and not any_valid and reply.stop_reason in ("complete", "stop_sequence"):
        return "max_tokens"
    return reply.stop_reason
