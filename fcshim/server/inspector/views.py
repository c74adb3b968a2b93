"""The JSON of a capture for the page and for scripts, made on request.

Rule: every text has a limit (`MAX_SHOWN`), and says how much was left out.
"""

import itertools
import re
import time
from collections.abc import Sequence

import msgspec

from fcshim.config import ModelConfig
from fcshim.dispatch import make_shim
from fcshim.errors import FcshimError
from fcshim.events import JSON, Error, Event, Reasoning, Stop, Text, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request, Tool
from fcshim.parse.stream import StreamParser
from fcshim.prompt.dialect_folder import chosen_dialect
from fcshim.server.inspector.capture import AttemptCapture, Capture
from fcshim.server.inspector.decoded_reply import DecodedReply, Piece, delivered_replies, find_progress
from fcshim.server.inspector.parsed_text import MAX_TEXT, Segment, Span, find_spans, segments

MAX_SHOWN = 1_000_000
"""Characters of one text that the page gets; a browser shows that many, in parts, without delay."""
MAX_EVENTS = 2_000
MAX_SEGMENTS = 20_000
_CODE_BLOCK = re.compile(r"^ {0,3}(?:```|~~~)[^\n]*\n.*?(?:^ {0,3}(?:```|~~~)|\Z)", re.MULTILINE | re.DOTALL)
_REJECTED = frozenset({"not_offered", "malformed", "invalid", "limit"})
"""Outcomes of calls that the client did not get."""


class LimitedText(msgspec.Struct, frozen=True):
    """The beginning of a text, and how many characters were left out after it."""

    text: str
    left_out: int


class RequestSummary(msgspec.Struct, frozen=True):
    """One line of the list; times are in seconds, `duration` is null while the request runs."""

    id: str
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
    first_chunk: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    outcome: list[str]
    calls: list[str]
    error: str
    reading: str
    """How far the server has read the prompt, or the prompt's size, while the request runs and no reply has come."""


def limit_text(text: str) -> LimitedText:
    """Return the first `MAX_SHOWN` characters; lone surrogates, which JSON cannot carry, become question marks."""
    kept = text[:MAX_SHOWN].encode("utf-8", "replace").decode()
    return LimitedText(kept, len(text) - len(kept))


def summary_of(capture: Capture) -> RequestSummary:
    """Summarise a capture."""
    replies = _replies(capture)
    events = [event for reply in replies for _, event in reply.events]
    chunks = [attempt.first_at for attempt in capture.attempts if attempt.first_at]
    first = min(chunks, default=capture.sent.first_at)
    usage = capture.usage or next((event for event in reversed(events) if isinstance(event, Usage)), None)
    return RequestSummary(
        id=capture.id,
        time=capture.time,
        api=capture.codec.name,
        method=capture.method,
        path=capture.path,
        model=capture.model,
        upstream=capture.upstream,
        dialect=_dialect_name(capture),
        dialect_reason=_dialect_reason(capture),
        tool_calling=_tool_calling(capture),
        streamed=capture.streamed,
        status=capture.status,
        duration=capture.ended_at - capture.started_at if capture.ended_at else None,
        first_chunk=first - capture.started_at if first else None,
        input_tokens=None if usage is None else usage.input_tokens,
        output_tokens=None if usage is None else usage.output_tokens,
        cached_tokens=None if usage is None else usage.cached_tokens,
        outcome=_outcome(capture, events),
        calls=[capture.mask.mask_text(event.tool_call_name) for event in events if isinstance(event, ToolCallStart)][
            :100
        ],
        error=capture.error,
        reading=_reading(capture, events),
    )


def _reading(capture: Capture, events: Sequence[Event]) -> str:
    if capture.ended_at or events or not capture.attempts:
        return ""
    attempt = capture.attempts[-1]
    progress = find_progress(attempt.codec, attempt.log)
    size = f"{len(attempt.body):,} bytes sent, {time.monotonic() - attempt.started_at:.0f} s"
    return size if progress is None else str(progress)


def _replies(capture: Capture) -> list[DecodedReply]:
    """Return the events that the client got, for each choice of each attempt."""
    if capture.attempts:
        return [reply for attempt in capture.attempts for reply in delivered_replies(attempt.log)]
    return capture.relayed()


def _outcome(capture: Capture, events: Sequence[Event]) -> list[str]:
    """Return the outcome of the request, in the words of the list's filter."""
    if not capture.ended_at:
        return ["running"]
    ends = [event for event in events if isinstance(event, ToolCallEnd)]
    stops = [event.stop_reason for event in events if isinstance(event, Stop)]
    failed = capture.status >= 400 or capture.error or any(isinstance(event, Error) for event in events)
    outcomes = {call.outcome for call in capture.calls}
    found = {
        "error": failed,
        "calls": any(end.error is None for end in ends),
        "rejected": any(end.error is not None for end in ends) or bool(outcomes & _REJECTED),
        "truncated": "max_tokens" in stops or any(end.error and end.error.kind == "truncated" for end in ends),
        "repaired": "repaired" in outcomes,
        "rescued": "rescued" in outcomes,
        "coerced": any(end.coerced for end in ends),
        "retried": any(attempt.reason for attempt in capture.attempts),
        "withheld": capture.withheld,
    }
    words = [word for word, holds in found.items() if holds]
    return words if {"error", "calls", "rejected"} & set(words) else ["text", *words]


def why_no_call(capture: Capture) -> str:
    """Return why the client got no call although tools were offered; empty if it got one, or an error."""
    replies = _replies(capture)
    events = [event for reply in replies for _, event in reply.events]
    outcome = _outcome(capture, events)
    if not capture.tools or {"running", "error", "calls", "withheld"} & set(outcome):
        return ""
    rejected = sorted({call.outcome for call in capture.calls} & _REJECTED)
    if rejected:
        return f"The model wrote a call that was not accepted: {', '.join(rejected).replace('_', ' ')}."
    if "truncated" in outcome:
        return "The reply was cut off by the token limit before a call was complete."
    return _why_only_text(capture, events)


def _why_only_text(capture: Capture, events: Sequence[Event]) -> str:
    """Say where the reply names an offered tool, as text that was not read as a call."""
    text = "".join(event.text for event in events if isinstance(event, Text))[:MAX_SHOWN]
    reasoning = "".join(event.text for event in events if isinstance(event, Reasoning))[:MAX_SHOWN]
    places = {
        " in a code block: it counts as quoted, unless the block has only calls and nothing follows it": "".join(
            _CODE_BLOCK.findall(text)
        ),
        " in its text, but not as a call in a syntax that is read here": text,
        " in its reasoning, where a call is not run (see --reasoning)": reasoning,
    }
    reader = (
        "The upstream reads calls itself and found none"
        if _tool_calling(capture) != "prompt"
        else "The model wrote no call"
    )
    for place, written in places.items():
        named = [tool.name for tool in capture.tools if tool.name in written]
        if named:
            return f"{reader}. It names {', '.join(named[:5])}{place}."
    return f"{reader}, and the reply names no offered tool."


def _tool_calling(capture: Capture) -> str:
    if not capture.attempts:
        return "relayed" if capture.status == 200 else ""
    return "native" if capture.attempts[-1].native else "prompt"


def _dialect_name(capture: Capture) -> str:
    if capture.model_config is None or not capture.attempts or capture.attempts[-1].native:
        return ""
    config = capture.model_config
    return chosen_dialect(config.dialect, config.real_name or config.upstream_model or capture.model).name


def _dialect_reason(capture: Capture) -> str:
    if not _dialect_name(capture) or capture.model_config is None:
        return ""
    return capture.mask.mask_text(capture.model_config.dialect_reason or "")


def detail_of(capture: Capture) -> dict[str, JSON]:
    """Return everything about a capture. Long work: call it outside of the event loop."""
    texts = [view for attempt in capture.attempts for view in _attempt_views(capture, attempt)]
    relayed = [] if capture.attempts else _relayed_views(capture)
    return {
        "summary": summary_of(capture),
        "withheld": capture.withheld,
        "why_no_call": why_no_call(capture),
        "request": {
            "method": capture.method,
            "path": capture.path,
            "query": capture.query,
            "headers": capture.headers,
            "body": limit_text(capture.body.decode("utf-8", "replace")),
        },
        "tools": capture.tools,
        "attempts": [*texts, *relayed],
        "response": {
            "status": capture.status,
            "body": limit_text(capture.response_text()),
        },
        "timing": {
            "sent": [attempt.started_at - capture.started_at for attempt in capture.attempts],
            "first": [
                attempt.first_at - capture.started_at if attempt.first_at else None for attempt in capture.attempts
            ],
            "duration": capture.ended_at - capture.started_at if capture.ended_at else None,
        },
    }


def _attempt_views(capture: Capture, attempt: AttemptCapture) -> list[dict[str, JSON]]:
    note = {"reason": attempt.reason, "error": attempt.error, "path": attempt.path, "native": attempt.native}
    prompt = limit_text(attempt.body.decode("utf-8", "replace"))
    return [
        {**note, "prompt": prompt if reply.choice == 0 else LimitedText("", 0), **_reply_view(capture, reply)}
        for reply in capture.decoded(attempt)
    ]


def _relayed_views(capture: Capture) -> list[dict[str, JSON]]:
    note = {"reason": "", "error": "", "path": "", "native": True, "prompt": LimitedText("", 0)}
    return [{**note, **_reply_view(capture, reply)} for reply in capture.relayed() if reply.pieces]


def _reply_view(capture: Capture, reply: DecodedReply) -> dict[str, JSON]:
    pieces = [piece for piece in reply.pieces if piece.text]
    coloured, left_out = _coloured(capture, pieces)
    events = [{"at": at - capture.started_at, "event": event} for at, event in reply.events[:MAX_EVENTS]]
    return {
        "choice": reply.choice,
        "times": [piece.at - capture.started_at for piece in pieces],
        "segments": coloured[:MAX_SEGMENTS],
        "left_out": left_out + sum(len(text) for _, _, text in coloured[MAX_SEGMENTS:]),
        "events": events,
        "events_left_out": len(reply.events) - len(events),
    }


def _coloured(capture: Capture, pieces: Sequence[Piece]) -> tuple[list[Segment], int]:
    """Cut the model's text into coloured segments; return them, and how many characters were left out."""
    result: list[Segment] = []
    first = total = 0
    for kind, group in itertools.groupby(pieces, key=lambda piece: piece.kind):
        run = list(group)
        text = "".join(piece.text for piece in run)
        kept = text[: max(MAX_TEXT - total, 0)].encode("utf-8", "replace").decode()
        total += len(text)
        ends = list(itertools.accumulate(len(piece.text) for piece in run))
        spans = [Span(0, len(kept), kind)]
        parser = (
            _parser(capture) if kind == "text" and any(not attempt.native for attempt in capture.attempts) else None
        )
        if parser is not None:
            spans = find_spans(parser, kept)
        result += [(first + chunk, kind, part) for chunk, kind, part in segments(kept, spans, ends)]
        first += len(run)
    return result, max(total - MAX_TEXT, 0)


def _parser(capture: Capture) -> StreamParser | None:
    if capture.model_config is None:
        return None
    return new_parser(capture.model_config, capture.model, capture.tools)


def new_parser(model: ModelConfig, name: str, tools: tuple[Tool, ...]) -> StreamParser | None:
    """Make the parser with which a model's replies are read; None if its settings cannot be used."""
    try:
        shim = make_shim(Request(model=model.upstream_model or name, messages=(), tools=tools), model)
        return StreamParser(
            shim.dialect,
            shim.tools,
            rescue=model.rescue,
            reasoning=model.reasoning,
            open_reasoning_tag=model.open_reasoning_tag,
            arguments=model.arguments,
        )
    except FcshimError:
        return None
