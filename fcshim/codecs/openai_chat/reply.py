"""Writing a reply that is not streamed: folded events become one JSON body.

Rule: only calls that ended without error are written as calls. A reply without text and without such a call has the
excerpt of its malformed call as content, so that no reply is silently empty.
"""

from collections.abc import Iterable, Sequence

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_chat.request import ChatClientOptions
from fcshim.codecs.openai_chat.request_tools import CUSTOM_ARGUMENT
from fcshim.codecs.outcome import COMPLETE_REASONS, is_truncated, raise_error, valid_calls, visible_text
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, RequestError
from fcshim.events import JSON, StopReason, ToolCallEnd, Usage
from fcshim.messages import Request
from fcshim.reply import Reply

_FINISH_REASONS: dict[StopReason | None, str] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def finish_reason(reason: StopReason | None, *, legacy: bool) -> str:
    """Return the API's finish_reason for a stop reason."""
    finish = _FINISH_REASONS.get(reason, "stop")
    return "function_call" if legacy and finish == "tool_calls" else finish


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Sum the usage of the choices; the prompt is shared, so its tokens count once."""
    listed = list(usages)
    return Usage(
        input_tokens=max(usage.input_tokens for usage in listed),
        output_tokens=sum(usage.output_tokens for usage in listed),
        cached_tokens=max(usage.cached_tokens for usage in listed),
        reasoning_tokens=sum(usage.reasoning_tokens for usage in listed),
    )


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Return token counts in the API's form."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply, one choice per `Reply`. Raises `UpstreamError` where one of them ended with an error."""
    client_options = ChatClientOptions.of(request)
    body: dict[str, JSON] = {
        "id": identity.id,
        "object": "chat.completion",
        "created": identity.created,
        "model": identity.model,
        "choices": [_write_choice(index, reply, client_options) for index, reply in enumerate(replies)],
    }
    if usages := [reply.usage for reply in replies if reply.usage is not None]:
        body["usage"] = usage_dict(sum_usage(usages))
    return msgspec.json.encode(body)


def _write_choice(index: int, reply: Reply, client_options: ChatClientOptions) -> dict[str, JSON]:
    raise_error(reply)
    valid, text = valid_calls(reply), visible_text(reply)
    message: dict[str, JSON] = {"role": "assistant", "content": None if valid and not text else text, "refusal": None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if valid and client_options.functions:
        message["function_call"] = _write_function(valid[0])
    elif valid:
        message["tool_calls"] = [_write_call(call, client_options) for call in valid]
    reason = reply.stop_reason
    if reason in COMPLETE_REASONS and is_truncated(reply):
        reason = "max_tokens"
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(reason, legacy=client_options.functions),
    }


def _write_function(call: ToolCallEnd) -> dict[str, JSON]:
    return {"name": call.tool_call_name, "arguments": call.tool_call_arguments_complete}


def _write_call(call: ToolCallEnd, client_options: ChatClientOptions) -> dict[str, JSON]:
    if call.tool_call_name in client_options.custom:
        arguments = msgspec.json.decode(call.tool_call_arguments_complete)
        text = arguments.get(CUSTOM_ARGUMENT)
        return {
            "id": call.tool_call_id,
            "type": "custom",
            "custom": {"name": call.tool_call_name, "input": text if isinstance(text, str) else str(text)},
        }
    return {"id": call.tool_call_id, "type": "function", "function": _write_function(call)}


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": {message, type, param, code}}`.

    Errors caused by the request have the type `invalid_request_error`; a more specific kind becomes the `code`.
    """
    caused_by_request = isinstance(error, RequestError) or error.kind == CONTEXT_LENGTH
    kind = RequestError.kind if caused_by_request else error.kind
    code = error.kind if error.kind != kind else None
    param = error.param if isinstance(error, RequestError) else None
    return msgspec.json.encode({"error": {"message": error.message, "type": kind, "param": param, "code": code}})
