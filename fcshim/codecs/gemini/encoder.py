"""The client's stream: events become chunks of the API, as server-sent events or as one JSON array.

Rule: a call is one part, written when it has ended without error; a failed call is never written. The last chunk of a
choice has the finish reason, the usage and an empty text: Google's Python SDK drops a turn without parts from its
history.
"""

from collections.abc import Sequence
from typing import assert_never

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.gemini.options import GeminiClientOptions
from fcshim.codecs.gemini.reply import call_part, finish_fields, usage_dict, with_signature, write_error
from fcshim.codecs.json_text import write_json
from fcshim.codecs.outcome import FAILED, UNFINISHED, CallOutcomes
from fcshim.codecs.sse import EVENT_STREAM, write_data
from fcshim.errors import UpstreamError
from fcshim.events import (
    JSON,
    Error,
    Event,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.messages import Request


class _CandidateState:
    """State of one candidate: a signature that waits for its part, and the outcomes of its calls."""

    __slots__ = ("chunk_prefix", "chunk_suffix", "outcomes", "signature", "stopped")

    def __init__(self, index: int, chunk_suffix: bytes) -> None:
        self.signature = ""
        self.outcomes = CallOutcomes()
        self.stopped = False
        self.chunk_prefix = b'{"candidates":[{"content":{"parts":['
        self.chunk_suffix = b'],"role":"model"},"index":%d}]%s' % (index, chunk_suffix)


class GeminiEncoder:
    """Writes one streamed reply for the client."""

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        options = GeminiClientOptions.of(request)
        self.content_type = "application/json; charset=UTF-8" if options.array else EVENT_STREAM
        self._array = options.array
        self._thoughts = options.thoughts
        self._reply_fields = {"modelVersion": identity.model, "responseId": identity.id}
        self._chunk_suffix = b"," + write_json(self._reply_fields)[1:]
        self._candidates: dict[int, _CandidateState] = {}
        self._usage: Usage | None = None
        self._array_started = False
        self._done = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events of one choice."""
        if self._done or not events:
            return b""
        out: list[bytes] = []
        candidate = self._candidates.get(choice)
        if candidate is None:
            candidate = self._candidates[choice] = _CandidateState(choice, self._chunk_suffix)
        for event in events:
            final_error = self._write(event, candidate, choice, out)
            if final_error is not None:
                self._fail(final_error, out)
                break
        return b"".join(out)

    def close(self) -> bytes:
        """Return the clean end of the stream; an error if a choice has not ended; nothing after an error."""
        if self._done:
            return b""
        out: list[bytes] = []
        if not self._candidates or not all(candidate.stopped for candidate in self._candidates.values()):
            self._fail(UNFINISHED, out)
        elif self._array:
            out.append(b"]")
        self._done = True
        return b"".join(out)

    def ping(self) -> bytes:
        """Return an empty line: Google's SDKs fail on anything else that is not a reply, comments included."""
        return b"\n"

    def _write(self, event: Event, candidate: _CandidateState, index: int, out: list[bytes]) -> Error | None:
        """Write one event; return the error that must end the stream, if there is one."""
        match event:
            case Text():
                self._write_part({"text": event.text}, candidate, out)
            case Reasoning():
                self._write_reasoning(event, candidate, out)
            case ToolCallStart() | ToolCallChunk():
                pass
            case ToolCallEnd():
                candidate.outcomes.record(event)
                if event.error is None:
                    self._write_part(call_part(event), candidate, out)
            case Usage():
                self._usage = event
            case Stop():
                return self._write_stop(event, candidate, index, out)
            case Error():
                return event
            case _:
                assert_never(event)
        return None

    def _write_reasoning(self, event: Reasoning, candidate: _CandidateState, out: list[bytes]) -> None:
        """Write a thought if the client requested thoughts.

        A signature is attached to the next part, of whatever kind.
        """
        if event.text and self._thoughts:
            self._write_chunk(
                candidate.chunk_prefix + write_json({"text": event.text, "thought": True}) + candidate.chunk_suffix, out
            )
        candidate.signature = event.signature or candidate.signature

    def _write_part(self, part: dict[str, JSON], candidate: _CandidateState, out: list[bytes]) -> None:
        part, candidate.signature = with_signature(part, candidate.signature), ""
        self._write_chunk(candidate.chunk_prefix + write_json(part) + candidate.chunk_suffix, out)

    def _write_stop(self, event: Stop, choice: _CandidateState, index: int, out: list[bytes]) -> Error | None:
        if event.stop_reason == "error":
            return FAILED
        choice.stopped = True
        part, choice.signature = with_signature({"text": ""}, choice.signature), ""
        candidate = {"content": {"parts": [part], "role": "model"}, **finish_fields(event.stop_reason, choice.outcomes)}
        usage = {} if self._usage is None else {"usageMetadata": usage_dict(self._usage)}
        self._write_chunk(
            write_json({"candidates": [{**candidate, "index": index}], **usage, **self._reply_fields}), out
        )
        return None

    def _write_chunk(self, document: bytes, out: list[bytes]) -> None:
        if not self._array:
            out.append(write_data(document))
            return
        out.append((b",\r\n" if self._array_started else b"[") + document)
        self._array_started = True

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self._done = True
        self._write_chunk(write_error(UpstreamError(error.message, kind=error.kind)), out)
        if self._array:
            out.append(b"]")
