"""The client's stream: events become lines of JSON.

Rule: one line per event, spliced from constant bytes. A call is one line, written after it has ended without error. The
last line has the stop reason and the durations. Nothing follows an error.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_text import write_json
from fcshim.codecs.ndjson import NDJSON, PING, write_line
from fcshim.codecs.ollama.options import OllamaClientOptions
from fcshim.codecs.ollama.reply import Elapsed, common_fields, final_fields, write_call, write_error
from fcshim.codecs.outcome import UNFINISHED, CallOutcomes
from fcshim.errors import UpstreamError
from fcshim.events import (
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

_to_json = msgspec.json.encode


class OllamaEncoder:
    """Writes one streamed reply for the client."""

    content_type = NDJSON

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        self._options = OllamaClientOptions.of(request)
        self._identity = identity
        self._line_prefix = _to_json(common_fields(identity))[:-1] + b","
        prefix, suffix = (
            (b'"response":', b"") if self._options.generate else (b'"message":{"role":"assistant","content":', b"}")
        )
        self._text_prefix = self._line_prefix + prefix
        self._text_suffix = suffix + b',"done":false}'
        self._first_event_time = 0.0
        self._outcomes = CallOutcomes()
        self._stop: Stop | None = None
        self._usage: Usage | None = None
        self._done = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events. The API has one choice, so events of others are dropped."""
        if self._done or choice or not events:
            return b""
        self._first_event_time = self._first_event_time or self._identity.elapsed()
        out: list[bytes] = []
        for event in events:
            if type(event) is Text:
                out.append(self._text_line(event.text))
            elif type(event) is Error:
                self._done = True
                out.append(_error_line(event))
                break
            else:
                self._write_event(event, out)
        return b"".join(out)

    def close(self) -> bytes:
        """Return the last line; an error if the reply has not ended; nothing after an error."""
        if self._done:
            return b""
        self._done = True
        error = UNFINISHED if self._stop is None else self._outcomes.end_error(self._stop.stop_reason)
        if error is not None:
            return _error_line(error)
        return self._last_line()

    def ping(self) -> bytes:
        """Return white space, which JSON readers skip."""
        return PING

    def _write_event(self, event: Event, out: list[bytes]) -> None:
        match event:
            case Reasoning():
                if self._options.thinking:
                    out.append(self._reasoning_line(event.text))
            case ToolCallEnd():
                self._write_call(event, out)
            case Usage():
                self._usage = event
            case Stop():
                self._stop = event
            case Text() | Error() | ToolCallStart() | ToolCallChunk():
                pass
            case _:
                assert_never(event)

    def _text_line(self, text: str) -> bytes:
        return write_line(self._text_prefix + write_json(text) + self._text_suffix)

    def _reasoning_line(self, text: str) -> bytes:
        return write_line(self._text_prefix + b'"","thinking":' + write_json(text) + self._text_suffix)

    def _write_call(self, event: ToolCallEnd, out: list[bytes]) -> None:
        if event.error is None and self._options.generate:
            return
        if event.error is None:
            calls = _to_json([write_call(event, self._outcomes.valid_calls)])
            out.append(write_line(self._text_prefix + b'"","tool_calls":' + calls + self._text_suffix))
        self._outcomes.record(event)

    def _last_line(self) -> bytes:
        assert self._stop is not None
        reason = "max_tokens" if self._outcomes.truncated else self._stop.stop_reason
        elapsed = Elapsed(total=self._identity.elapsed(), prompt=self._first_event_time)
        fields = _to_json(final_fields(reason, self._usage, elapsed))
        content = self._text_prefix + b'""' + (b"," if self._options.generate else b"},")
        return write_line(content + fields[1:])


def _error_line(error: Error) -> bytes:
    return write_line(write_error(UpstreamError(error.message, kind=error.kind)))
