"""The client's whole reply, and errors: folded replies become candidates.

Rule: only calls that ended without error become function calls; the finish reason reports the others. The name of an
error's status follows from the HTTP status, as in all of Google's APIs.
"""

from collections.abc import Sequence

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.gemini.options import GeminiClientOptions
from fcshim.codecs.gemini.parts import wrap_signature
from fcshim.codecs.json_text import write_json
from fcshim.codecs.outcome import CallOutcomes, raise_error, valid_calls
from fcshim.errors import FcshimError
from fcshim.events import JSON, StopReason, ToolCallEnd, Usage
from fcshim.messages import Request
from fcshim.reply import Reply

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def finish_fields(reason: StopReason | None, outcomes: CallOutcomes) -> dict[str, JSON]:
    """Return `finishReason`, and `finishMessage` if the reason needs one.

    The API's reason is STOP also for function calls.
    """
    if reason in ("max_tokens", "content_filter"):
        return {"finishReason": "MAX_TOKENS" if reason == "max_tokens" else "SAFETY"}
    if outcomes.call_error is None or outcomes.valid_calls:
        return {"finishReason": "STOP"}
    if outcomes.truncated:
        return {"finishReason": "MAX_TOKENS"}
    message = f"the model wrote a function call that cannot be used: {outcomes.call_error.message}"
    return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": message}


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Return token counts in the API's form, in which candidate tokens exclude thoughts."""
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": max(usage.output_tokens - usage.reasoning_tokens, 0),
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }


def call_part(call: ToolCallEnd) -> dict[str, JSON]:
    """Return the part of a call that ended without error.

    Its arguments are JSON already; they are put on one line, because an event's data is one line.
    """
    arguments = call.tool_call_arguments_complete.replace("\n", " ").replace("\r", " ")
    return {
        "functionCall": {
            "id": call.tool_call_id,
            "name": call.tool_call_name,
            "args": msgspec.Raw(arguments.encode()),
        }
    }


def with_signature(part: dict[str, JSON], signature: str) -> dict[str, JSON]:
    """Return the part with its thought signature, if there is one."""
    return {**part, "thoughtSignature": wrap_signature(signature)} if signature else part


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply, one candidate per `Reply`. Raises `UpstreamError` if one of them has an error."""
    thoughts = GeminiClientOptions.of(request).thoughts
    body: dict[str, JSON] = {
        "candidates": [_candidate(index, reply, thoughts=thoughts) for index, reply in enumerate(replies)],
        "modelVersion": identity.model,
        "responseId": identity.id,
    }
    usages = [reply.usage for reply in replies if reply.usage is not None]
    if usages:
        body["usageMetadata"] = usage_dict(usages[0])
    return write_json(body)


def _candidate(index: int, reply: Reply, *, thoughts: bool) -> dict[str, JSON]:
    raise_error(reply)
    outcomes = CallOutcomes()
    for call in reply.tool_calls:
        outcomes.record(call)
    parts = [{"text": reply.text}] if reply.text else []
    calls = list(map(call_part, valid_calls(reply)))
    if calls:
        calls[0] = with_signature(calls[0], reply.signature)
    elif parts:
        parts[-1] = with_signature(parts[-1], reply.signature)
    thought_parts = [{"text": reply.reasoning, "thought": True}] if thoughts and reply.reasoning else []
    content = {"parts": [*thought_parts, *parts, *calls] or [{"text": ""}], "role": "model"}
    return {"content": content, **finish_fields(reply.stop_reason, outcomes), "index": index}


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": {code, message, status, details}}`."""
    status_name = _STATUS_NAMES.get(error.status, "INTERNAL" if error.status >= 500 else "FAILED_PRECONDITION")
    return write_json({"error": {"code": error.status, "message": error.message, "status": status_name, "details": []}})
