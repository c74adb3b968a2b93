"""Writing one choice of the client's stream: each event becomes a chunk, spliced from byte templates made once.

Rule: the last closing brace of a call is written only after the call has ended without error, so that no client ever
holds complete arguments of a call that must not run (the AI SDK runs a call once its arguments parse, before the call
has ended). The arguments of a call that ends with an error are invalidated (see `buffered_arguments`); the package's
docstring says how its choice ends.
"""

from typing import assert_never

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.buffered_arguments import BufferedArguments
from fcshim.codecs.json_text import repair_surrogates, write_json
from fcshim.codecs.openai_chat.reply import finish_reason
from fcshim.codecs.openai_chat.request import ChatClientOptions
from fcshim.codecs.outcome import COMPLETE_REASONS, CallOutcomes
from fcshim.events import (
    JSON,
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
from fcshim.messages import Request

_to_json = msgspec.json.encode


class ChunkTemplates:
    """The constant bytes around the variable part of each chunk."""

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        self.legacy = ChatClientOptions.of(request).functions
        metadata = _to_json(
            {
                "id": identity.id,
                "object": "chat.completion.chunk",
                "created": identity.created,
                "model": identity.model,
            }
        )
        self.head = b"data: " + metadata[:-1] + b","
        self.end = (b'],"usage":null}' if request.include_usage else b"]}") + b"\n\n"
        self.tail = b',"logprobs":null,"finish_reason":null}' + self.end

    def delta_prefix(self, choice: int) -> bytes:
        """Return the bytes before the delta in a chunk of that choice."""
        return self.head + b'"choices":[{"index":%d,"delta":' % choice


class _CallWriter(BufferedArguments):
    """Writes the arguments of one call, spliced between constant bytes."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: bytes, after: bytes) -> None:
        super().__init__()
        self._before = before
        self._after = after

    def try_write_fragment(self, fragment: str) -> bytes | None:
        """Return the chunk for a fragment that needs no buffering; None for any other fragment."""
        if self._buffered or fragment.rstrip()[-1:] in "}":  # also true of an empty fragment
            return None
        self._sent.append(fragment)
        try:
            return self._before + _to_json(fragment) + self._after
        except UnicodeEncodeError:
            return self._before + _to_json(repair_surrogates(fragment)) + self._after

    def write(self, fragment: str, out: list[bytes]) -> None:
        self._append(self.feed(fragment), out)

    def end(self, error: CallError | None, out: list[bytes]) -> None:
        self._append(self.close(valid=error is None), out)

    def _append(self, text: str, out: list[bytes]) -> None:
        if text:
            out.append(self._before + write_json(text) + self._after)


class ChoiceWriter:
    """Writes the events of one choice; each method appends to `out`."""

    __slots__ = (
        "_after_text",
        "_before_text",
        "_calls",
        "_delta_prefix",
        "_end",
        "_legacy",
        "_outcomes",
        "_tail",
        "stopped",
    )

    def __init__(self, templates: ChunkTemplates, choice: int) -> None:
        self.stopped = False
        self._delta_prefix = templates.delta_prefix(choice)
        self._end = templates.end
        self._tail = templates.tail
        self._legacy = templates.legacy
        self._before_text = self._delta_prefix + b'{"content":'
        self._after_text = b"}" + self._tail
        self._calls: dict[int, _CallWriter] = {}
        self._outcomes = CallOutcomes()

    def open(self, out: list[bytes]) -> None:
        """Write the role chunk, once: the official client concatenates the roles of all chunks."""
        self._write_delta({"role": "assistant", "content": ""}, out)

    def try_write_chunk(self, event: Event) -> bytes | None:
        """Return the chunk for text, or for arguments that need no buffering; None where `write` must be used.

        The fast path for nearly every event of a stream.
        """
        if self.stopped:
            return None
        if type(event) is Text:
            try:
                return self._before_text + _to_json(event.text) + self._after_text
            except UnicodeEncodeError:
                return self._before_text + _to_json(repair_surrogates(event.text)) + self._after_text
        if type(event) is ToolCallChunk and event.index in self._calls:
            return self._calls[event.index].try_write_fragment(event.tool_call_arguments_chunk)
        return None

    def write(self, event: Event, out: list[bytes]) -> Error | None:
        """Write one event; return the error with which the stream must end, or None."""
        data = self.try_write_chunk(event)
        if data is not None:
            out.append(data)
            return None
        return None if self.stopped else self._write_other(event, out)

    def _write_other(self, event: Event, out: list[bytes]) -> Error | None:
        match event:
            case ToolCallChunk():
                if event.index in self._calls:
                    self._calls[event.index].write(event.tool_call_arguments_chunk, out)
            case ToolCallStart():
                self._start_call(event, out)
            case ToolCallEnd():
                self._end_call(event, out)
            case Reasoning():
                self._write_delta({"reasoning_content": event.text}, out)
            case Stop():
                return self._write_stop(event, out)
            case Error():
                return event
            case Text() | Usage():
                pass
            case _:
                assert_never(event)
        return None

    def _start_call(self, event: ToolCallStart, out: list[bytes]) -> None:
        if self._legacy:
            self._start_legacy_call(event, out)
            return
        position = len(self._calls)  # dense: the official client raises where an index is skipped
        function = {"name": event.tool_call_name, "arguments": ""}
        call = {"index": position, "id": event.tool_call_id, "type": "function", "function": function}
        self._write_delta({"tool_calls": [call]}, out)
        before = self._delta_prefix + b'{"tool_calls":[{"index":%d,"function":{"arguments":' % position
        self._calls[event.index] = _CallWriter(before, b"}}]}" + self._tail)

    def _start_legacy_call(self, event: ToolCallStart, out: list[bytes]) -> None:
        """Start the only call that the legacy form can express; further calls of the reply are left out."""
        if self._calls:
            return
        self._write_delta({"function_call": {"name": event.tool_call_name, "arguments": ""}}, out)
        before = self._delta_prefix + b'{"function_call":{"arguments":'
        self._calls[event.index] = _CallWriter(before, b"}}" + self._tail)

    def _end_call(self, event: ToolCallEnd, out: list[bytes]) -> None:
        writer = self._calls.get(event.index)
        if writer is not None:
            writer.end(event.error, out)
            self._outcomes.record(event)

    def _write_stop(self, event: Stop, out: list[bytes]) -> Error | None:
        reason = event.stop_reason
        error = self._outcomes.end_error(reason)
        if error is not None:
            return error
        if self._outcomes.truncated and reason in COMPLETE_REASONS:
            reason = "max_tokens"
        self.stopped = True
        # A chunk of its own: beside arguments, it keeps the official client from emitting their `arguments.done` event.
        finish = finish_reason(reason, legacy=self._legacy).encode()
        out.append(self._delta_prefix + b'{},"logprobs":null,"finish_reason":"' + finish + b'"}' + self._end)
        return None

    def _write_delta(self, delta: JSON, out: list[bytes]) -> None:
        out.append(self._delta_prefix + write_json(delta) + self._tail)
