"""Writing the client's reply: events become chunks of the Chat API, folded replies one JSON body.

Rule: a role chunk opens a choice, choice 0 first; each event is one delta; the finish_reason is a separate chunk;
usage and `[DONE]` come last, and only if every choice has ended without error. Nothing follows an error. The last
closing brace of a call is written only after the call has ended without error (see `outcome`). A whole reply has only
calls that ended without error; one without text and without such a call has a sentence about its malformed call as
content. The package's docstring says how the choice of a call that ends with an error ends.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.framing import EVENT_STREAM, write_comment, write_data
from fcshim.codecs.json_text import repair_surrogates, write_json
from fcshim.codecs.openai_chat.request import ChatClientOptions, custom_text
from fcshim.codecs.outcome import (
    COMPLETE_REASONS,
    UNFINISHED,
    BufferedArguments,
    CallOutcomes,
    is_truncated,
    raise_error,
    sum_usage,
    valid_calls,
    visible_text,
)
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, RequestError, UpstreamError
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

_FINISH_REASONS: dict[StopReason | None, str] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


def finish_reason(reason: StopReason | None, *, legacy: bool) -> str:
    """Return the API's finish_reason for a stop reason."""
    finish = _FINISH_REASONS.get(reason, "stop")
    return "function_call" if legacy and finish == "tool_calls" else finish


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Return token counts in the API's form."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply, one choice per `Reply`. Raises `UpstreamError` where one of them ended with an error."""
    client_options = ChatClientOptions.of(request)
    body: dict[str, JSON] = {
        "id": identity.id,
        "object": "chat.completion",
        "created": identity.created,
        "model": identity.model,
        "choices": [_write_choice(index, reply, client_options) for index, reply in enumerate(replies)],
    }
    if usages := [reply.usage for reply in replies if reply.usage is not None]:
        body["usage"] = usage_dict(sum_usage(usages))
    return msgspec.json.encode(body)


def _write_choice(index: int, reply: Reply, client_options: ChatClientOptions) -> dict[str, JSON]:
    raise_error(reply)
    reply = msgspec.structs.replace(reply, tool_calls=tuple(map(client_options.check, reply.tool_calls)))
    valid, text = valid_calls(reply), visible_text(reply)
    message: dict[str, JSON] = {"role": "assistant", "content": None if valid and not text else text, "refusal": None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if valid and client_options.functions:
        message["function_call"] = _write_function(valid[0])
    elif valid:
        message["tool_calls"] = [_write_call(call, client_options) for call in valid]
    reason = reply.stop_reason
    if reason in COMPLETE_REASONS and is_truncated(reply):
        reason = "max_tokens"
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": finish_reason(reason, legacy=client_options.functions),
    }


def _write_function(call: ToolCallEnd) -> dict[str, JSON]:
    return {"name": call.tool_call_name, "arguments": call.tool_call_arguments_complete}


def _write_call(call: ToolCallEnd, client_options: ChatClientOptions) -> dict[str, JSON]:
    if call.tool_call_name in client_options.custom:
        text = custom_text(call.tool_call_arguments_complete)
        return {"id": call.tool_call_id, "type": "custom", "custom": {"name": call.tool_call_name, "input": text}}
    return {"id": call.tool_call_id, "type": "function", "function": _write_function(call)}


def write_error(error: FcshimError) -> bytes:
    """Return the error body `{"error": {message, type, param, code}}`.

    Errors caused by the request have the type `invalid_request_error`; a more specific kind becomes the `code`.
    """
    caused_by_request = isinstance(error, RequestError) or error.kind == CONTEXT_LENGTH
    kind = RequestError.kind if caused_by_request else error.kind
    code = error.kind if error.kind != kind else None
    param = error.param if isinstance(error, RequestError) else None
    return msgspec.json.encode({"error": {"message": error.message, "type": kind, "param": param, "code": code}})


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

    def write(self, text: str, out: list[bytes]) -> None:
        """Write what `feed` or `close` returned."""
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
        self._delta_prefix = templates.head + b'"choices":[{"index":%d,"delta":' % choice
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
                    call = self._calls[event.index]
                    call.write(call.feed(event.tool_call_arguments_chunk), out)
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
            case Text() | Usage() | WebToolUse():  # the API has no web tools
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
            writer.write(writer.close(valid=event.error is None), out)
            self._outcomes.record(event)

    def _write_stop(self, event: Stop, out: list[bytes]) -> Error | None:
        reason = event.stop_reason
        error = self._outcomes.end_error(reason)
        if error is not None:
            return error
        if self._outcomes.truncated and reason in COMPLETE_REASONS:
            reason = "max_tokens"
        self.stopped = True
        # A separate chunk: beside arguments, it keeps the official client from emitting their `arguments.done` event.
        finish = finish_reason(reason, legacy=self._legacy).encode()
        out.append(self._delta_prefix + b'{},"logprobs":null,"finish_reason":"' + finish + b'"}' + self._end)
        return None

    def _write_delta(self, delta: JSON, out: list[bytes]) -> None:
        out.append(self._delta_prefix + write_json(delta) + self._tail)


class ChatEncoder:
    """Encodes one streamed reply for the client."""

    __slots__ = ("_choices", "_done", "_include_usage", "_templates", "_usages")
    content_type = EVENT_STREAM

    def __init__(self, request: Request, identity: ReplyIdentity) -> None:
        self._include_usage = request.include_usage
        self._templates = ChunkTemplates(request, identity)
        self._choices: dict[int, ChoiceWriter] = {}
        self._usages: dict[int, Usage] = {}
        self._done = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events of one choice."""
        if self._done or not events:
            return b""
        writer = self._choices.get(choice)
        if len(events) == 1 and writer is not None and (data := writer.try_write_chunk(events[0])) is not None:
            return data
        out: list[bytes] = []
        for event in events:
            if type(event) is Usage:
                self._usages[choice] = event
                continue
            if type(event) is Error:
                self._fail(event, out)
                break
            if writer is None:
                writer = self._open_choice(choice, out)
            failure = writer.write(event, out)
            if failure is not None:
                self._fail(failure, out)
                break
        return b"".join(out)

    def close(self) -> bytes:
        """Return the end of the stream: usage and `[DONE]`, an error if a choice is unfinished, nothing after one."""
        if self._done:
            return b""
        out: list[bytes] = []
        if not self._choices or not all(writer.stopped for writer in self._choices.values()):
            self._fail(UNFINISHED, out)
            return b"".join(out)
        self._done = True
        if self._include_usage and self._usages:
            usage = msgspec.json.encode(usage_dict(sum_usage(self._usages.values())))
            out.append(self._templates.head + b'"choices":[],"usage":' + usage + b"}\n\n")
        out.append(write_data(b"[DONE]"))
        return b"".join(out)

    def ping(self, note: str = "") -> bytes:
        """Return an SSE comment."""
        return write_comment(note)

    def _open_choice(self, choice: int, out: list[bytes]) -> ChoiceWriter:
        """Open a choice, after choice 0: the official client fails on a stream that begins with another."""
        if choice and 0 not in self._choices:
            self._open_choice(0, out)
        writer = self._choices[choice] = ChoiceWriter(self._templates, choice)
        writer.open(out)
        return writer

    def _fail(self, error: Error, out: list[bytes]) -> None:
        self._done = True
        out.append(write_data(write_error(UpstreamError(error.message, kind=error.kind))))
