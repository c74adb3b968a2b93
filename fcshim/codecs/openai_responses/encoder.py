"""Writing the client's reply: events become events of the Responses API, a folded reply one response object.

Rule: only one item is open at a time. The stream begins with `response.created` and ends with exactly one of
`response.completed`, `response.incomplete` and `response.failed`. An `error` event follows `response.failed`, for
clients that read only that one; nothing follows it. The official client raises for neither. Only calls that ended
without error are items of a whole reply; without text and without such a call, a sentence about its malformed call is
its message. A message with which a reply ends that was cut off is incomplete.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.framing import EVENT_STREAM, write_comment
from fcshim.codecs.json_text import write_json
from fcshim.codecs.openai_responses.emitter import Emitter, error_event_fields
from fcshim.codecs.openai_responses.items import (
    FunctionItem,
    MessageItem,
    ReasoningItem,
    call_item,
    call_item_prefix,
    message_item,
    reasoning_item,
    web_item,
    write_web_item,
    write_whole_call,
)
from fcshim.codecs.openai_responses.request import API, ECHO_DEFAULTS
from fcshim.codecs.openai_responses.request_tools import ResponsesClientOptions
from fcshim.codecs.openai_responses.stored_responses import store_response
from fcshim.codecs.outcome import (
    UNFINISHED,
    CallOutcomes,
    call_failure,
    is_truncated,
    raise_error,
    valid_calls,
    visible_text,
)
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
from fcshim.reply import Reply, split_text

_FUNCTION_FIELDS = ("description", "parameters", "strict")
"""Fields that a function has in a response, null where the request had none."""

INCOMPLETE_REASONS: dict[StopReason | None, str] = {
    "max_tokens": "max_output_tokens",
    "content_filter": "content_filter",
}
"""Why a response, and the message that it ends with, is incomplete."""


# The response object: the id and the echoed fields of the request never change while a response streams.


def begin_response(request: Request, identity: ReplyIdentity) -> dict[str, JSON]:
    """Return the response object at the start of a reply."""
    source = request.verbatim.get(API, {})
    echo = {name: default if source.get(name) is None else source[name] for name, default in ECHO_DEFAULTS.items()}
    echo["tools"] = [_with_function_fields(tool) for tool in echo["tools"]]
    return {
        "id": identity.id,
        "object": "response",
        "created_at": identity.created,
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": identity.model,
        "output": [],
        "service_tier": "default",
        "usage": None,
        **echo,
    }


def _with_function_fields(tool: JSON) -> JSON:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return tool
    inner = tool.get("function")  # the Chat API's form, which some clients also send here
    fields = {"type": "function", **inner} if isinstance(inner, dict) else tool
    return {**fields, **{name: fields.get(name) for name in _FUNCTION_FIELDS}}


def end_response(
    response: dict[str, JSON], output: Sequence[JSON], usage: Usage | None, reason: StopReason | None, seconds: float
) -> dict[str, JSON]:
    """Return the response object at the end of a reply, after so many seconds; one that was cut off is `incomplete`."""
    incomplete = INCOMPLETE_REASONS.get(reason)
    return {
        **response,
        "status": "incomplete" if incomplete else "completed",
        "completed_at": None if incomplete else response["created_at"] + int(seconds),
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "output": list(output),
        "usage": None if usage is None else usage_dict(usage),
    }


def mark_unusable(response: dict[str, JSON], error: Error) -> dict[str, JSON]:
    """Return the response object of a whole reply whose only calls cannot be used: it is incomplete, and says why."""
    details = {"code": "server_error", "message": error.message}
    return {**response, "status": "incomplete", "completed_at": None, "error": details}


def fail_response(response: dict[str, JSON], output: Sequence[JSON], error: Error) -> dict[str, JSON]:
    """Return the response object of a reply that ended with an error; items that were complete stay."""
    details = {"code": "server_error", "message": error.message}
    return {**response, "status": "failed", "error": details, "output": list(output)}


def usage_dict(usage: Usage) -> dict[str, JSON]:
    """Return token counts in the API's form."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


DEFAULT_MAX_CHARS = 64 * 2**20
"""Characters of one streamed reply: the last event repeats all of them, so they are kept in memory until then."""


class ResponsesEncoder:
    """Encodes one streamed reply for the client."""

    content_type = EVENT_STREAM

    def __init__(self, request: Request, identity: ReplyIdentity, *, max_chars: int = DEFAULT_MAX_CHARS) -> None:
        self._request = request
        self._identity = identity
        self._client_options = ResponsesClientOptions.of(request)
        self._emitter = Emitter()
        self._response: dict[str, JSON] = {}
        self._output: dict[int, JSON] = {}
        """The items that have ended, by their index."""
        self._item: MessageItem | ReasoningItem | None = None
        self._calls: dict[int, FunctionItem] = {}
        self._failed_calls: list[FunctionItem] = []
        self._item_count = 0
        self._outcomes = CallOutcomes()
        self._usage: Usage | None = None
        self._stop: Stop | None = None
        self._chars_left = max_chars
        self._done = False

    def encode(self, choice: int, events: Sequence[Event]) -> bytes:
        """Return the bytes for these events; this API has only one choice, events of others are dropped."""
        if self._done or choice or not events:
            return b""
        self._begin_response()
        for event in events:
            # Fast path: nearly every event of a stream is text after text.
            if type(event) is Text and type(self._item) is MessageItem and self._chars_left > 0:
                self._chars_left -= len(event.text)
                self._item.add(event.text, self._emitter)
            elif (failure := self._write(event)) is not None:
                self._fail(failure)
                break
        return self._emitter.take_bytes()

    def close(self) -> bytes:
        """Return the event that ends the response, a failure if it is unfinished, nothing after a failure."""
        if self._done:
            return b""
        self._begin_response()
        failure = UNFINISHED if self._stop is None else self._outcomes.end_error(self._stop.stop_reason)
        if failure is not None or self._stop is None:
            self._fail(failure or UNFINISHED)
        else:
            self._end(self._stop.stop_reason)
        return self._emitter.take_bytes()

    def ping(self, note: str = "") -> bytes:
        """Return an SSE comment."""
        return write_comment(note)

    def _begin_response(self) -> None:
        if not self._response:
            self._response = begin_response(self._request, self._identity)
            self._emitter.emit("response.created", {"response": self._response})
            self._emitter.emit("response.in_progress", {"response": self._response})

    def _write(self, event: Event) -> Error | None:
        match event:
            case Error():
                return event
            case _ if self._chars_left <= 0:
                return Error("upstream_error", "the reply is longer than the limit for one response")
            case ToolCallChunk():
                self._add_arguments(event)
            case Text():
                self._add_text(event)
            case Reasoning():
                self._add_reasoning(event)
            case ToolCallStart():
                self._start_call(event)
            case ToolCallEnd():
                self._end_call(event)
            case WebToolUse():
                self._add_web_tool_use(event)
            case Usage() | Stop():
                self._record_end(event)
            case _:
                assert_never(event)
        return None

    def _record_end(self, event: Usage | Stop) -> None:
        if isinstance(event, Usage):
            self._usage = event
        else:
            self._stop = event

    def _add_text(self, event: Text) -> None:
        if event.text and type(self._item) is not MessageItem:
            self._close_item()
            self._item = MessageItem(*self._allocate_item("msg"), self._emitter)
        if event.text and self._item is not None:
            self._chars_left -= len(event.text)
            self._item.add(event.text, self._emitter)

    def _add_reasoning(self, event: Reasoning) -> None:
        item = self._item
        if not isinstance(item, ReasoningItem):
            self._close_item()
            self._item = item = ReasoningItem(*self._allocate_item("rs"), self._emitter)
        self._chars_left -= len(event.text)
        if event.text:
            item.add(event.text, self._emitter)
        if event.signature is not None:
            item.signature = event.signature
            self._close_item()

    def _add_web_tool_use(self, event: WebToolUse) -> None:
        self._close_item()
        index, item_id = self._allocate_item("ws")
        item = web_item(item_id, event)
        write_web_item(index, item, self._emitter)
        self._output[index] = item

    def _start_call(self, event: ToolCallStart) -> None:
        self._close_item()
        if not self._client_options.is_whole(event.tool_call_name):
            self._calls[event.index] = FunctionItem(
                *self._allocate_item("fc"), event, self._client_options, self._emitter
            )

    def _add_arguments(self, event: ToolCallChunk) -> None:
        self._chars_left -= len(event.tool_call_arguments_chunk)
        item = self._calls.get(event.index)
        if item is not None:
            item.add(event.tool_call_arguments_chunk, self._emitter)

    def _end_call(self, event: ToolCallEnd) -> None:
        item = self._calls.pop(event.index, None)
        event = self._client_options.check(event)
        self._outcomes.record(event)
        if item is not None:
            ended = item.end(event, self._emitter)
            if ended is None:
                self._failed_calls.append(item)
            else:
                self._output[item.index] = ended
        elif event.error is None:
            place = self._allocate_item(call_item_prefix(event.tool_call_name, self._client_options))
            self._output[place[0]] = write_whole_call(*place, event, self._client_options, self._emitter)

    def _allocate_item(self, prefix: str) -> tuple[int, str]:
        """Return index and id of the next item."""
        index = self._item_count
        self._item_count += 1
        return index, make_item_id(prefix, self._identity, index)

    def _close_item(self, status: str = "completed") -> None:
        if self._item is not None:
            self._output[self._item.index] = self._item.close(self._emitter, status)
            self._item = None

    def _end(self, reason: StopReason) -> None:
        self._done = True
        self._close_item("incomplete" if reason in INCOMPLETE_REASONS else "completed")
        reason = "max_tokens" if self._outcomes.truncated else reason
        for item in self._failed_calls:
            ended = item.end_incomplete(self._emitter)
            if reason in INCOMPLETE_REASONS:  # of a complete response, the official client reads all arguments
                self._output[item.index] = ended
        response = end_response(self._response, self._ended_items(), self._usage, reason, self._identity.elapsed())
        store_response(self._request, self._identity, response)
        self._emitter.emit(f"response.{response['status']}", {"response": response})

    def _ended_items(self) -> list[JSON]:
        """Return the items that have ended, in the order in which they began."""
        return [item for _, item in sorted(self._output.items())]

    def _fail(self, error: Error) -> None:
        self._done = True
        response = fail_response(self._response, self._ended_items(), error)
        self._emitter.emit("response.failed", {"response": response})
        self._emitter.emit("error", error_event_fields(error))


def make_item_id(prefix: str, identity: ReplyIdentity, index: int) -> str:
    """Return an item's id, which is derived from the id of its response."""
    return f"{prefix}_{identity.id.removeprefix('resp_')}{index:02x}"


def write_reply(request: Request, identity: ReplyIdentity, replies: Sequence[Reply]) -> bytes:
    """Write a whole reply of one choice. Raises `UpstreamError` where it ended with an error."""
    raise_error(replies[0])
    calls = tuple(map(ResponsesClientOptions.of(request).check, replies[0].tool_calls))
    reply = msgspec.structs.replace(replies[0], tool_calls=calls)
    reason = "max_tokens" if is_truncated(reply) else reply.stop_reason
    output = _write_output(request, identity, reply, reason)
    response = end_response(begin_response(request, identity), output, reply.usage, reason, identity.elapsed())
    if (failure := call_failure(reply)) is not None:
        response = mark_unusable(response, failure)
    store_response(request, identity, response)
    return write_json(response)


def _write_output(
    request: Request, identity: ReplyIdentity, reply: Reply, reason: StopReason | None
) -> list[dict[str, JSON]]:
    client_options = ResponsesClientOptions.of(request)
    items: list[dict[str, JSON]] = []
    parts = list(split_text(visible_text(reply), reply.web_tool_uses))
    is_limited = reason in INCOMPLETE_REASONS and not (reply.tool_calls and reply.text)
    is_cut = is_limited or call_failure(reply) is not None
    if reply.reasoning:
        status = "incomplete" if is_cut and not parts else "completed"
        items.append(reasoning_item(make_item_id("rs", identity, 0), reply.reasoning, None, status))
    for part in parts:
        if isinstance(part, str):
            status = "incomplete" if is_cut and part is parts[-1] else "completed"
            items.append(message_item(make_item_id("msg", identity, len(items)), part, status))
        else:
            items.append(web_item(make_item_id("ws", identity, len(items)), part))
    return items + [
        call_item(
            make_item_id(call_item_prefix(call.tool_call_name, client_options), identity, at), call, client_options
        )
        for at, call in enumerate(valid_calls(reply), start=len(items))
    ]
