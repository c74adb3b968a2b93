"""The response object: the echoed fields of the request, status, output and usage.

Rule: every field that the official client's type requires is present from the first event on; the id and the echoed
fields never change while a response streams.
"""

from collections.abc import Sequence

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_responses.request import API, ECHO_DEFAULTS
from fcshim.events import JSON, Error, StopReason, Usage
from fcshim.messages import Request

_FUNCTION_FIELDS = ("description", "parameters", "strict")
"""Fields that a function has in a response, null where the request had none."""

INCOMPLETE_REASONS: dict[StopReason | None, str] = {
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}
"""Why a response, and the message that it ends with, is incomplete."""


def begin_response(request: Request, identity: ReplyIdentity) -> dict[str, JSON]:
    """Return the response object at the start of a reply."""
    source = request.verbatim.get(API, {})
    echo = {name: default if source.get(name) is None else source[name] for name, default in ECHO_DEFAULTS.items()}
    echo["tools"] = [_with_function_fields(tool) for tool in echo["tools"]]
    return {
        "id": identity.id,
        "object": "response",
        "created_at": identity.created,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": identity.model,
        "output": [],
        "service_tier": "default",
        "usage": None,
        **echo,
    }


def _with_function_fields(tool: JSON) -> JSON:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return tool
    inner = tool.get("function")  # the Chat API's form, which some clients also send here
    fields = {"type": "function", **inner} if isinstance(inner, dict) else tool
    return {**fields, **{name: fields.get(name) for name in _FUNCTION_FIELDS}}


def end_response(
    response: dict[str, JSON], output: Sequence[JSON], usage: Usage | None, reason: StopReason | None, seconds: float
) -> dict[str, JSON]:
    """Return the response object at the end of a reply, after so many seconds; one that was cut off is `incomplete`."""
    incomplete = INCOMPLETE_REASONS.get(reason)
    return {
        **response,
        "status": "incomplete" if incomplete else "completed",
        "completed_at": None if incomplete else response["created_at"] + int(seconds),
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "output": list(output),
        "usage": None if usage is None else usage_dict(usage),
    }


def mark_unusable(response: dict[str, JSON], error: Error) -> dict[str, JSON]:
    """Return the response object of a whole reply whose only calls cannot be used: it is incomplete, and says why."""
    details = {"code": "server_error", "message": error.message}
    return {**response, "status": "incomplete", "completed_at": None, "error": details}


def fail_response(response: dict[str, JSON], output: Sequence[JSON], error: Error) -> dict[str, JSON]:
    """Return the response object of a reply that ended with an error; items that were complete stay."""
    details = {"code": "server_error", "message": error.message}
    return {**response, "status": "failed", "error": details, "output": list(output)}


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Return token counts in the API's form."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
