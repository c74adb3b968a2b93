"""Finds how the parser read each character of a text, for the colours of the page.

Rule: the text is fed in single characters, so that the position of each event is known; events are the same for every
split (law 1). A character that is part of no event belongs to a marker if it is beside a call; otherwise it was
dropped. Arguments that differ from the text were repaired.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from fcshim.config import ModelConfig
from fcshim.dispatch import make_shim
from fcshim.errors import FcshimError
from fcshim.events import Event, Reasoning, StopReason, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import Request, Tool
from fcshim.parse.stream import StreamParser

SpanKind = Literal["text", "reasoning", "marker", "name", "arguments", "repaired", "dropped"]

MAX_TEXT = 1_000_000
"""Characters that are parsed for the page; a longer text is cut."""
_MAX_STEPS = 50_000
"""Times that the parser is fed; a longer text is fed in larger pieces, and its places are less exact."""


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A part of the text and what it became."""

    start: int
    end: int
    kind: SpanKind


def find_spans(parser: StreamParser, text: str, stop_reason: StopReason = "complete") -> list[Span]:
    """Parse a text; return spans that cover it."""
    spans = _Spans(text)
    step = max(1, -(-len(text) // _MAX_STEPS))
    for end, event in fed_events(parser, text, step, stop_reason):
        spans.add(event, end)
    return spans.close()


def fed_events(parser: StreamParser, text: str, step: int, stop_reason: StopReason) -> Iterator[tuple[int, Event]]:
    """Feed a text in pieces of `step` characters; yield each event, and after how many characters it came."""
    for start in range(0, len(text), step):
        for event in parser.feed(text[start : start + step]):
            yield min(start + step, len(text)), event
        if parser.finished:
            break
    for event in parser.close(stop_reason):
        yield len(text), event


class _Spans:
    """Finds the place of each event in the text, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._cursor = 0
        self._spans: list[Span] = []
        self._at_call = False

    def add(self, event: Event, end: int) -> None:
        """Find the place of the next event, which came after `end` characters."""
        match event:
            case Text() if event.text:
                self._place(event.text, end, "text")
                self._at_call = False
            case Reasoning() if event.text:
                self._place(event.text, end, "reasoning")
                self._at_call = False
            case ToolCallStart():
                self._at_call = True
                self._place(event.tool_call_name, end, "name")
            case ToolCallChunk() if event.tool_call_arguments_chunk:
                self._place(event.tool_call_arguments_chunk, end, "arguments")
            case ToolCallEnd() if event.error is not None:
                self._append(end, "dropped")
            case _:
                pass

    def close(self) -> list[Span]:
        """Return all spans."""
        self._append(len(self._text), self._gap)
        return self._spans

    @property
    def _gap(self) -> SpanKind:
        return "marker" if self._at_call else "dropped"

    def _place(self, content: str, end: int, kind: SpanKind) -> None:
        start = end - len(content)
        if start < self._cursor or not self._text.startswith(content, start):
            start = self._text.find(content, self._cursor, end)
        if start >= 0:
            self._append(start, "marker" if kind == "name" else self._gap)
            self._append(start + len(content), kind)
        elif kind == "arguments":
            self._append(end, "repaired")

    def _append(self, end: int, kind: SpanKind) -> None:
        if end <= self._cursor:
            return
        if self._spans and self._spans[-1].kind == kind:
            self._spans[-1] = Span(self._spans[-1].start, end, kind)
        else:
            self._spans.append(Span(self._cursor, end, kind))
        self._cursor = end


Segment = tuple[int, SpanKind, str]
"""The number of the chunk in which it came, what it became, and its text."""


def segments(text: str, spans: Sequence[Span], chunk_ends: Sequence[int]) -> list[Segment]:
    """Cut a text at the borders of its spans and of its chunks, whose ends are given."""
    result: list[Segment] = []
    chunk = 0
    for span in spans:
        start = span.start
        while start < span.end:
            while chunk < len(chunk_ends) - 1 and chunk_ends[chunk] <= start:
                chunk += 1
            is_last = chunk >= len(chunk_ends) - 1
            end = span.end if is_last else min(span.end, chunk_ends[chunk])
            result.append((chunk, span.kind, text[start:end]))
            start = end
    return result


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
