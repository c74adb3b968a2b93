"""Decoding the upstream's reply: the bytes of a stream, or of one JSON body, become events.

Rule: a choice ends with one `Stop` if its finish_reason came, else with one `Error`. The first significant byte decides
the format: `{` or `[` is JSON (some upstreams ignore `stream: true`), `<` a web page, anything else a stream.
"""

from collections.abc import Callable
from typing import NoReturn

import msgspec

from fcshim.codecs.choice_reader import ChoiceReader
from fcshim.codecs.fields import read_count
from fcshim.codecs.framing import Framing
from fcshim.codecs.json_text import is_json
from fcshim.codecs.limits import DecoderLimits
from fcshim.codecs.openai_chat.chunk_pattern import ChunkPattern, ChunkPatternFinder, read_string
from fcshim.codecs.openai_chat.wire import ChatChoice, ChatChunk, ChatDelta, FunctionDelta, read_chunk
from fcshim.codecs.single_choice import upstream_failure
from fcshim.codecs.upstream_errors import error_kind, excerpt, find_error_message
from fcshim.errors import UpstreamError
from fcshim.events import JSON, Error, Event, Reasoning, StopReason, Text, Usage

_STOP_REASONS: dict[str, StopReason] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "content_filter",
    "error": "error",
    "abort": "error",
}
"""Finish reasons of OpenAI and compatible servers; any other means that the reply is complete."""


class ChatDecoder:
    """Decodes one upstream reply; its bytes may be split anywhere."""

    __slots__ = ("_choices", "_done", "_framing", "_limits", "_new_id", "_pattern", "_pattern_finder")

    def __init__(self, new_id: Callable[[], str], limits: DecoderLimits) -> None:
        self._new_id = new_id
        self._limits = limits
        self._framing = Framing(line_bytes=limits.line_bytes)
        self._choices: dict[int, ChoiceReader] = {}
        self._done = False
        self._pattern_finder = ChunkPatternFinder()
        self._pattern: ChunkPattern | None = None

    def feed(self, data: bytes) -> list[tuple[int, Event]]:
        """Take the next bytes of the body; return the events that they complete, each with its choice index."""
        # Fast path: nearly every read is one chunk of text that differs from the last one only in its text.
        pattern = self._pattern
        if pattern is not None and data.startswith(pattern.prefix) and data.endswith(pattern.suffix):
            try:
                text = read_string(data[pattern.start : pattern.stop])
            except ValueError:
                return self._feed(data)
            if text:
                return [(pattern.choice, Text(text))]
        return self._feed(data)

    def _feed(self, data: bytes) -> list[tuple[int, Event]]:
        out: list[tuple[int, Event]] = []
        if not self._done:
            try:
                for document in self._framing.feed(data):
                    self._read_document(document, out)
                self._pattern = self._find_pattern(data)
            except UpstreamError as error:
                self._fail(error, out)
        return out

    def close(self) -> list[tuple[int, Event]]:
        """Handle the end of the body; return the remaining events, an `Error` for each unfinished choice."""
        out: list[tuple[int, Event]] = []
        if not self._done:
            try:
                self._read_end(out)
            except UpstreamError as error:
                self._fail(error, out)
        return out

    def _find_pattern(self, data: bytes) -> ChunkPattern | None:
        """Return the pattern by which `feed` may recognise the next read as text alone, judging by this read."""
        if not self._framing.sse.is_plain_event(data):
            return None
        pattern = self._pattern_finder.find(data)
        reader = None if pattern is None else self._choices.get(pattern.choice)
        return pattern if reader is not None and reader.accepts_text else None

    def _read_end(self, out: list[tuple[int, Event]]) -> None:
        """Read a whole body, or a last event whose closing blank line is missing; an incomplete event is dropped."""
        for document in self._framing.close():
            if self._framing.whole:
                self._read_whole(document, out)
                return
            if document.startswith(b"[DONE]") or read_chunk(document) is not None:
                self._read_document(document, out)
        self._end()

    def _read_document(self, document: bytes, out: list[tuple[int, Event]]) -> None:
        """Read one document of a stream. Raises `UpstreamError`, also for the end of the reply."""
        if document.startswith(b"[DONE]"):
            self._end()
        chunk = read_chunk(document)
        if chunk is None:
            raise UpstreamError(f"the upstream sent malformed JSON: {excerpt(document)}")
        if (chunk.error is not None or chunk.choices is None) and (problem := _find_problem(chunk, document)):
            raise upstream_failure(problem)
        self._read_choices(chunk, out, whole=False)

    def _read_whole(self, body: bytes, out: list[tuple[int, Event]]) -> None:
        """Read the body of an upstream that did not stream."""
        chunk = read_chunk(body)
        if chunk is None:
            raise UpstreamError(f"the upstream sent malformed JSON: {excerpt(body)}")
        if not chunk.choices or chunk.error is not None:
            problem = find_error_message(msgspec.json.decode(body)) if is_json(body) else ""
            raise UpstreamError(f"the upstream failed: {problem or excerpt(body)}", kind=error_kind(problem))
        self._read_choices(chunk, out, whole=True)
        self._done = True

    def _read_choices(self, chunk: ChatChunk, out: list[tuple[int, Event]], *, whole: bool) -> None:
        for choice in chunk.choices or ():
            self._read_choice(choice, out, whole=whole)
        if chunk.usage:
            out.append((0, read_usage(chunk.usage)))

    def _read_choice(self, choice: ChatChoice, out: list[tuple[int, Event]], *, whole: bool) -> None:
        reader = self._choices.get(choice.index) or self._begin_choice(choice.index)
        if reader.finished:
            return
        delta = (choice.message or choice.delta) if whole else choice.delta
        events: list[Event] = []
        if delta is not None:
            _read_delta(reader, delta, events, whole=whole)
        if choice.finish_reason or whole:
            reader.finish(_stop_reason(choice), events)
        out.extend([(choice.index, event) for event in events])

    def _begin_choice(self, index: int) -> ChoiceReader:
        if not 0 <= index < self._limits.choices:
            raise UpstreamError(f"the upstream sent a choice with index {index}")
        reader = self._choices[index] = ChoiceReader(self._new_id, self._limits.call_chars)
        return reader

    def _end(self) -> NoReturn:
        """End the reply. Raises the error of the choices that are unfinished, or of a reply without choices."""
        if self._choices:
            raise UpstreamError("the upstream's reply broke off: it ended without a finish_reason")
        head = self._framing.excerpt()
        raise UpstreamError(
            f"the upstream's reply holds no answer: {head}" if head else "the upstream's reply is empty"
        )

    def _fail(self, failure: UpstreamError, out: list[tuple[int, Event]]) -> None:
        """End the reply: every unfinished choice ends with an error."""
        self._done = True
        self._pattern = None
        error = Error(failure.kind, failure.message)
        if not self._choices:
            out.append((0, error))
        for index, reader in self._choices.items():
            if not reader.finished:
                events: list[Event] = []
                reader.fail(error, events)
                out.extend([(index, event) for event in events])


def _read_delta(reader: ChoiceReader, delta: ChatDelta, out: list[Event], *, whole: bool) -> None:
    """Read one delta, or the message of a `whole` reply, whose calls have no indexes."""
    reasoning = delta.reasoning_content or delta.reasoning
    if reasoning and isinstance(reasoning, str):
        reader.emit_text(Reasoning(reasoning), out)
    if delta.content or delta.refusal:
        reader.emit_text(Text(_content_text(delta.content) + (delta.refusal or "")), out)
    if delta.tool_calls:
        for position, call in enumerate(delta.tool_calls):
            key = position if whole and call.index is None else call.index
            function = call.function or FunctionDelta()
            reader.read_call(key, out, call_id=call.id, name=function.name, arguments=function.arguments)
    # llama-cpp-python repeats the call as a legacy `function_call`, which is ignored once another call has begun.
    elif delta.function_call and not reader.has_calls_beside("function_call"):
        function = delta.function_call
        reader.read_call("function_call", out, name=function.name, arguments=function.arguments)


def _content_text(content: str | list[JSON] | None) -> str:
    """Return the text of a message's content, which some upstreams send as a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return content or ""


def _stop_reason(choice: ChatChoice) -> StopReason:
    """Return the stop reason; `choice.stop_reason` is the stop string that matched, or null."""
    finish = choice.finish_reason or "stop"
    if finish == "stop" and isinstance(choice.stop_reason, str):
        return "stop_sequence"
    return _STOP_REASONS.get(finish, "complete")


def _find_problem(chunk: ChatChunk, document: bytes) -> str:
    """Return what a chunk without choices reports: an error, or nothing for usage and unknown extensions."""
    return find_error_message(msgspec.json.decode(document) if is_json(document) else {"error": chunk.error})


def read_usage(usage: dict[str, JSON]) -> Usage:
    """Read token counts; a count that is missing or not a positive integer is 0."""
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        input_tokens=read_count(usage, "prompt_tokens"),
        output_tokens=read_count(usage, "completion_tokens"),
        cached_tokens=read_count(prompt, "cached_tokens") or read_count(usage, "prompt_cache_hit_tokens"),
        reasoning_tokens=read_count(completion, "reasoning_tokens"),
    )
