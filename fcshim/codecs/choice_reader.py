"""The events of one choice of an upstream's reply, whatever its API.

Rule: only one call is open at a time. A call that the upstream interleaves with another, or text that it sends inside a
call, is queued until the open call is complete or the choice ends. Fragments after the end of a call are dropped.
"""

from collections.abc import Callable

import msgspec

from fcshim.codecs.prompt_progress import PromptProgress
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
    Usage,
)
from fcshim.schema.strict_json import parse_strict_json

_UNFINISHED_MESSAGES: dict[CallErrorKind, str] = {
    "truncated": "the reply was cut off inside the arguments",
    "malformed": "the arguments are not one JSON object",
}
_EXCERPT_CHARS = 200
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _NativeCall:
    """A native call while its fragments arrive. `index` is -1 until its start event is emitted."""

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
        """Return whether the arguments are already one JSON object."""
        return (
            bool(self.fragments)
            and self.join_arguments().rstrip().endswith("}")
            and _is_strict_object(self.join_arguments())
        )


class ChoiceReader:
    """Takes the text and the native calls of one choice; each method appends events to `out`."""

    def __init__(self, new_id: Callable[[], str], call_chars: int) -> None:
        self.started = False
        self.finished = False
        self.progress: PromptProgress | None = None
        """How far the server has read the prompt, if it says so."""
        self._new_id = new_id
        self._call_chars = call_chars
        self._calls: dict[int | str, _NativeCall] = {}
        self._ids: set[str] = set()
        self._last: _NativeCall | None = None
        self._open: _NativeCall | None = None
        self._queue: list[Text | Reasoning | _NativeCall] = []
        self._started_calls = 0
        self._valid_calls = 0

    @property
    def accepts_text(self) -> bool:
        """Whether text is emitted at once: the choice has not ended, and no native call is open."""
        return not self.finished and self._open is None

    def has_calls_beside(self, key: str) -> bool:
        """Return whether a call with another key has begun."""
        return any(begun != key for begun in self._calls)

    def finish(self, reason: StopReason, out: list[Event], usage: Usage | None = None) -> None:
        """End the choice; a complete one that has a valid call ends with `tool_use`."""
        complete = reason in ("complete", "stop_sequence")
        self._end_all("malformed" if complete else "truncated", out)
        if usage is not None:
            out.append(usage)
        out.append(Stop("tool_use" if complete and self._valid_calls else reason))

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

    def read_call(
        self,
        key: int | str | None,
        out: list[Event],
        *,
        call_id: str | None = None,
        name: str | None = None,
        arguments: str | dict[str, JSON] | None = None,
    ) -> None:
        """Read a fragment of the call with that key. A fragment without a key belongs to the last call, or begins one.

        `arguments` is an object where the upstream did not encode it as a string.
        """
        call_id, name = call_id or "", name or ""
        call = self._find_call(key, call_id, name)
        if call is None:
            call = self._begin_call(key, call_id, out)
        if call.ended:
            return
        call.name = call.name or name
        fragment = msgspec.json.encode(arguments).decode() if isinstance(arguments, dict) else arguments or ""
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
        self._ids.add(call_id)
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


def _is_strict_object(arguments: str) -> bool:
    """Return whether strict `json.loads` accepts `arguments` as an object."""
    try:
        _decode_object(arguments)
    except (ValueError, RecursionError):
        return isinstance(parse_strict_json(arguments), dict)  # msgspec rejects lone surrogates; `json` accepts them
    return True
