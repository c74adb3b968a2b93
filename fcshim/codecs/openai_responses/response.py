"""The response object: what a request asked, echoed, and what became of it.

Rule: every field that the official client's type demands is there, from the first event on; the id and the echo never
change while a response streams.
Neighbours: the encoder and `reply` send it; `items` makes its output.
"""

from collections.abc import Sequence

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_responses.request import API
from fcshim.events import JSON, Error, StopReason, Usage
from fcshim.messages import Request

_ECHO_DEFAULTS: dict[str, JSON] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Fields that say again what was asked, with what stands for silence."""

_INCOMPLETE_REASONS: dict[StopReason | None, str] = {
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}


def begin_response(request: Request, identity: ReplyIdentity) -> dict[str, JSON]:
    """Give the object as it is before anything is said."""
    asked = request.verbatim.get(API, {})
    echo = {name: default if asked.get(name) is None else asked[name] for name, default in _ECHO_DEFAULTS.items()}
    return {
        "id": identity.id,
        "object": "response",
        "created_at": identity.created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": identity.model,
        "output": [],
        "service_tier": "default",
        "usage": None,
        **echo,
    }


def end_response(
    response: dict[str, JSON], output: Sequence[JSON], usage: Usage | None, reason: StopReason | None
) -> dict[str, JSON]:
    """Give the object as it is at the end; a reply that was cut off is incomplete."""
    why = _INCOMPLETE_REASONS.get(reason)
    return {
        **response,
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "output": list(output),
        "usage": None if usage is None else usage_dict(usage),
    }


def fail_response(response: dict[str, JSON], output: Sequence[JSON], error: Error) -> dict[str, JSON]:
    """Give the object of a reply that broke; what was complete before stands."""
    problem = {"code": "server_error", "message": error.message}
    return {**response, "status": "failed", "error": problem, "output": list(output)}


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Give the API's form of token counts."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
