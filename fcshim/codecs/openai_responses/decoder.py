"""The upstream's reply: events of the Responses API become events of ours.

Rule: items are told apart by their index, or by their ids where an imitation gives no index (llama-server's), so that
interleaved ones stay apart; what an event brings whole counts only where no piece of it came before. The response's own
status ends the choice.
Neighbours: `single` drives it, `wire` types what it reads, the shared choice reader puts calls in order.
"""

from collections.abc import Callable

import msgspec

from fcshim.codecs.openai_chat.choice_reader import ChoiceReader
from fcshim.codecs.openai_chat.client_options import CUSTOM_ARGUMENT
from fcshim.codecs.openai_chat.wire import ChatDelta, FunctionDelta, ToolCallDelta
from fcshim.codecs.openai_responses.client_options import flat_name
from fcshim.codecs.openai_responses.wire import (
    ResponseObject,
    ResponsesEvent,
    ResponsesItem,
    ResponsesPart,
    decode_event,
)
from fcshim.codecs.single_choice import read_document, upstream_failure
from fcshim.codecs.upstream_errors import find_error_message
from fcshim.events import JSON, Event, Reasoning, Usage

_TEXT_EVENTS = frozenset(["response.output_text.delta", "response.refusal.delta"])
_REASONING_EVENTS = frozenset(["response.reasoning_text.delta", "response.reasoning_summary_text.delta"])
_END_EVENTS = frozenset(["response.completed", "response.incomplete"])
_FINISH_REASONS: dict[JSON, str] = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponsesDecoder:
    """Reads the events of one reply."""

    def __init__(self, new_id: Callable[[], str], call_chars: int) -> None:
        self.choice = ChoiceReader(new_id, call_chars)
        self.done = False
        self._item_numbers: dict[int | str, int] = {}  # of items, by whatever tells them apart
        self._last_number = 0
        self._with_content: set[int] = set()  # items of which pieces came
        self._begun_calls: set[int] = set()  # items that are calls and have begun
        self._summary_parts: set[tuple[int, int]] = set()  # parts of summaries, by item and place

    def read(self, document: bytes, out: list[Event], *, whole: bool) -> None:
        """Read one event, or a whole response. Raises `UpstreamError`."""
        if document.startswith(b"[DONE]"):
            return
        piece = read_document(document, decode_event)
        if whole or (piece.type is None and piece.object == "response"):
            self._read_response(piece, out)
        elif piece.type is not None:
            self._read_event(piece.type, piece, out)
        elif piece.error is not None:
            raise upstream_failure(find_error_message({"error": piece.error}) or "no reason given")

    def _read_event(self, kind: str, piece: ResponsesEvent, out: list[Event]) -> None:
        if kind in _TEXT_EVENTS:
            self._with_content.add(self._item_number(piece))
            self.choice.read(ChatDelta(content=_delta_text(piece.delta)), out)
        elif kind in _REASONING_EVENTS:
            self._read_reasoning(piece, out)
        elif kind == "response.function_call_arguments.delta":
            self._read_arguments(self._item_number(piece), FunctionDelta(None, _delta_text(piece.delta)), out)
        elif kind == "response.output_item.added" and piece.item is not None:
            self._begin_item(self._item_number(piece), piece.item, out)
        elif kind == "response.output_item.done" and piece.item is not None:
            self._end_item(self._item_number(piece), piece.item, out)
        elif kind in _END_EVENTS and piece.response is not None:
            self._read_response(piece.response, out)
        elif kind in ("response.failed", "response.cancelled", "error"):
            raise upstream_failure(_failure_message(piece))
        elif kind == "response.created":
            self.choice.started = True

    def _item_number(self, piece: ResponsesEvent) -> int:
        """Give the number of the item that an event is about: the last one's where nothing tells."""
        item = piece.item or ResponsesItem()
        ids = [name for name in (piece.item_id, item.id, item.call_id) if name]
        keys = ids if piece.output_index is None else [piece.output_index]
        known = [self._item_numbers[key] for key in keys if key in self._item_numbers]
        if keys:
            self._last_number = known[0] if known else len(self._item_numbers)
        for key in (*keys, *ids):
            self._item_numbers.setdefault(key, self._last_number)
        return self._last_number

    def _begin_item(self, index: int, item: ResponsesItem, out: list[Event]) -> None:
        """Begin a call; its arguments come in pieces, or whole when it is done."""
        if item.type == "function_call":
            self._begun_calls.add(index)
            self.choice.read(_call_delta(index, item, None), out)

    def _end_item(self, index: int, item: ResponsesItem, out: list[Event]) -> None:
        if index not in self._with_content:
            self._read_whole_item(index, item, out)
        elif item.type == "reasoning" and item.encrypted_content:
            self.choice.emit_text(Reasoning("", item.encrypted_content), out)

    def _read_whole_item(self, index: int, item: ResponsesItem, out: list[Event]) -> None:
        self._with_content.add(index)
        match item.type:
            case "message":
                self.choice.read(ChatDelta(content=_join_parts(item.content, "")), out)
            case "reasoning":
                text = _join_parts(item.content, "") or _join_parts(item.summary, "\n\n")
                self.choice.emit_text(Reasoning(text, item.encrypted_content), out)
            case "function_call" if index in self._begun_calls:
                self._read_arguments(index, FunctionDelta(None, item.arguments), out)
            case "function_call":
                self.choice.read(_call_delta(index, item, item.arguments), out)
            case "custom_tool_call":
                arguments = msgspec.json.encode({CUSTOM_ARGUMENT: item.input or ""}).decode()
                self.choice.read(_call_delta(index, item, arguments), out)

    def _read_reasoning(self, piece: ResponsesEvent, out: list[Event]) -> None:
        """Take reasoning; each further part of a summary is a paragraph of its own."""
        number = self._item_number(piece)
        place = (number, piece.summary_index)
        gap = "\n\n" if piece.summary_index > 0 and place not in self._summary_parts else ""
        self._summary_parts.add(place)
        self._with_content.add(number)
        self.choice.emit_text(Reasoning(gap + _delta_text(piece.delta)), out)

    def _read_arguments(self, index: int, function: FunctionDelta, out: list[Event]) -> None:
        self._with_content.add(index)
        self.choice.read(ChatDelta(tool_calls=[ToolCallDelta(index, None, function)]), out)

    def _read_response(self, response: ResponseObject, out: list[Event]) -> None:
        """End with the response object; items that never came by themselves are taken from it."""
        if response.status in ("failed", "cancelled") or (response.error is not None and response.status is None):
            raise upstream_failure(
                find_error_message({"error": response.error}) or f"the response is {response.status}"
            )
        if response.status is None and response.output is None:
            raise upstream_failure("its answer is no response")
        if not self._with_content:
            for index, item in enumerate(response.output or ()):
                self._read_whole_item(index, item, out)
        self.done = True
        reason = (response.incomplete_details or {}).get("reason")
        finish = _FINISH_REASONS.get(reason, "length") if response.status == "incomplete" else "stop"
        events: list[Event] = []
        self.choice.finish(finish, None, events)
        stop = events.pop()
        out += [*events, *([read_usage(response.usage)] if response.usage else []), stop]


def _call_delta(index: int, item: ResponsesItem, arguments: str | dict[str, JSON] | None) -> ChatDelta:
    name = flat_name(item.namespace or "", item.name or "")
    return ChatDelta(tool_calls=[ToolCallDelta(index, item.call_id, FunctionDelta(name, arguments))])


def _failure_message(piece: ResponsesEvent) -> str:
    """Find what an event tells of a failure: in its response, in its `error`, or beside it."""
    told = piece.response.error if piece.response is not None else piece.error
    beside = {"message": piece.message, "code": piece.code} if piece.message else None
    return find_error_message({"error": told or beside}) or "no reason given"


def _join_parts(parts: list[ResponsesPart] | None, separator: str) -> str:
    return separator.join(part.text or part.refusal or "" for part in parts or ())


def _delta_text(delta: JSON) -> str:
    return delta if isinstance(delta, str) else ""


def read_usage(usage: dict[str, JSON]) -> Usage:
    """Read token counts; whatever is missing or no number counts as 0."""
    return Usage(
        input_tokens=_token_count(usage, "input_tokens"),
        output_tokens=_token_count(usage, "output_tokens"),
        cached_tokens=_token_count(usage.get("input_tokens_details"), "cached_tokens"),
        reasoning_tokens=_token_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )


def _token_count(counts: JSON, name: str) -> int:
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and value > 0 else 0
