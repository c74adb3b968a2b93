"""One choice of an upstream's reply: its deltas become events in the unified order.

Rule: one call at a time. A call that an upstream interleaves with another, or text that it sends inside one, waits
until the open call is whole or the choice ends; what comes after the end of a choice, or of a call, is dropped.
Neighbours: the decoder owns one reader per choice; `wire` has the types that it reads.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from fcshim.codecs.openai_chat.wire import Delta, FunctionDelta
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
    "tool_calls": "complete",  # becomes `tool_use` when a call really came
    "function_call": "complete",
    "content_filter": "content_filter",
    "error": "error",
    "abort": "error",
}
"""Finish reasons of OpenAI and of its imitators; any other means that the reply is complete."""

_UNFINISHED: dict[CallErrorKind, str] = {
    "truncated": "the reply was cut off inside the arguments",
    "malformed": "the arguments are not one JSON object",
}
_EXCERPT = 200
_is_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Call:
    """A native call while its pieces come in."""

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.parts: list[str] = []
        self.size = 0
        self.index = -1
        self.ended = False

    def arguments(self) -> str:
        self.parts = ["".join(self.parts)]
        return self.parts[0]

    def whole(self) -> bool:
        """Tell whether the arguments are one JSON object already."""
        return bool(self.parts) and self.arguments().rstrip().endswith("}") and _is_strict(self.arguments())


class ChoiceReader:
    """Turns the deltas of one choice into events; each method adds to `out`."""

    def __init__(self, new_id: Callable[[], str], call_chars: int) -> None:
        self.begun = False
        self.finished = False
        self._new_id = new_id
        self._call_chars = call_chars
        self._calls: dict[int | str, _Call] = {}
        self._ids: set[str] = set()
        self._last: _Call | None = None
        self._open: _Call | None = None
        self._waiting: deque[Text | Reasoning | _Call] = deque()
        self._started = 0
        self._good = 0

    @property
    def flowing(self) -> bool:
        """Whether text may pass as it comes: the choice goes on, and no native call is open."""
        return not self.finished and self._open is None

    def read(self, delta: Delta, out: list[Event], *, whole: bool = False) -> None:
        """Read one delta, or the message of a `whole` reply, whose calls come without indexes."""
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning and isinstance(reasoning, str):
            self.say(Reasoning(reasoning), out)
        if delta.content or delta.refusal:
            self.say(Text(_plain(delta.content) + (delta.refusal or "")), out)
        if delta.tool_calls:
            for position, piece in enumerate(delta.tool_calls):
                key = position if whole and piece.index is None else piece.index
                self._piece(key, piece.id or "", piece.function or FunctionDelta(), out)
        elif delta.function_call and not self._ids - {"function_call"}:
            self._piece("function_call", "", delta.function_call, out)

    def finish(self, reason: str, stop_reason: JSON, out: list[Event]) -> None:
        """End the choice with the upstream's finish reason; `stop_reason` is the stop string that matched."""
        stop = STOP_REASONS.get(reason, "complete")
        self._end_all("malformed" if stop == "complete" else "truncated", out)
        if stop == "complete" and self._good:
            stop = "tool_use"
        elif reason == "stop" and isinstance(stop_reason, str):
            stop = "stop_sequence"
        out.append(Stop(stop))

    def break_off(self, error: Error, out: list[Event]) -> None:
        """End the choice with an error."""
        self._end_all("truncated", out)
        out.append(error)

    def say(self, event: Text | Reasoning, out: list[Event]) -> None:
        """Take a piece of text or reasoning; a signature alone is one too."""
        if not (event.text or (isinstance(event, Reasoning) and event.signature)):
            return
        self.begun = True
        self._close_if_whole(out)
        if self._open is None:
            out.append(event)
        else:
            self._waiting.append(event)

    def _piece(self, key: int | str | None, call_id: str, function: FunctionDelta, out: list[Event]) -> None:
        name = function.name or ""
        call = self._find(key, call_id, name)
        if call is None:
            call = self._begin(key, call_id, out)
        if call.ended:
            return
        call.name = call.name or name
        fragment = _arguments(function.arguments)
        call.size += len(fragment)
        if call.size > self._call_chars:
            return
        if fragment:
            call.parts.append(fragment)
        if call is self._open:
            self._forward(call, fragment, out)

    def _find(self, key: int | str | None, call_id: str, name: str) -> _Call | None:
        """Find the call that a piece belongs to; None where it begins a new one."""
        if key is None:
            return self._find_without_index(call_id, name)
        call = self._calls.get(key)
        if call is not None and call_id and name and call.name and call_id != call.id:
            return None  # several whole calls under one index, as Gemini's imitation of this API sends them
        return call

    def _find_without_index(self, call_id: str, name: str) -> _Call | None:
        if call_id:
            return self._calls.get(call_id)
        if name and self._last is not None and self._last.name and self._last.whole():
            return None
        return self._last

    def _begin(self, key: int | str | None, call_id: str, out: list[Event]) -> _Call:
        if not call_id or call_id in self._ids:
            call_id = self._new_id()
        self.begun = True
        call = self._last = _Call(call_id)
        self._ids.add("function_call" if key == "function_call" else call_id)
        self._calls[call_id if key is None else key] = call
        self._close_if_whole(out)
        if self._open is None:
            self._open = call
        else:
            self._waiting.append(call)
        return call

    def _close_if_whole(self, out: list[Event]) -> None:
        """End the open call if nothing can follow but white space; asked once, then whatever comes waits."""
        if self._open is not None and not self._waiting and self._open.whole():
            self._end(self._open, "malformed", out)

    def _forward(self, call: _Call, fragment: str, out: list[Event]) -> None:
        if call.index < 0:
            if not call.name:
                return
            self._start(call, out)
        elif fragment:
            out.append(ToolCallChunk(call.id, fragment, call.index))

    def _start(self, call: _Call, out: list[Event]) -> None:
        call.index = self._started
        self._started += 1
        out.append(ToolCallStart(call.id, call.name, call.index))
        if arguments := call.arguments():
            out.append(ToolCallChunk(call.id, arguments, call.index))

    def _end(self, call: _Call, unfinished: CallErrorKind, out: list[Event]) -> None:
        if call.index < 0:
            self._start(call, out)
        arguments = call.arguments()
        if unfinished == "malformed" and call.name and not arguments.strip():
            out.append(ToolCallChunk(call.id, "{}", call.index))
            arguments += "{}"
        error = self._judge(call, arguments, unfinished)
        self._good += error is None
        call.ended = True
        call.parts.clear()
        self._open = None
        out.append(ToolCallEnd(call.id, call.name, arguments, call.index, error=error))

    def _judge(self, call: _Call, arguments: str, unfinished: CallErrorKind) -> CallError | None:
        raw = arguments[:_EXCERPT]
        if call.size > self._call_chars:
            return CallError("limit", f"the arguments are longer than {self._call_chars} characters", raw)
        if not call.name:
            return CallError("malformed", "the upstream sent a call without a name", raw)
        if not _is_strict(arguments):
            return CallError(unfinished, _UNFINISHED[unfinished], raw)
        return None

    def _end_all(self, unfinished: CallErrorKind, out: list[Event]) -> None:
        self.finished = True
        if self._open is not None:
            self._end(self._open, unfinished, out)
        for item in self._waiting:
            if isinstance(item, _Call):
                self._end(item, unfinished, out)
            else:
                out.append(item)
        self._waiting.clear()


def _plain(content: str | list[JSON] | None) -> str:
    """Give the text of a content that some upstreams send as a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return content or ""


def _arguments(value: str | dict[str, JSON] | None) -> str:
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return value or ""


def _is_strict(arguments: str) -> bool:
    """Tell whether strict `json.loads` accepts `arguments` as an object."""
    try:
        _is_object(arguments)
    except (ValueError, RecursionError):
        return isinstance(parse_strict_json(arguments), dict)  # half surrogates are taken there, not by msgspec
    return True
