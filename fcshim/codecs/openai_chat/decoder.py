"""Decoding the upstream's reply: the bytes of a stream, or of one JSON body, become events.

Rule: a choice ends with one `Stop` if its finish_reason came, else with one `Error`. The first significant byte decides
the format: `{` or `[` is JSON (some upstreams ignore `stream: true`), `<` a web page, anything else a stream.

In nearly every stream all chunks of text are equal except for the text. Once the prefix and suffix of two chunks in a
row are equal, the decoder parses only the string between them. Such a pattern is verified before it is used: whatever
JSON string stands between prefix and suffix, the chunk contains that text and nothing else.
"""

import re
from collections.abc import Callable

import msgspec

from fcshim.codecs.choice_reader import ChoiceReader
from fcshim.codecs.framing import Framing
from fcshim.codecs.json_text import DecoderLimits, is_json, json_reader, read_count
from fcshim.codecs.prompt_progress import PromptProgress, read_progress
from fcshim.codecs.single_choice import upstream_failure
from fcshim.codecs.upstream_errors import error_kind, excerpt, find_error_message
from fcshim.errors import UpstreamError
from fcshim.events import JSON, Error, Event, Reasoning, StopReason, Text, Usage

# The upstream's JSON: only the fields that become events. Unknown fields are skipped, missing ones have no effect.


class FunctionDelta(msgspec.Struct, gc=False):
    """Part of a call; `arguments` is an object where the upstream did not encode it as a string."""

    name: str | None = None
    arguments: str | dict[str, JSON] | None = None


class ToolCallDelta(msgspec.Struct, gc=False):
    """Part of one of several calls."""

    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class ChatDelta(msgspec.Struct, gc=False):
    """The delta of a choice, or a whole message."""

    content: str | list[JSON] | None = None
    reasoning_content: str | None = None
    reasoning: JSON = None
    refusal: str | None = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionDelta | None = None


class ChatChoice(msgspec.Struct, gc=False):
    """One choice of a chunk (`delta`), of a whole reply (`message`), or of a text completion (`text`)."""

    index: int = 0
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: JSON = None


class ChatChunk(msgspec.Struct, gc=False):
    """One chunk of a stream, or one whole reply."""

    choices: list[ChatChoice] | None = None
    usage: dict[str, JSON] | None = None
    error: JSON = None
    prompt_progress: JSON = None


class PlainDelta(msgspec.Struct, gc=False):
    """A delta with text and no other field that becomes an event."""

    content: str | None = None
    reasoning_content: None = None
    reasoning: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class PlainChoice(msgspec.Struct, gc=False):
    """A choice with a text delta."""

    delta: PlainDelta
    index: int = 0
    finish_reason: str | None = None


class PlainChunk(msgspec.Struct, gc=False):
    """A chunk with text only; its types reject every other chunk, which is then read as a `ChatChunk`."""

    choices: list[PlainChoice]
    usage: None = None
    error: None = None


read_chunk = json_reader(ChatChunk)
"""Reads one chunk; None where the payload is not JSON or has another shape."""

_decode_plain = msgspec.json.Decoder(PlainChunk).decode


def read_plain_chunk(payload: bytes) -> PlainChunk | None:
    """Read a chunk with text only; None for any other."""
    try:
        return _decode_plain(payload)
    except (ValueError, RecursionError):
        return None


_CONTENT_FIELD = re.compile(rb'"content" ?: ?"')


class ChunkPattern(msgspec.Struct, frozen=True, gc=False):
    """`data[start:stop]` is the JSON string with the text if `data` starts with `prefix` and ends with `suffix`.

    Prefix and suffix include the quotation marks, so that if they overlap in `data` the slice is not a JSON string.
    """

    prefix: bytes
    suffix: bytes
    start: int
    stop: int
    choice: int


read_string = msgspec.json.Decoder(str).decode
"""Read one JSON string. Raises `ValueError`."""


class ChunkPatternFinder:
    """Finds the pattern of one stream: two successive chunks with the same prefix and suffix."""

    __slots__ = ("_last_affixes", "_pattern")

    def __init__(self) -> None:
        self._last_affixes = (b"", b"")
        self._pattern: ChunkPattern | None = None

    def find(self, data: bytes) -> ChunkPattern | None:
        """Look at an event of one line; return the pattern if it has the same prefix and suffix as the last event.

        The pattern is created if a change of the string changes the chunk's content: then the string is the content.
        This rejects a `content` field elsewhere in the chunk, one that a repeated field overrides, and the wrong suffix
        that an escaped quotation mark inside the text gives.
        """
        found = _CONTENT_FIELD.search(data)
        end = data.find(b'"', found.end()) if found is not None else -1
        if found is None or end < 0:
            return None
        affixes = prefix, suffix = data[: found.end()], data[end:]
        if affixes != self._last_affixes:
            self._last_affixes, self._pattern = affixes, None
        elif self._pattern is None:
            original, longer = _read_text_only(data), _read_text_only(data[:end] + b"." + suffix)
            if original is not None and longer is not None and longer[1] == original[1] + ".":
                self._pattern = ChunkPattern(prefix, suffix, len(prefix) - 1, 1 - len(suffix), original[0])
        return self._pattern


def _read_text_only(event: bytes) -> tuple[int, str] | None:
    """Return choice index and text of a chunk that contains nothing else."""
    chunk = read_plain_chunk(event[6:-2])
    if chunk is None or len(chunk.choices) != 1:
        return None
    (choice,) = chunk.choices
    if choice.finish_reason is not None or choice.delta.content is None:
        return None
    return choice.index, choice.delta.content


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

    __slots__ = ("_choices", "_done", "_framing", "_limits", "_new_id", "_pattern", "_pattern_finder", "progress")

    def __init__(self, new_id: Callable[[], str], limits: DecoderLimits) -> None:
        self._new_id = new_id
        self._limits = limits
        self._framing = Framing(line_bytes=limits.line_bytes)
        self._choices: dict[int, ChoiceReader] = {}
        self._done = False
        self._pattern_finder = ChunkPatternFinder()
        self._pattern: ChunkPattern | None = None
        self.progress: PromptProgress | None = None

    @property
    def ended(self) -> bool:
        """Whether `[DONE]`, or an error, has come."""
        return self._done

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
                    if self.ended:  # nothing counts after `[DONE]`
                        break
                    (self._read_whole if self._framing.whole else self._read_document)(document, out)
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
        if not self._done:
            self._end()

    def _read_document(self, document: bytes, out: list[tuple[int, Event]]) -> None:
        """Read one document of a stream. Raises `UpstreamError`."""
        if document.startswith(b"[DONE]"):
            self._end()
            return
        chunk = read_chunk(document)
        if chunk is None:
            raise UpstreamError(f"the upstream sent malformed JSON: {excerpt(document)}")
        if chunk.error is not None or chunk.choices is None:  # an error, or a usage, or an unknown extension
            reported = msgspec.json.decode(document) if is_json(document) else {"error": chunk.error}
            if problem := find_error_message(reported):
                raise upstream_failure(problem)
        if chunk.prompt_progress is not None:
            self.progress = read_progress(chunk.prompt_progress)
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
        reader = self._choices.get(choice.index)
        if reader is None:
            if not 0 <= choice.index < self._limits.choices:
                raise UpstreamError(f"the upstream sent a choice with index {choice.index}")
            reader = self._choices[choice.index] = ChoiceReader(self._new_id, self._limits.call_chars)
        if reader.finished:
            return
        delta = (choice.message or choice.delta) if whole else choice.delta
        events: list[Event] = []
        if delta is not None:
            _read_delta(reader, delta, events, whole=whole)
        elif choice.text:
            reader.emit_text(Text(choice.text), events)
        if choice.finish_reason or whole:
            reader.finish(_stop_reason(choice), events)
        out.extend([(choice.index, event) for event in events])

    def _end(self) -> None:
        """End the reply. Raises the error of the choices that are unfinished, or of a reply without choices."""
        if self._choices and all(reader.finished for reader in self._choices.values()):
            self._done = True
            return
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
        content = delta.content or ""
        if isinstance(content, list):  # of parts, from some upstreams
            texts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "".join(text for text in texts if isinstance(text, str))
        reader.emit_text(Text(content + (delta.refusal or "")), out)
    if delta.tool_calls:
        for position, call in enumerate(delta.tool_calls):
            key = position if whole and call.index is None else call.index
            function = call.function or FunctionDelta()
            reader.read_call(key, out, call_id=call.id, name=function.name, arguments=function.arguments)
    # llama-cpp-python repeats the call as a legacy `function_call`, which is ignored once another call has begun.
    elif delta.function_call and not reader.has_calls_beside("function_call"):
        function = delta.function_call
        reader.read_call("function_call", out, name=function.name, arguments=function.arguments)


def _stop_reason(choice: ChatChoice) -> StopReason:
    """Return the stop reason; `choice.stop_reason` is the stop string that matched, or null."""
    finish = choice.finish_reason or "stop"
    if finish == "stop" and isinstance(choice.stop_reason, str):
        return "stop_sequence"
    return _STOP_REASONS.get(finish, "complete")


def read_usage(usage: dict[str, JSON]) -> Usage:
    """Read token counts; a count that is missing or not a positive integer is 0."""
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        input_tokens=read_count(usage, "prompt_tokens"),
        output_tokens=read_count(usage, "completion_tokens"),
        cached_tokens=read_count(prompt, "cached_tokens") or read_count(usage, "prompt_cache_hit_tokens"),
        reasoning_tokens=read_count(completion, "reasoning_tokens"),
    )
