"""The client's reply: events become lines of JSON, a folded reply one document.

Rule: one line per event, spliced from constant bytes. A call is one line, written after it has ended without error. The
last line has the stop reason and the durations. Nothing follows an error. If a whole reply has nothing else, a
sentence about a malformed call is its text.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.json_text import write_json
from fcshim.codecs.ndjson import NDJSON, PING, write_line
from fcshim.codecs.ollama.models import timestamp
from fcshim.codecs.ollama.options import OllamaClientOptions
from fcshim.codecs.outcome import UNFINISHED, CallOutcomes, is_truncated, raise_error, valid_calls, visible_text
from fcshim.errors import FcshimError, UpstreamError
from fcshim.events import (
    JSON,
    Error,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    WebToolUse,
)
from fcshim.messages import Request
from fcshim.reply import Reply


class Elapsed(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds; 0 means unknown, and is not written."""

    total: float = 0.0
    prompt: float = 0.0
    """Until the first event of the reply."""

    def to_fields(self) -> dict[str, JSON]:
        """Return the API's fields, in nanoseconds. `eval_duration` is never 0, because clients divide by it."""
        if not self.total:
            return {}
        total, prompt = round(self.total * 1e9), round(self.prompt * 1e9)
        fields = {"total_duration": total, "load_duration": 0, "prompt_eval_duration": prompt}
        return {**fields, "eval_duration": max(total - prompt, 1)}


def common_fields(identity: ReplyIdentity) -> dict[str, JSON]:
    """Return the fields with which every line starts."""
    return {"model": identity.model, "created_at": timestamp(identity.created)}


def final_fields(reason: StopReason | None, usage: Usage | None, elapsed: Elapsed) -> dict[str, JSON]:
    """Return the fields that end a reply."""
    counts = {} if usage is None else {"prompt_eval_count": usage.input_tokens, "eval_count": usage.output_tokens}
    done_reason = "length" if reason == "max_tokens" else "stop"
    return {"done": True, "done_reason": done_reason, **elapsed.to_fields(), **counts}


def write_call(call: ToolCallEnd, position: int) -> dict[str, JSON]:
    """Return one call; its arguments keep their bytes, except for line ends between tokens."""
    arguments = call.tool_call_arguments_complete.replace("\n", " ").replace("\r", " ")
    function = {"index": position, "name": call.tool_call_name, "arguments": msgspec.Raw(to_utf8(arguments))}
    return {"id": call.tool_call_id, "function": function}


def to_utf8(text: str) -> bytes:
    """Encode text as UTF-8; lone surrogates, which it cannot encode, become U+FFFD."""
    return text.encode("utf-8", "replace") if not text.isascii() else text.encode()


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply of one choice; with no replies, report that the model is loaded.

    Raises `UpstreamError` if the reply has an error.
    """
    options = OllamaClientOptions.of(request)
    if not replies:  # a request without a prompt; nothing is done, since the upstream decides when to load a model
        end = {"done": True, "done_reason": "unload" if options.unload else "load"}
        return msgspec.json.encode({**common_fields(identity), **_content(options, "", "", ()), **end})
    reply = replies[0]
    raise_error(reply)
    reason = "max_tokens" if is_truncated(reply) else reply.stop_reason
    thinking = reply.reasoning if options.thinking else ""
    content = _content(options, visible_text(reply), thinking, valid_calls(reply))
    final = final_fields(reason, reply.usage, Elapsed(total=identity.elapsed()))
    return write_json({**common_fields(identity), **content, **final})


def _content(options: OllamaClientOptions, text: str, thinking: str, calls: Sequence[ToolCallEnd]) -> dict[str, JSON]:
    if options.generate:
        return {"response": text, **({"thinking": thinking} if thinking else {})}
    message: dict[str, JSON] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = [write_call(call, position) for position, call in enumerate(calls)]
    return {"message": message}


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": message}`; the server sets the HTTP status."""
    return msgspec.json.encode({"error": error.message})


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
                out.append(write_line(self._text_prefix + write_json(event.text) + self._text_suffix))
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

    def ping(self, note: str = "") -> bytes:  # noqa: ARG002 - the API has no comments
        """Return white space, which JSON readers skip."""
        return PING

    def _write_event(self, event: Event, out: list[bytes]) -> None:
        match event:
            case Reasoning():
                if self._options.thinking:
                    out.append(
                        write_line(self._text_prefix + b'"","thinking":' + write_json(event.text) + self._text_suffix)
                    )
            case ToolCallEnd():
                self._write_call(event, out)
            case Usage():
                self._usage = event
            case Stop():
                self._stop = event
            case Text() | Error() | ToolCallStart() | ToolCallChunk() | WebToolUse():  # the API has no web tools
                pass
            case _:
                assert_never(event)

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
