"""One line of the list of requests, made on request."""

import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from fcshim.events import Error, Event, Stop, ToolCallEnd, ToolCallStart, Usage
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.schema.limits import StepLimitError
from fcshim.schema.validate import first_violation
from fcshim.server.inspector.capture import CapturedRequest
from fcshim.server.inspector.decoded_reply import DecodedReply, delivered_replies, find_progress

REJECTED = frozenset({"not_offered", "malformed", "invalid", "limit"})
"""Outcomes of calls that the client did not get."""
_MAX_CHECKED = 20
"""Calls of a request that are compared with their schemas; each takes some microseconds, at most 20 ms."""


class RequestSummary(msgspec.Struct, frozen=True):
    """One line of the list; times are in seconds, `duration` is null while the request runs, `elapsed` afterwards."""

    id: str
    conversation: int
    resent_from: str
    """The id of the request that was sent again by this one."""
    words: str
    """What the user said last."""
    results: list[str]
    """The tools whose results the request brings."""
    time: float
    api: str
    method: str
    path: str
    model: str
    upstream: str
    """Its name where there are several, else its address."""
    dialect: str
    dialect_reason: str
    """Why the model has this dialect."""
    tool_calling: str
    """prompt, native or relayed; empty if nothing was sent."""
    streamed: bool
    status: int
    duration: float | None
    elapsed: float | None
    first_chunk: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    outcome: list[str]
    calls: list[str]
    error: str
    reading: str
    """How far the server has read the prompt, or the prompt's size, while the request runs and no reply has come."""


def summary_of(capture: CapturedRequest) -> RequestSummary:
    """Summarise a capture."""
    replies = delivered(capture)
    events = [event for reply in replies for _, event in reply.events]
    chunks = [attempt.first_at for attempt in capture.attempts if attempt.first_at]
    first = min(chunks, default=capture.sent.first_at)
    usage = capture.usage or next((event for event in reversed(events) if isinstance(event, Usage)), None)
    return RequestSummary(
        id=capture.id,
        conversation=capture.conversation,
        resent_from=capture.resent_from,
        words=capture.words,
        results=capture.results,
        time=capture.time,
        api=capture.codec.name,
        method=capture.method,
        path=capture.path,
        model=capture.model,
        upstream=capture.upstream,
        dialect=dialect_of(capture),
        dialect_reason=dialect_reason_of(capture),
        tool_calling=tool_calling_of(capture),
        streamed=capture.streamed,
        status=capture.status,
        duration=None if capture.is_running else capture.ended_at - capture.started_at,
        elapsed=time.monotonic() - capture.started_at if capture.is_running else None,
        first_chunk=first - capture.started_at if first else None,
        input_tokens=None if usage is None else usage.input_tokens,
        output_tokens=None if usage is None else usage.output_tokens,
        cached_tokens=None if usage is None else usage.cached_tokens,
        outcome=outcome_of(capture, events),
        calls=[capture.mask.mask_text(event.tool_call_name) for event in events if isinstance(event, ToolCallStart)][
            :100
        ],
        error=capture.error,
        reading=_reading(capture, events),
    )


def _reading(capture: CapturedRequest, events: Sequence[Event]) -> str:
    if not capture.is_running or events or not capture.attempts:
        return ""
    attempt = capture.attempts[-1]
    progress = find_progress(attempt.codec, attempt.log)
    size = f"{len(attempt.body):,} bytes sent, {time.monotonic() - attempt.started_at:.0f} s"
    return size if progress is None else str(progress)


def delivered(capture: CapturedRequest) -> list[DecodedReply]:
    """Return the events that the client got, for each choice of each attempt."""
    if capture.attempts:
        return [reply for attempt in capture.attempts for reply in delivered_replies(attempt.log)]
    return capture.received()


def outcome_of(capture: CapturedRequest, events: Sequence[Event]) -> list[str]:
    """Return the outcome of the request, in the words of the list's filter."""
    if capture.is_running:
        return ["running"]
    ends = [event for event in events if isinstance(event, ToolCallEnd)]
    stops = [event.stop_reason for event in events if isinstance(event, Stop)]
    failed = capture.status >= 400 or capture.error or any(isinstance(event, Error) for event in events)
    outcomes = {call.outcome for call in capture.calls}
    found = {
        "error": failed,
        "calls": any(end.error is None for end in ends),
        "rejected": any(end.error is not None for end in ends) or bool(outcomes & REJECTED),
        "truncated": "max_tokens" in stops or any(end.error and end.error.kind == "truncated" for end in ends),
        "invalid": find_invalid_call(capture, events) is not None,
        "repaired": "repaired" in outcomes,
        "rescued": "rescued" in outcomes,
        "coerced": any(end.coerced for end in ends),
        "retried": any(attempt.reason for attempt in capture.attempts),
        "withheld": capture.withheld,
    }
    words = [word for word, holds in found.items() if holds]
    return words if {"error", "calls", "rejected"} & set(words) else ["text", *words]


class InvalidCall(NamedTuple):
    """A call that the client got although its arguments do not fit its schema, and why they do not."""

    name: str
    violation: str


def find_invalid_call(capture: CapturedRequest, events: Sequence[Event]) -> InvalidCall | None:
    """Return the first call without an error whose arguments do not fit the schema of its tool."""
    schemas = {tool.name: tool.parameters for tool in capture.tools}
    ends = (event for event in events if isinstance(event, ToolCallEnd) and event.error is None)
    for end in itertools.islice(ends, _MAX_CHECKED):
        try:
            arguments = msgspec.json.decode(end.tool_call_arguments_complete)
            violation = first_violation(schemas.get(end.tool_call_name), arguments)
        except (msgspec.DecodeError, RecursionError, StepLimitError):
            continue
        if violation is not None:
            return InvalidCall(end.tool_call_name, capture.mask.mask_text(violation))
    return None


def tool_calling_of(capture: CapturedRequest) -> str:
    """Return prompt, native or relayed; empty if nothing was sent."""
    if not capture.attempts:
        return "relayed" if capture.status == 200 else ""
    return "native" if capture.attempts[-1].native else "prompt"


def dialect_of(capture: CapturedRequest) -> str:
    """Return the dialect in which calls are asked for; empty where the prompt asks for none."""
    if capture.model_config is None or not capture.attempts or capture.attempts[-1].native:
        return ""
    config = capture.model_config
    return chosen_dialect(config.dialect, config.real_name or config.upstream_model or capture.model).name


def dialect_reason_of(capture: CapturedRequest) -> str:
    """Return why the model has this dialect."""
    if not dialect_of(capture) or capture.model_config is None:
        return ""
    return capture.mask.mask_text(capture.model_config.dialect_reason or "")
