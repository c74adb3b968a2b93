"""The client's stream: events become lines of JSON.

Rule: one line per event, spliced from constant bytes; a call is one line, written when it has ended well; the last
line says why, and what it took. Nothing follows an error.
Neighbours: `reply` has the parts that a whole reply shares; the exchange drives it, one write per upstream read.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.ndjson import NDJSON, PING, write_line
from fcshim.codecs.ollama.errors import write_error
from fcshim.codecs.ollama.reply import Elapsed, closing, opening, write_call
from fcshim.codecs.ollama.style import Style
from fcshim.codecs.json_writer import repair_surrogates
from fcshim.errors import UpstreamError
from fcshim.events import (
    CallError,
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

_to_json = msgspec.json.encode
_ENDED = frozenset(["complete", "stop_sequence"])
_UNFINISHED = Error("upstream_error", "the reply broke off before it was finished")


class OllamaEncoder:
    """Writes one streamed reply for the client."""

    content_type = NDJSON

    def __init__(self, style: Style, identity: ReplyIdentity) -> None:
        self._style = style
        self._identity = identity
        self._opening = _to_json(opening(identity))[:-1] + b","
        before, after = (b'"response":', b"") if style.generate else (b'"message":{"role":"assistant","content":', b"}")
        self._before_text = self._opening + before
        self._after_text = after + b',"done":false}'
        self._first = 0.0
        self._calls = 0
        self._bad: CallError | None = None
        self._stop: Stop | None = None
        self._usage: Usage | None = None
        self._over = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Give the bytes for these events; this API knows one choice only."""
        if self._over or choice or not events:
            return b""
        self._first = self._first or self._identity.elapsed()
        out: list[bytes] = []
        for event in events:
            if type(event) is Text:
                out.append(self._said(event.text))
            elif type(event) is Error:
                self._over = True
                out.append(_error_line(event))
                break
            else:
                self._other(event, out)
        return b"".join(out)

    def close(self) -> bytes:
        """Give the last line; an error where the reply has not ended; nothing after an error."""
        if self._over:
            return b""
        self._over = True
        failure = _UNFINISHED if self._stop is None else self._failure(self._stop)
        if failure is not None:
            return _error_line(failure)
        return self._last()

    def ping(self) -> bytes:
        """Give white space."""
        return PING

    def _other(self, event: Event, out: list[bytes]) -> None:
        match event:
            case Reasoning():
                if self._style.thinking:
                    out.append(self._thought(event.text))
            case ToolCallEnd():
                self._call(event, out)
            case Usage():
                self._usage = event
            case Stop():
                self._stop = event
            case Text() | Error() | ToolCallStart() | ToolCallChunk():
                pass
            case _:
                assert_never(event)

    def _said(self, text: str) -> bytes:
        return write_line(self._before_text + _text(text) + self._after_text)

    def _thought(self, text: str) -> bytes:
        return write_line(self._before_text + b'"","thinking":' + _text(text) + self._after_text)

    def _call(self, event: ToolCallEnd, out: list[bytes]) -> None:
        if event.error is not None:
            self._bad = event.error
        elif not self._style.generate:
            calls = _to_json([write_call(event, self._calls)])
            out.append(write_line(self._before_text + b'"","tool_calls":' + calls + self._after_text))
            self._calls += 1

    def _failure(self, stop: Stop) -> Error | None:
        """Tell what the stream must end with where it cannot end well."""
        if stop.stop_reason == "error":
            return Error("upstream_error", "the upstream ended the reply with an error")
        if self._bad is None or self._calls or self._bad.kind == "truncated" or stop.stop_reason not in _ENDED:
            return None
        return Error("model_output_error", f"the model wrote a tool call that cannot be used: {self._bad.message}")

    def _last(self) -> bytes:
        assert self._stop is not None
        cut = self._bad is not None and self._bad.kind == "truncated" and not self._calls
        reason = "max_tokens" if cut else self._stop.stop_reason
        elapsed = Elapsed(total=self._identity.elapsed(), prompt=self._first)
        fields = _to_json(closing(reason, self._usage, elapsed))
        content = self._before_text + b'""' + (b"," if self._style.generate else b"},")
        return write_line(content + fields[1:])


def _error_line(error: Error) -> bytes:
    return write_line(write_error(UpstreamError(error.message, kind=error.kind)))


def _text(text: str) -> bytes:
    """Write a JSON string; half surrogates, which UTF-8 cannot say, become U+FFFD."""
    try:
        return _to_json(text)
    except UnicodeEncodeError:
        return _to_json(repair_surrogates(text))
