"""The upstream's reply: chunks of the API become events.

Rule: every call is complete; partial arguments, which Vertex AI can send, are assembled first. The finish reason STOP
becomes `tool_use` if there were calls. Unknown fields are skipped; a missing one has a neutral default.
"""

import re
from collections.abc import Callable

import msgspec

from fcshim.codecs.choice_reader import ChoiceReader
from fcshim.codecs.json_text import json_reader, read_count, write_json
from fcshim.codecs.single_choice import read_document, upstream_failure
from fcshim.codecs.upstream_errors import find_error_message
from fcshim.events import JSON, Event, Reasoning, StopReason, Text, Usage


class PartialArg(msgspec.Struct, gc=False, rename="camel"):
    """A piece of a call's arguments: a value, or the next characters of a text, at a path."""

    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: JSON = msgspec.UNSET
    will_continue: bool = False


class GeminiFunctionCall(msgspec.Struct, gc=False, rename="camel"):
    """A call, or a piece of one."""

    id: str | None = None
    name: str | None = None
    args: dict[str, JSON] | None = None
    partial_args: list[PartialArg] | None = None
    will_continue: bool = False


class GeminiPart(msgspec.Struct, gc=False, rename="camel"):
    """A part of the model's turn."""

    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: GeminiFunctionCall | None = None


class GeminiContent(msgspec.Struct, gc=False):
    """The model's turn, or what a chunk adds to it."""

    parts: list[GeminiPart] | None = None


class GeminiCandidate(msgspec.Struct, gc=False, rename="camel"):
    """One choice."""

    index: int = 0
    content: GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class GeminiChunk(msgspec.Struct, gc=False, rename="camel"):
    """One chunk of a stream, or a whole reply."""

    candidates: list[GeminiCandidate] | None = None
    usage_metadata: dict[str, JSON] | None = None
    prompt_feedback: dict[str, JSON] | None = None
    error: JSON = None


read_chunk = json_reader(GeminiChunk)
read_chunks = json_reader(list[GeminiChunk])
"""Reads a stream that was not sent as events: one JSON array."""


_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_MAX_DEPTH = 64
"""Steps of a path; the arguments of real calls are much flatter."""


class PartialArguments:
    """Assembles the arguments of one call from pieces, each with its path: `$.city`, `$.days[0].name`.

    A piece that does not fit (a path through a text, a gap in a list) makes the call malformed, never the stream. Lists
    grow by one item at a time, so that no path can create a large one; pieces beyond `max_chars` are dropped.
    """

    def __init__(self, max_chars: int) -> None:
        self._chars_left = max_chars
        self.value: dict[str, JSON] = {}
        self.invalid = False
        self._open_path: str | None = None  # of the text that continues
        self._open_text: list[str] = []

    def add(self, piece: PartialArg) -> None:
        """Add a piece."""
        self._chars_left -= len(piece.json_path) + len(piece.string_value or "")
        if self._chars_left < 0:
            self.invalid = True
            return
        if self._open_path is not None and piece.json_path != self._open_path:
            self.finish()
        if piece.string_value is not None:
            self._open_path = piece.json_path
            self._open_text.append(piece.string_value)
            if not piece.will_continue:
                self.finish()
        else:
            self._assign(piece.json_path, _value(piece))

    def finish(self) -> None:
        """End the open text, if there is one."""
        if self._open_path is not None:
            path, self._open_path = self._open_path, None
            self._assign(path, "".join(self._open_text))
            self._open_text.clear()

    def _assign(self, path: str, value: JSON) -> None:
        steps = _parse_path(path)
        if not steps or isinstance(steps[0], int):
            self.invalid = True
            return
        container: JSON = self.value
        for step, next_step in zip(steps, [*steps[1:], None], strict=True):
            is_last = next_step is None
            container = self._descend(
                container, step, value if is_last else [] if isinstance(next_step, int) else {}, last=is_last
            )
            if self.invalid:
                return

    def _descend(self, container: JSON, step: str | int, new: JSON, *, last: bool) -> JSON:
        """Go one step down, and insert `new` if nothing is there yet."""
        if isinstance(step, str) and isinstance(container, dict):
            if last:
                container[step] = new
            return container.setdefault(step, new)
        if isinstance(step, int) and isinstance(container, list) and step <= len(container):
            if step == len(container):
                container.append(new)
            elif last:
                container[step] = new
            return container[step]
        self.invalid = True
        return None


def _parse_path(path: str) -> list[str | int]:
    """Parse a path; an invalid one gives no steps."""
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and position < len(path) and len(steps) < _MAX_DEPTH:
        match = _STEP.match(path, position)
        if match is None:
            return []
        steps.append(int(match[2]) if match[2] else match[1] or match[3] or match[4] or "")
        position = match.end()
    return steps if position == len(path) else []


def _value(piece: PartialArg) -> JSON:
    return piece.bool_value if piece.number_value is None else piece.number_value


_STOP_REASONS: dict[str, StopReason] = {
    "MAX_TOKENS": "max_tokens",
    **dict.fromkeys(
        (
            "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE",
            "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
        ),
        "content_filter",
    ),
}  # fmt: skip
"""The API's finish reasons; STOP and unknown ones mean a complete reply."""

_FAILURES = frozenset(
    {
        "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE", "OTHER", "NO_IMAGE", "IMAGE_OTHER",
    }
)  # fmt: skip


class GeminiDecoder:
    """Decodes the chunks of one reply."""

    def __init__(self, new_id: Callable[[], str], call_chars: int) -> None:
        self.choice = ChoiceReader(new_id, call_chars)
        self._call_chars = call_chars
        self.done = False
        self._call_count = 0
        self._usage: dict[str, JSON] | None = None
        self._partial_call: tuple[GeminiFunctionCall, PartialArguments] | None = None

    def read(self, document: bytes, out: list[Event], *, whole: bool) -> None:
        """Read one chunk, or a whole reply. Raises `UpstreamError`."""
        if whole and document.startswith(b"["):
            chunks = read_document(document, read_chunks)
        else:
            chunks = [read_document(document, read_chunk)]
        for chunk in chunks:
            self._read_chunk(chunk, out)

    def _read_chunk(self, chunk: GeminiChunk, out: list[Event]) -> None:
        if chunk.error is not None:
            raise upstream_failure(find_error_message({"error": chunk.error}) or "no reason given")
        self._usage = chunk.usage_metadata or self._usage
        for candidate in chunk.candidates or ():
            # The request asks for one candidate.
            if candidate.index == 0 and not self.choice.finished:
                self._read_candidate(candidate, out)
        # A blocked prompt gives no candidates, only this feedback.
        if chunk.prompt_feedback and chunk.prompt_feedback.get("blockReason") and not self.choice.finished:
            self._finish("SAFETY", out)

    def _read_candidate(self, candidate: GeminiCandidate, out: list[Event]) -> None:
        self.choice.started = True
        for part in (candidate.content.parts or ()) if candidate.content else ():
            self._read_part(part, out)
        reason = candidate.finish_reason
        if reason in _FAILURES:
            raise upstream_failure(candidate.finish_message or f"it ended with {reason}")
        if reason and reason != "FINISH_REASON_UNSPECIFIED":
            self._finish(reason, out)

    def _read_part(self, part: GeminiPart, out: list[Event]) -> None:
        if part.thought:
            self.choice.emit_text(Reasoning(part.text or "", part.thought_signature), out)
            return
        if part.thought_signature:
            self.choice.emit_text(Reasoning("", part.thought_signature), out)
        if part.text:
            self.choice.emit_text(Text(part.text), out)
        if part.function_call is not None:
            self._read_call(part.function_call, out)

    def _read_call(self, call: GeminiFunctionCall, out: list[Event]) -> None:
        """Read a call. One in pieces is assembled until its last piece arrives."""
        if self._partial_call is None and not (call.partial_args or call.will_continue):
            self._add_call(call.id, call.name, write_json(call.args or {}).decode(), out)
            return
        first_piece, arguments = self._partial_call or (call, PartialArguments(self._call_chars))
        for piece in call.partial_args or ():
            arguments.add(piece)
        self._partial_call = (first_piece, arguments)
        if not call.will_continue:
            self._end_partial_call(out)

    def _end_partial_call(self, out: list[Event], *, truncated: bool = False) -> None:
        if self._partial_call is None:
            return
        first_piece, arguments = self._partial_call
        self._partial_call = None
        arguments.finish()
        text = write_json(arguments.value).decode()
        # Without its last brace, an incomplete call is malformed and cannot pass for a complete one.
        self._add_call(first_piece.id, first_piece.name, text[:-1] if truncated or arguments.invalid else text, out)

    def _add_call(self, call_id: str | None, name: str | None, arguments: str, out: list[Event]) -> None:
        self.choice.read_call(self._call_count, out, call_id=call_id, name=name, arguments=arguments)
        self._call_count += 1

    def _finish(self, reason: str, out: list[Event]) -> None:
        self._end_partial_call(out, truncated=True)
        self.choice.finish(_STOP_REASONS.get(reason, "complete"), out, read_usage(self._usage) if self._usage else None)


def read_usage(usage: dict[str, JSON]) -> Usage:
    """Read token counts; one that is missing or not a number counts as 0."""
    thought_tokens = read_count(usage, "thoughtsTokenCount")
    return Usage(
        input_tokens=read_count(usage, "promptTokenCount") + read_count(usage, "toolUsePromptTokenCount"),
        output_tokens=read_count(usage, "candidatesTokenCount") + thought_tokens,
        cached_tokens=read_count(usage, "cachedContentTokenCount"),
        reasoning_tokens=thought_tokens,
    )
