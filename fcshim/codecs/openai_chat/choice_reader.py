"""Converting the deltas of one choice of an upstream's reply to events.

Rule: only one call is open at a time. A call that the upstream interleaves with another, or text that it sends inside a
call, is queued until the open call is complete or the choice ends. Deltas after the end of a choice or of a call are
dropped.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from fcshim.codecs.openai_chat.wire import ChatDelta, FunctionDelta
from fcshim.events import (
    JSON,
    CallError,
    CallErrorKind,
    Error,
    Event,
    Reasoning,
    Stop,
    StopReason,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
)
from fcshim.schema.strict_json import parse_strict_json

STOP_REASONS: dict[str, StopReason] = {
    "stop": "complete",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "tool_calls": "complete",  # becomes `tool_use` if the choice has a valid call
    "function_call": "complete",
    "content_filter": "content_filter",
    "error": "error",
    "abort": "error",
}
"""Finish reasons of OpenAI and compatible servers; an unknown one means that the reply is complete."""

_UNFINISHED_MESSAGES: dict[CallErrorKind, str] = {
    "truncated": "the reply was cut off inside the arguments",
    "malformed": "the arguments are not one JSON object",
}
_EXCERPT_CHARS = 200
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _NativeCall:
    """A native call while its deltas arrive. `index` is -1 until its start event is emitted."""

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.fragments: list[str] = []
        self.size = 0
        self.index = -1
        self.ended = False

    def join_arguments(self) -> str:
        self.fragments = ["".join(self.fragments)]
        return self.fragments[0]

    def is_complete(self) -> bool:
        """Tell whether the arguments are already one JSON object."""
        return (
            bool(self.fragments)
            and self.join_arguments().rstrip().endswith("}")
            and _is_strict_object(self.join_arguments())
        )


class ChoiceReader:
    """Converts the deltas of one choice to events; each method appends to `out`."""

    def __init__(self, new_id: Callable[[], str], call_chars: int) -> None:
        self.started = False
        self.finished = False
        self._new_id = new_id
        self._call_chars = call_chars
        self._calls: dict[int | str, _NativeCall] = {}
        self._ids: set[str] = set()
        self._last: _NativeCall | None = None
        self._open: _NativeCall | None = None
        self._queue: deque[Text | Reasoning | _NativeCall] = deque()
        self._started_calls = 0
        self._valid_calls = 0

    @property
    def accepts_text(self) -> bool:
        """Whether text is emitted at once: the choice has not ended, and no native call is open."""
        return not self.finished and self._open is None

    def read(self, delta: ChatDelta, out: list[Event], *, whole: bool = False) -> None:
        """Read one delta, or the message of a `whole` reply, whose calls have no indexes."""
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning and isinstance(reasoning, str):
            self.emit_text(Reasoning(reasoning), out)
        if delta.content or delta.refusal:
            self.emit_text(Text(_content_text(delta.content) + (delta.refusal or "")), out)
        if delta.tool_calls:
            for position, call_delta in enumerate(delta.tool_calls):
                key = position if whole and call_delta.index is None else call_delta.index
                self._read_call_delta(key, call_delta.id or "", call_delta.function or FunctionDelta(), out)
        # llama-cpp-python repeats the call as a legacy `function_call`, which is ignored once a call has an id.
        elif delta.function_call and not self._ids - {"function_call"}:
            self._read_call_delta("function_call", "", delta.function_call, out)

    def finish(self, reason: str, stop_reason: JSON, out: list[Event]) -> None:
        """End the choice with the upstream's finish reason; `stop_reason` is the stop string that matched, or null."""
        stop = STOP_REASONS.get(reason, "complete")
        self._end_all("malformed" if stop == "complete" else "truncated", out)
        if stop == "complete" and self._valid_calls:
            stop = "tool_use"
        elif reason == "stop" and isinstance(stop_reason, str):
            stop = "stop_sequence"
        out.append(Stop(stop))

    def fail(self, error: Error, out: list[Event]) -> None:
        """End the choice with an error."""
        self._end_all("truncated", out)
        out.append(error)

    def emit_text(self, event: Text | Reasoning, out: list[Event]) -> None:
        """Emit text or reasoning, or queue it inside a call; a signature without reasoning text counts too."""
        if not (event.text or (isinstance(event, Reasoning) and event.signature)):
            return
        self.started = True
        self._end_call_if_complete(out)
        if self._open is None:
            out.append(event)
        else:
            self._queue.append(event)

    def _read_call_delta(self, key: int | str | None, call_id: str, function: FunctionDelta, out: list[Event]) -> None:
        name = function.name or ""
        call = self._find_call(key, call_id, name)
        if call is None:
            call = self._begin_call(key, call_id, out)
        if call.ended:
            return
        call.name = call.name or name
        fragment = _arguments_text(function.arguments)
        call.size += len(fragment)
        if call.size > self._call_chars:  # dropped; `_check_arguments` reports the limit at the end of the call
            return
        if fragment:
            call.fragments.append(fragment)
        if call is self._open:
            self._forward(call, fragment, out)

    def _find_call(self, key: int | str | None, call_id: str, name: str) -> _NativeCall | None:
        """Find the call that a delta belongs to; None where it begins a new call."""
        if key is None:
            return self._find_without_index(call_id, name)
        call = self._calls.get(key)
        if call is not None and call_id and name and call.name and call_id != call.id:
            return None  # Gemini's OpenAI-compatible endpoint sends several whole calls under one index
        return call

    def _find_without_index(self, call_id: str, name: str) -> _NativeCall | None:
        if call_id:
            return self._calls.get(call_id)
        if name and self._last is not None and self._last.name and self._last.is_complete():
            return None
        return self._last

    def _begin_call(self, key: int | str | None, call_id: str, out: list[Event]) -> _NativeCall:
        if not call_id or call_id in self._ids:
            call_id = self._new_id()
        self.started = True
        call = self._last = _NativeCall(call_id)
        self._ids.add("function_call" if key == "function_call" else call_id)
        self._calls[call_id if key is None else key] = call
        self._end_call_if_complete(out)
        if self._open is None:
            self._open = call
        else:
            self._queue.append(call)
        return call

    def _end_call_if_complete(self, out: list[Event]) -> None:
        """End the open call if its arguments are complete.

        Checked only for the first item that arrives after the arguments; a failed check queues that item and all later
        ones. Each check parses the arguments, so that one per item would be quadratic.
        """
        if self._open is not None and not self._queue and self._open.is_complete():
            self._end_call(self._open, "malformed", out)

    def _forward(self, call: _NativeCall, fragment: str, out: list[Event]) -> None:
        if call.index < 0:
            if not call.name:
                return
            self._emit_start(call, out)
        elif fragment:
            out.append(ToolCallChunk(call.id, fragment, call.index))

    def _emit_start(self, call: _NativeCall, out: list[Event]) -> None:
        call.index = self._started_calls
        self._started_calls += 1
        out.append(ToolCallStart(call.id, call.name, call.index))
        if arguments := call.join_arguments():
            out.append(ToolCallChunk(call.id, arguments, call.index))

    def _end_call(self, call: _NativeCall, unfinished: CallErrorKind, out: list[Event]) -> None:
        if call.index < 0:
            self._emit_start(call, out)
        arguments = call.join_arguments()
        if unfinished == "malformed" and call.name and not arguments.strip():  # a call without arguments
            out.append(ToolCallChunk(call.id, "{}", call.index))
            arguments += "{}"
        error = self._check_arguments(call, arguments, unfinished)
        self._valid_calls += error is None
        call.ended = True
        call.fragments.clear()
        self._open = None
        out.append(ToolCallEnd(call.id, call.name, arguments, call.index, error=error))

    def _check_arguments(self, call: _NativeCall, arguments: str, unfinished: CallErrorKind) -> CallError | None:
        raw = arguments[:_EXCERPT_CHARS]
        if call.size > self._call_chars:
            return CallError("limit", f"the arguments are longer than {self._call_chars} characters", raw)
        if not call.name:
            return CallError("malformed", "the upstream sent a call without a name", raw)
        if not _is_strict_object(arguments):
            return CallError(unfinished, _UNFINISHED_MESSAGES[unfinished], raw)
        return None

    def _end_all(self, unfinished: CallErrorKind, out: list[Event]) -> None:
        self.finished = True
        if self._open is not None:
            self._end_call(self._open, unfinished, out)
        for item in self._queue:
            if isinstance(item, _NativeCall):
                self._end_call(item, unfinished, out)
            else:
                out.append(item)
        self._queue.clear()


def _content_text(content: str | list[JSON] | None) -> str:
    """Return the text of a message's content, which some upstreams send as a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return content or ""


def _arguments_text(value: str | dict[str, JSON] | None) -> str:
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return value or ""


def _is_strict_object(arguments: str) -> bool:
    """Tell whether strict `json.loads` accepts `arguments` as an object."""
    try:
        _decode_object(arguments)
    except (ValueError, RecursionError):
        return isinstance(parse_strict_json(arguments), dict)  # msgspec rejects lone surrogates; `json` accepts them
    return True
