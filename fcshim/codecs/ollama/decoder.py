"""The upstream's reply: lines of JSON become events.

Rule: the reply ends with the line that says `done` and with one `Stop`, else with one `Error`. A call arrives complete
in one line and gives start, chunk and end at once.
"""

from collections.abc import Callable

import msgspec

from fcshim.codecs.framing import WholeReplyEnd
from fcshim.codecs.json_text import DecoderLimits, json_reader
from fcshim.codecs.ndjson import NDJSONSplitter
from fcshim.codecs.single_choice import upstream_failure
from fcshim.codecs.upstream_errors import excerpt, find_error_message
from fcshim.errors import UpstreamError
from fcshim.events import (
    JSON,
    CallError,
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
)
from fcshim.schema.strict_json import parse_strict_json

_NOTHING = msgspec.Raw(b"")


# The upstream's JSON: only the fields that become events. Unknown fields are skipped, arguments keep their bytes.


class OllamaFunction(msgspec.Struct):
    """The called function. `arguments` is an object, or, in imitations of Ollama, a string that contains one."""

    name: str | None = None
    arguments: msgspec.Raw = _NOTHING


class OllamaToolCall(msgspec.Struct):
    """One call, which always arrives complete."""

    id: str | None = None
    function: OllamaFunction | None = None


class OllamaMessage(msgspec.Struct):
    """The part of the message that a line adds."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaToolCall] | None = None


class OllamaReplyLine(msgspec.Struct):
    """One line of a stream, or one whole reply. `response` and `thinking` are the fields of `/api/generate`."""

    message: OllamaMessage | None = None
    response: str | None = None
    thinking: str | None = None
    done: bool | None = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: JSON = None


read_line = json_reader(OllamaReplyLine)
"""Reads one line; None if it is not a JSON object of this type."""


_EXCERPT = 200


class OllamaDecoder:
    """Decodes one upstream reply, in chunks split anywhere."""

    progress = None
    """The API has no reports of it."""

    def __init__(self, new_id: Callable[[], str], limits: DecoderLimits) -> None:
        self._new_id = new_id
        self._lines = NDJSONSplitter(line_bytes=limits.line_bytes)
        self._line_end = WholeReplyEnd()
        self._line_read = False  # the line without an end was parsed
        self._ids: set[str] = set()
        self._call_count = 0
        self._valid_calls = 0
        self._done = False
        self._started = False

    @property
    def ended(self) -> bool:
        """Whether the line that says `done`, or an error, has come."""
        return self._done

    def feed(self, data: bytes) -> list[tuple[int, Event]]:
        """Take the next bytes of the body; return the events that they complete, each with its choice."""
        out: list[Event] = []
        if not self._done:
            try:
                self._read_lines(self._lines.feed(data), out)
                if data[-1:] != b"\n":
                    self._read_unended_line(data, out)
            except UpstreamError as error:
                self._fail(error, out)
        return [(0, event) for event in out]

    def close(self) -> list[tuple[int, Event]]:
        """End the body; return the remaining events, an `Error` if it ended too early."""
        out: list[Event] = []
        if not self._done:
            try:
                self._read_last_line(out)
            except UpstreamError as error:
                self._fail(error, out)
        return [(0, event) for event in out]

    def _read_unended_line(self, data: bytes, out: list[Event]) -> None:
        """Read a last line that is complete without a line end: some servers send none, and leave the body open.

        A line is parsed for this once at most, when its last bracket has come and it says that the reply ends.
        """
        part = data[data.rfind(b"\n") + 1 :]
        if len(part) == self._lines.pending_bytes:  # it begins the line
            self._line_end, self._line_read = WholeReplyEnd(), False
        if self._done or self._line_read or not self._line_end.feed(part):
            return
        self._line_read = True
        line = read_line(self._lines.pending())
        if line is not None and (line.done or line.error is not None):
            self._read_lines(self._lines.close(), out)

    def _read_last_line(self, out: list[Event]) -> None:
        """Read a last line without its line end. If it is incomplete, the reply broke off."""
        lines = self._lines.close()
        if not self._started or (lines and read_line(lines[0]) is not None):
            self._read_lines(lines, out)
        if not self._done:
            reason = "broke off: it ended before it was done" if self._started else "is empty"
            raise UpstreamError(f"the upstream's reply {reason}")

    def _read_lines(self, lines: list[bytes], out: list[Event]) -> None:
        for data in lines:
            line = read_line(data)
            if line is None:
                raise UpstreamError(f"the upstream sent malformed JSON: {excerpt(data)}")
            if line.error is not None:
                raise upstream_failure(find_error_message({"error": line.error}) or excerpt(data))
            self._started = True
            self._decode_line(line, out)
            if self._done:
                return

    def _decode_line(self, line: OllamaReplyLine, out: list[Event]) -> None:
        message = line.message
        if thinking := (message.thinking if message else None) or line.thinking:
            out.append(Reasoning(thinking))
        if text := (message.content if message else None) or line.response:
            out.append(Text(text))
        if message is not None and message.tool_calls:
            for call in message.tool_calls:
                self._decode_call(call, out)
        if line.done:
            self._done = True
            out += [*_usage(line), Stop(self._stop_reason(line.done_reason))]

    def _stop_reason(self, reason: str | None) -> StopReason:
        if reason == "length":
            return "max_tokens"
        return "tool_use" if self._valid_calls else "complete"

    def _decode_call(self, call: OllamaToolCall, out: list[Event]) -> None:
        function = call.function or OllamaFunction()
        call_id = call.id if call.id and call.id not in self._ids else self._new_id()
        name, index = function.name or "", self._call_count
        arguments, error = _check_arguments(function.arguments)
        if not name:
            error = CallError("malformed", "the upstream sent a call without a name", arguments[:_EXCERPT])
        self._ids.add(call_id)
        self._call_count += 1
        self._valid_calls += error is None
        out.append(ToolCallStart(call_id, name, index))
        if arguments:
            out.append(ToolCallChunk(call_id, arguments, index))
        out.append(ToolCallEnd(call_id, name, arguments, index, error=error))

    def _fail(self, failure: UpstreamError, out: list[Event]) -> None:
        self._done = True
        out.append(Error(failure.kind, failure.message))


def _check_arguments(raw: msgspec.Raw) -> tuple[str, CallError | None]:
    """Return the arguments' text, and what is wrong with it."""
    text = bytes(raw).decode("utf-8", "replace")
    value = parse_strict_json(text)
    if isinstance(value, str):
        text, value = value, parse_strict_json(value)
    if value is None and text.strip() in ("", "null"):
        return "{}", None
    if isinstance(value, dict):
        return text, None
    return text, CallError("malformed", "the arguments are not one JSON object", text[:_EXCERPT])


def _usage(line: OllamaReplyLine) -> list[Usage]:
    """Return the token counts, if there are any."""
    if line.prompt_eval_count is None and line.eval_count is None:
        return []
    return [Usage(input_tokens=max(line.prompt_eval_count or 0, 0), output_tokens=max(line.eval_count or 0, 0))]
