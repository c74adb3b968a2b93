"""The design's laws for a parser's events, and the normal form in which two event streams are compared.

Rule: depends on the event types and the design's laws only, not on the parser's implementation.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fcshim.events import (
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    event_to_dict,
)
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.machine.known_markers import REASONING_TAGS
from tests.parse.strict import PrefixReader, load_object

Piece = dict[str, Any]
"""One normalised event: `{"text"}`, `{"reasoning"}`, `{"call", "arguments", "coerced", "error"}` or `{"stop"}`."""


class LawBrokenError(AssertionError):
    """A stream of events breaks a law; the message names it."""


def _require(holds: object, law: str) -> None:
    if not holds:
        raise LawBrokenError(law)


def normalise(events: Iterable[Event]) -> list[Piece]:
    """Check that calls are balanced and that their chunks add up; return the stream without what a split may change.

    Adjacent texts are merged, chunks are folded into their call, and ids are dropped.
    """
    pieces: list[Piece] = []
    call: _Call | None = None
    ids: set[str] = set()
    count = 0
    for event in events:
        match event:
            case Text() | Reasoning():
                _require(call is None, "balanced: text inside a call")
                _require(event.text, "no empty events")
                _append(pieces, "text" if isinstance(event, Text) else "reasoning", event.text)
            case ToolCallStart():
                _require(call is None, "balanced: a call inside a call")
                _require(event.tool_call_id not in ids, "ids are unique")
                _require(event.index == count, "calls are counted from 0")
                _require(event.tool_call_name, "a call has a name")
                ids.add(event.tool_call_id)
                count += 1
                call = _Call(event)
            case ToolCallChunk():
                _require(call, "balanced: a chunk outside a call")
                assert call is not None
                call.chunk(event)
            case ToolCallEnd():
                _require(call, "balanced: an end outside a call")
                assert call is not None
                pieces.append(call.end(event))
                call = None
            case Stop():
                _require(call is None, "balanced: the reply ended inside a call")
                pieces.append({"stop": event.stop_reason})
            case _:
                raise LawBrokenError(f"a parser does not emit {event!r}")
    _require(call is None, "balanced: a call never ended")
    return pieces


class _Call:
    """One call while it streams."""

    def __init__(self, start: ToolCallStart) -> None:
        self._start = start
        self._sent: list[str] = []
        self._reader = PrefixReader()

    def chunk(self, event: ToolCallChunk) -> None:
        self._same(event)
        _require(event.tool_call_arguments_chunk, "no empty events")
        self._reader.feed(event.tool_call_arguments_chunk)
        self._sent.append(event.tool_call_arguments_chunk)

    def end(self, event: ToolCallEnd) -> Piece:
        self._same(event)
        complete = event.tool_call_arguments_complete
        _require(event.tool_call_name == self._start.tool_call_name, "a call keeps its name")
        _require("".join(self._sent) == complete, f"chunks add up: {''.join(self._sent)!r} is not {complete!r}")
        if event.error is None:
            load_object(complete)
            _require(self._reader.complete, "a call without error is complete")
        plain = event_to_dict(event)
        return {
            "call": event.tool_call_name,
            "arguments": complete,
            "coerced": plain["coerced"],
            "error": plain["error"],
        }

    def _same(self, event: ToolCallChunk | ToolCallEnd) -> None:
        _require(event.tool_call_id == self._start.tool_call_id, "balanced: another call's id")
        _require(event.index == self._start.index, "balanced: another call's index")


def _append(pieces: list[Piece], kind: str, text: str) -> None:
    if pieces and kind in pieces[-1]:
        pieces[-1][kind] += text
    else:
        pieces.append({kind: text})


def check_reply(
    text: str,
    stop_reason: StopReason,
    events: Sequence[Event],
    *,
    finished: bool = False,
    offered: Collection[str] | None = None,
    markup: Collection[str] = (),
) -> list[Piece]:
    """Check one whole reply against the laws that need its input, and return it normalised.

    `finished` means that the parser ended the reply by itself and dropped the remainder; `offered` are the tools'
    names; `markup` are the tokens that the dialect drops.
    """
    pieces = normalise(events)
    _require(pieces and "stop" in pieces[-1], "a reply ends with a stop")
    _require(sum("stop" in piece for piece in pieces) == 1, "a reply stops once")
    _require(pieces[-1]["stop"] == _expected_stop(pieces, stop_reason), f"wrong stop reason {pieces[-1]['stop']}")
    _require(
        offered is None or all(piece["call"] in offered for piece in pieces if "call" in piece), "only offered tools"
    )
    _require(is_encodable(pieces), "events are valid Unicode")
    _require(_is_subsequence(emitted_text(pieces), text), "text comes from the input, in order, unchanged")
    tagged = text.lstrip().startswith(tuple(opener for opener, _ in REASONING_TAGS))
    marked = any(token in text for token in markup)
    if not finished and not tagged and not marked and all("text" in piece or "stop" in piece for piece in pieces):
        _require(
            not _loses_text(well_formed(text), emitted_text(pieces)),
            "nothing lost: without a call and reasoning, the text is the input",
        )
    return pieces


_EMPTY_SECTION = re.compile(r"<[|｜][^<>]{1,40}[|｜]>\s*<[|｜][^<>]{1,40}[|｜]>")
_OPENERS = tuple({marker for row in DIALECTS.values() for marker in (*row.openers(), *row.section.openers())})


def _loses_text(text: str, emitted: str) -> bool:
    """Return whether text was lost, beside a section without calls and the start of a call that ends the reply."""
    if text == emitted:
        return False
    text = _EMPTY_SECTION.sub("", text)
    rest = text[len(emitted) :].lstrip()
    return not text.startswith(emitted) or bool(rest and not rest.startswith(_OPENERS))


def executable(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the calls that a client would run."""
    return [piece for piece in pieces if "call" in piece and piece["error"] is None]


def emitted_text(pieces: Iterable[Piece]) -> str:
    """Return all text and reasoning, in order."""
    return "".join(piece.get("text", "") + piece.get("reasoning", "") for piece in pieces)


def is_encodable(pieces: list[Piece]) -> bool:
    """Return whether the stream can be written as UTF-8 JSON, which lone surrogates cannot."""
    try:
        json.dumps(pieces, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _expected_stop(pieces: list[Piece], stop_reason: StopReason) -> StopReason:
    ended_well = stop_reason in ("complete", "stop_sequence", "tool_use")
    if executable(pieces) and ended_well:
        return "tool_use"
    return "complete" if stop_reason == "tool_use" else stop_reason


def well_formed(text: str) -> str:
    """Join surrogate pairs; a lone surrogate becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_subsequence(part: str, whole: str) -> bool:
    """Return whether `part` is `whole` with characters removed."""
    characters = iter(well_formed(whole))
    return part in whole or all(character in characters for character in part)
