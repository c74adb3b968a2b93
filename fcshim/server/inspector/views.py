"""The JSON of a capture for the page and for scripts, made on request.

Rule: every text has a limit (`MAX_SHOWN`), and says how much was left out.
"""

import difflib
import itertools
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from fcshim.events import JSON
from fcshim.parse.stream import StreamParser
from fcshim.reply import fold
from fcshim.server.inspector.capture import CapturedRequest
from fcshim.server.inspector.decoded_reply import DecodedReply, Piece
from fcshim.server.inspector.no_call import explain_no_call
from fcshim.server.inspector.parsed_text import MAX_TEXT, Segment, Span, find_spans, new_parser, segments
from fcshim.server.inspector.playground import settings_of
from fcshim.server.inspector.summary import delivered, summary_of

MAX_SHOWN = 1_000_000
"""Characters of one text that the page gets; a browser shows that many, in parts, without delay."""
MAX_EVENTS = 2_000
MAX_SEGMENTS = 20_000
MAX_CALLS = 200
"""Calls of a message that the page gets."""


class LimitedText(msgspec.Struct, frozen=True):
    """The beginning of a text, and how many characters were left out after it."""

    text: str
    left_out: int


def limit_text(text: str) -> LimitedText:
    """Return the first `MAX_SHOWN` characters; lone surrogates, which JSON cannot carry, become question marks."""
    kept = text[:MAX_SHOWN].encode("utf-8", "replace").decode()
    return LimitedText(kept, len(text) - len(kept))


def detail_of(capture: CapturedRequest) -> dict[str, JSON]:
    """Return everything about a capture. Long work: call it outside of the event loop."""
    texts = _attempts_view(capture)
    relayed = [] if capture.attempts else _relayed_views(capture)
    received = capture.received()
    if not received and capture.status == 200:  # a record has no bytes of the response
        received = delivered(capture)[-1:]
    return {
        "summary": summary_of(capture),
        "withheld": capture.withheld,
        "why_no_call": explain_no_call(capture),
        "request": {
            "method": capture.method,
            "path": capture.path,
            "query": capture.query,
            "headers": capture.headers,
            "body": limit_text(capture.body.decode("utf-8", "replace")),
        },
        "tools": capture.tools,
        "settings": None if capture.model_config is None else settings_of(capture.model_config),
        "attempts": [*texts, *relayed],
        "response": {
            "status": capture.status,
            "messages": [_message_view(reply, is_running=capture.is_running) for reply in received],
            "body": limit_text(capture.response_text()),
        },
        "timing": {
            "sent": [attempt.started_at - capture.started_at for attempt in capture.attempts if capture.is_timed],
            "first": [
                attempt.first_at - capture.started_at if attempt.first_at else None for attempt in capture.attempts
            ],
            "duration": capture.ended_at - capture.started_at if capture.ended_at else None,
        },
    }


def _attempts_view(capture: CapturedRequest) -> list[dict[str, JSON]]:
    """Return each choice of each attempt; from the second attempt on, with the differences from the one before."""
    views: list[dict[str, JSON]] = []
    before: dict[int, str] = {}
    for attempt in capture.attempts:
        note: dict[str, JSON] = {"reason": attempt.reason, "error": attempt.error, "front": attempt.front}
        note |= {"path": attempt.path, "native": attempt.native}
        prompt = limit_text(attempt.body.decode("utf-8", "replace"))
        for reply in capture.decoded(attempt):
            text = "".join(piece.text for piece in reply.pieces)[:MAX_SHOWN].encode("utf-8", "replace").decode()
            changes = text_diff(before[reply.choice], text) if reply.choice in before else None
            before[reply.choice] = text
            shown = prompt if reply.choice == 0 else LimitedText("", 0)
            views.append({**note, "prompt": shown, "diff": changes, **_reply_view(capture, reply)})
    return views


def _message_view(reply: DecodedReply, *, is_running: bool) -> dict[str, JSON]:
    """Return what the client got as a message, in one choice."""
    folded = fold(event for _, event in reply.events)
    return {
        "choice": reply.choice,
        "reasoning": limit_text(folded.reasoning),
        "text": limit_text(folded.text),
        "calls": [
            {
                "name": call.tool_call_name,
                "arguments": limit_text(call.tool_call_arguments_complete),
                "error": None if call.error is None else f"{call.error.kind}: {call.error.message}",
            }
            for call in folded.tool_calls[:MAX_CALLS]
        ],
        "calls_left_out": max(len(folded.tool_calls) - MAX_CALLS, 0),
        "stop": folded.stop_reason,
        "error": None if folded.error is None or is_running else folded.error.message,
    }


def _relayed_views(capture: CapturedRequest) -> list[dict[str, JSON]]:
    note = {
        "reason": "",
        "error": capture.cut_prompt,
        "front": capture.varying_front,
        "path": "",
        "native": True,
        "prompt": LimitedText("", 0),
        "diff": None,
    }
    return [{**note, **_reply_view(capture, reply)} for reply in capture.received() if reply.pieces]


def _reply_view(capture: CapturedRequest, reply: DecodedReply) -> dict[str, JSON]:
    pieces = [piece for piece in reply.pieces if piece.text]
    coloured, left_out = _coloured(capture, pieces)
    events = [{"at": _since_start(capture, at), "event": event} for at, event in reply.events[:MAX_EVENTS]]
    return {
        "choice": reply.choice,
        "times": [_since_start(capture, piece.at) for piece in pieces],
        "segments": coloured[:MAX_SEGMENTS],
        "left_out": left_out + sum(len(text) for _, _, text in coloured[MAX_SEGMENTS:]),
        "events": events,
        "events_left_out": len(reply.events) - len(events),
    }


def _since_start(capture: CapturedRequest, at: float) -> float | None:
    return at - capture.started_at if capture.is_timed else None


def _coloured(capture: CapturedRequest, pieces: Sequence[Piece]) -> tuple[list[Segment], int]:
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


def _parser(capture: CapturedRequest) -> StreamParser | None:
    if capture.model_config is None:
        return None
    return new_parser(capture.model_config, capture.model, capture.tools)


Change = tuple[Literal["same", "removed", "added"], str]

_MAX_PARTS = 1_000
"""Parts of each text that are compared: some ten milliseconds, half a second for texts made to be slow."""
_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def text_diff(before: str, after: str) -> list[Change]:
    """Return the parts of two texts in order: what both have, what was removed, what was added.

    They are compared by words, or by lines where they have many; one that is too long for that is shown as replaced:
    `difflib` needs up to a product of the numbers of parts.
    """
    start = _shared(before, after)
    end = _shared(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    changes: list[Change] = [("same", before[:start]), *_compare(old, new), ("same", before[len(before) - end :])]
    return [change for change in changes if change[1]]


def _compare(old: str, new: str) -> list[Change]:
    for pattern in (_WORD, _LINE):
        olds, news = pattern.findall(old[:100_000]), pattern.findall(new[:100_000])
        if max(len(old), len(new)) <= 100_000 and max(len(olds), len(news)) <= _MAX_PARTS:
            return _compare_parts(olds, news)
    return [("removed", old), ("added", new)]


def _compare_parts(olds: list[str], news: list[str]) -> list[Change]:
    changes: list[Change] = []
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, olds, news).get_opcodes():
        if tag == "equal":
            changes.append(("same", "".join(olds[start:end])))
        else:
            changes += [("removed", "".join(olds[start:end])), ("added", "".join(news[new_start:new_end]))]
    return changes


def _shared(first: str, second: str) -> int:
    """Return how many characters both begin with, up to the last border of a word."""
    limit = min(len(first), len(second))
    low, high = 0, limit
    while low < high:  # a comparison of slices is much faster than one character after the other
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    if low == limit == len(first) == len(second):
        return low
    while low and (first[low - 1].isalnum() or first[low - 1] == "_"):
        low -= 1
    return low
