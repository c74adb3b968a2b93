"""Decoding the upstream's reply: the bytes of a stream, or of one JSON body, become events.

Rule: a choice ends with one `Stop` if its finish_reason came, else with one `Error`. The first significant byte decides
the format: `{` or `[` is JSON (some upstreams ignore `stream: true`), `<` a web page, anything else a stream.
"""

from collections.abc import Callable

import msgspec

from fcshim.codecs.openai_chat.choice_reader import ChoiceReader
from fcshim.codecs.openai_chat.chunk_pattern import ChunkPattern, ChunkPatternFinder, read_string
from fcshim.codecs.openai_chat.wire import ChatChoice, ChatChunk, ChatDelta, read_chunk
from fcshim.codecs.sse import LINE_BYTES, SSESplitter
from fcshim.codecs.upstream_errors import error_kind, excerpt, find_error_message
from fcshim.errors import UpstreamError
from fcshim.events import JSON, Error, Event, Text, Usage

_HEAD_BYTES = 4096


class DecoderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one upstream reply."""

    line_bytes: int = LINE_BYTES
    """Bytes of one event of the stream, or of one whole JSON body."""
    call_chars: int = LINE_BYTES
    """Characters of the arguments of one native call: as many as one event may have."""
    choices: int = 128
    """The limit of OpenAI's own API for `n`."""


class ChatDecoder:
    """Decodes one upstream reply; its bytes may be split anywhere."""

    __slots__ = (
        "_body",
        "_choices",
        "_done",
        "_head",
        "_limits",
        "_new_id",
        "_pattern",
        "_pattern_finder",
        "_sse",
        "_streaming",
    )

    def __init__(self, new_id: Callable[[], str], limits: DecoderLimits) -> None:
        self._new_id = new_id
        self._limits = limits
        self._sse = SSESplitter(line_bytes=limits.line_bytes)
        self._choices: dict[int, ChoiceReader] = {}
        self._head = bytearray()
        self._body: bytearray | None = None
        self._streaming = False
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
        if self._done:
            return out
        if self._streaming:
            self._feed_stream(data, out)
            self._pattern = self._find_pattern(data)
        elif self._body is not None:
            self._buffer_body(data, out)
        else:
            self._detect_format(data, out)
        return out

    def close(self) -> list[tuple[int, Event]]:
        """Handle the end of the body; return the remaining events, an `Error` for each unfinished choice."""
        out: list[tuple[int, Event]] = []
        if self._done:
            return out
        if self._body is not None:
            self._read_body(bytes(self._body), out)
        else:
            self._close_stream(out)
        return out

    def _find_pattern(self, data: bytes) -> ChunkPattern | None:
        """Return the pattern by which `feed` may recognise the next read as text alone, judging by this read."""
        if self._done or not self._sse.is_plain_event(data):
            return None
        pattern = self._pattern_finder.find(data)
        reader = None if pattern is None else self._choices.get(pattern.choice)
        return pattern if reader is not None and reader.accepts_text else None

    def _detect_format(self, data: bytes, out: list[tuple[int, Event]]) -> None:
        """Decide the format by the first significant byte, once it has come."""
        self._head += data
        start = bytes(self._head[:_HEAD_BYTES]).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start and len(self._head) < _HEAD_BYTES:
            return
        data, self._head = bytes(self._head), self._head[:_HEAD_BYTES]
        if start[:1] in (b"{", b"[", b"<"):
            self._body = bytearray()
            self._buffer_body(data, out)
        elif start not in (b"\xef", b"\xef\xbb"):
            self._streaming = True
            self._head.clear()
            self._feed_stream(data, out)
        else:  # a byte order mark that is split between two reads
            self._head = bytearray(data)

    def _buffer_body(self, data: bytes, out: list[tuple[int, Event]]) -> None:
        assert self._body is not None
        self._body += data
        if len(self._body) > self._limits.line_bytes:
            self._fail(f"the upstream's reply is longer than {self._limits.line_bytes} bytes", out)

    def _feed_stream(self, data: bytes, out: list[tuple[int, Event]]) -> None:
        if len(self._head) < _HEAD_BYTES and not self._choices:
            self._head += data[:_HEAD_BYTES]
        try:
            payloads = self._sse.feed(data)
        except UpstreamError as error:
            self._fail(error.message, out)
            return
        for payload in payloads:
            self._read_payload(payload, out)
            if self._done:
                return

    def _read_payload(self, payload: bytes, out: list[tuple[int, Event]]) -> None:
        if payload.startswith(b"[DONE]"):
            self._end(out)
            return
        chunk = read_chunk(payload)
        if chunk is None:
            self._fail(f"the upstream sent malformed JSON: {excerpt(payload)}", out)
        elif chunk.error is not None or chunk.choices is None:
            self._read_without_choices(chunk, payload, out)
        else:
            self._read_chunk(chunk, out)

    def _read_without_choices(self, chunk: ChatChunk, payload: bytes, out: list[tuple[int, Event]]) -> None:
        """Read a chunk without choices: an error, a usage report, or an extension that is ignored."""
        problem = (
            find_error_message(msgspec.json.decode(payload))
            if _is_json(payload)
            else find_error_message({"error": chunk.error})
        )
        if problem:
            self._fail(f"the upstream failed: {problem}", out, error_kind(problem))
        else:
            self._read_chunk(chunk, out)

    def _read_chunk(self, chunk: ChatChunk, out: list[tuple[int, Event]]) -> None:
        for choice in chunk.choices or ():
            self._read_choice(choice, choice.delta, out, whole=False)
            if self._done:
                return
        if chunk.usage:
            out.append((0, read_usage(chunk.usage)))

    def _read_choice(
        self, choice: ChatChoice, delta: ChatDelta | None, out: list[tuple[int, Event]], *, whole: bool
    ) -> None:
        index = choice.index
        reader = self._choices.get(index)
        if reader is None:
            if not 0 <= index < self._limits.choices:
                self._fail(f"the upstream sent a choice with index {index}", out)
                return
            reader = self._choices[index] = ChoiceReader(self._new_id, self._limits.call_chars)
        if reader.finished:
            return
        events: list[Event] = []
        if delta is not None:
            reader.read(delta, events, whole=whole)
        if choice.finish_reason or whole:
            reader.finish(choice.finish_reason or "stop", choice.stop_reason, events)
        out.extend([(index, event) for event in events])

    def _read_body(self, body: bytes, out: list[tuple[int, Event]]) -> None:
        """Read the body of an upstream that did not stream."""
        body = body.removeprefix(b"\xef\xbb\xbf")
        if body.lstrip()[:1] == b"<":
            self._fail(f"the upstream answered with {excerpt(body)} instead of a reply", out)
            return
        chunk = read_chunk(body)
        if chunk is None:
            self._fail(f"the upstream sent malformed JSON: {excerpt(body)}", out)
        elif not chunk.choices or chunk.error is not None:
            problem = find_error_message(msgspec.json.decode(body)) if _is_json(body) else ""
            self._fail(f"the upstream failed: {problem or excerpt(body)}", out, error_kind(problem))
        else:
            self._read_messages(chunk, out)

    def _read_messages(self, chunk: ChatChunk, out: list[tuple[int, Event]]) -> None:
        for choice in chunk.choices or ():
            self._read_choice(choice, choice.message or choice.delta, out, whole=True)
        if chunk.usage and not self._done:
            out.append((0, read_usage(chunk.usage)))
        self._done = True

    def _close_stream(self, out: list[tuple[int, Event]]) -> None:
        """Read a last event whose closing blank line is missing; an incomplete event is dropped."""
        try:
            payloads = self._sse.close()
        except UpstreamError as error:
            self._fail(error.message, out)
            return
        for payload in payloads:
            if payload.startswith(b"[DONE]") or read_chunk(payload) is not None:
                self._read_payload(payload, out)
        if not self._done:
            self._end(out)

    def _end(self, out: list[tuple[int, Event]]) -> None:
        if not self._choices:
            head = excerpt(bytes(self._head))
            self._fail(
                f"the upstream's reply holds no answer: {head}" if head else "the upstream's reply is empty", out
            )
        else:
            self._fail("the upstream's reply broke off: it ended without a finish_reason", out)

    def _fail(self, message: str, out: list[tuple[int, Event]], kind: str = UpstreamError.kind) -> None:
        """End the reply: every unfinished choice ends with an error."""
        self._done = True
        error = Error(kind, message)
        if not self._choices:
            out.append((0, error))
        for index, reader in self._choices.items():
            if not reader.finished:
                events: list[Event] = []
                reader.fail(error, events)
                out.extend([(index, event) for event in events])


def read_usage(usage: dict[str, JSON]) -> Usage:
    """Read token counts; a count that is missing or not a positive integer is 0."""
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        input_tokens=_token_count(usage, "prompt_tokens"),
        output_tokens=_token_count(usage, "completion_tokens"),
        cached_tokens=_token_count(prompt, "cached_tokens") or _token_count(usage, "prompt_cache_hit_tokens"),
        reasoning_tokens=_token_count(completion, "reasoning_tokens"),
    )


def _token_count(counts: JSON, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def _is_json(payload: bytes) -> bool:
    try:
        msgspec.json.decode(payload)
    except (ValueError, RecursionError):
        return False
    return True
