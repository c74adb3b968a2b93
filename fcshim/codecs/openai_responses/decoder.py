"""Decoding the upstream's reply: events of the Responses API become unified events.

Rule: items are identified by their index, or by their ids where a compatible server sends no index (llama-server), so
that interleaved items stay separate. The complete text of a `done` event counts only if no delta came before. The
status of the response object ends the choice.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from fcshim.codecs.choice_reader import ChoiceReader
from fcshim.codecs.json_text import json_reader, read_count
from fcshim.codecs.openai_chat.request import CUSTOM_ARGUMENT
from fcshim.codecs.openai_responses.request_tools import flat_name
from fcshim.codecs.single_choice import read_document, upstream_failure
from fcshim.codecs.upstream_errors import find_error_message
from fcshim.events import JSON, Event, Reasoning, StopReason, Text, Usage

# The upstream's JSON: only the fields that become events. Unknown fields are skipped, missing ones have no effect.


class ResponsesPart(msgspec.Struct, gc=False):
    """A part of an item's content."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class ResponsesItem(msgspec.Struct, gc=False):
    """An item of the output."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | dict[str, JSON] | None = None
    input: str | None = None
    content: list[ResponsesPart] | None = None
    summary: list[ResponsesPart] | None = None
    encrypted_content: str | None = None


class ResponseObject(msgspec.Struct, gc=False):
    """The response object inside an event."""

    status: str | None = None
    output: list[ResponsesItem] | None = None
    usage: dict[str, JSON] | None = None
    incomplete_details: dict[str, JSON] | None = None
    error: JSON = None


class ResponsesEvent(ResponseObject, gc=False):
    """One event, or a whole response."""

    type: str | None = None
    object: str | None = None
    output_index: int | None = None
    item_id: str | None = None
    summary_index: int = 0
    item: ResponsesItem | None = None
    delta: JSON = None
    arguments: str | None = None
    response: ResponseObject | None = None
    message: str | None = None
    code: str | None = None


decode_event = json_reader(ResponsesEvent)


_TEXT_EVENTS = frozenset(["response.output_text.delta", "response.refusal.delta"])
_REASONING_EVENTS = frozenset(["response.reasoning_text.delta", "response.reasoning_summary_text.delta"])
_ITEM_EVENTS = frozenset(["response.output_item.added", "response.output_item.done"])
_END_EVENTS = frozenset(["response.completed", "response.incomplete"])
_Arguments: TypeAlias = str | dict[str, JSON] | None


class ResponsesDecoder:
    """Decodes the events of one reply."""

    def __init__(self, new_id: Callable[[], str], call_chars: int) -> None:
        self.choice = ChoiceReader(new_id, call_chars)
        self.done = False
        self._item_numbers: dict[int | str, int] = {}  # by output index and by id
        self._last_number = 0
        self._with_content: set[int] = set()  # items whose content has come, whole or in deltas
        self._begun_calls: set[int] = set()  # items that are calls and were added
        self._summary_parts: set[tuple[int, int]] = set()  # item number and summary index

    def read(self, document: bytes, out: list[Event], *, whole: bool) -> None:
        """Read one event, or a whole response. Raises `UpstreamError`."""
        if document.startswith(b"[DONE]"):
            return
        event = read_document(document, decode_event)
        if whole or (event.type is None and event.object == "response"):
            self._read_response(event, out)
        elif event.type is not None:
            self._read_event(event.type, event, out)
        elif event.error is not None:
            raise upstream_failure(find_error_message({"error": event.error}) or "no reason given")

    def _read_event(self, kind: str, event: ResponsesEvent, out: list[Event]) -> None:
        if kind in _TEXT_EVENTS:
            self._with_content.add(self._item_number(event))
            self.choice.emit_text(Text(_delta_text(event.delta)), out)
        elif kind in _REASONING_EVENTS:
            self._read_reasoning(event, out)
        elif kind == "response.function_call_arguments.delta":
            self._read_arguments(self._item_number(event), _delta_text(event.delta), out)
        elif kind in _ITEM_EVENTS and event.item is not None:
            self._read_item(kind, self._item_number(event), event.item, out)
        elif kind in _END_EVENTS and event.response is not None:
            self._read_response(event.response, out)
        elif kind in ("response.failed", "response.cancelled", "error"):
            nested = event.response.error if event.response is not None else event.error
            own = {"message": event.message, "code": event.code} if event.message else None
            raise upstream_failure(find_error_message({"error": nested or own}) or "no reason given")
        elif kind == "response.created":
            self.choice.started = True  # a stream that ends after this event is reported as broken off, not as empty

    def _item_number(self, event: ResponsesEvent) -> int:
        """Return the number of the event's item: the last item's where the event has neither index nor id."""
        item = event.item or ResponsesItem()
        ids = [name for name in (event.item_id, item.id, item.call_id) if name]
        keys = ids if event.output_index is None else [event.output_index]
        known = [self._item_numbers[key] for key in keys if key in self._item_numbers]
        if keys:
            self._last_number = known[0] if known else len(self._item_numbers)
        for key in (*keys, *ids):
            self._item_numbers.setdefault(key, self._last_number)
        return self._last_number

    def _read_item(self, kind: str, index: int, item: ResponsesItem, out: list[Event]) -> None:
        """Read the start or the end of an item; a call's arguments come in deltas, or whole in the `done` event."""
        if kind == "response.output_item.added":
            if item.type == "function_call":
                self._begun_calls.add(index)
                self._read_call(index, item, None, out)
        elif index not in self._with_content:
            self._read_whole_item(index, item, out)
        elif item.type == "reasoning" and item.encrypted_content:
            self.choice.emit_text(Reasoning("", item.encrypted_content), out)

    def _read_whole_item(self, index: int, item: ResponsesItem, out: list[Event]) -> None:
        self._with_content.add(index)
        match item.type:
            case "message":
                self.choice.emit_text(Text(_join_parts(item.content, "")), out)
            case "reasoning":
                text = _join_parts(item.content, "") or _join_parts(item.summary, "\n\n")
                self.choice.emit_text(Reasoning(text, item.encrypted_content), out)
            case "function_call" if index in self._begun_calls:
                self._read_arguments(index, item.arguments, out)
            case "function_call":
                self._read_call(index, item, item.arguments, out)
            case "custom_tool_call":
                arguments = msgspec.json.encode({CUSTOM_ARGUMENT: item.input or ""}).decode()
                self._read_call(index, item, arguments, out)

    def _read_reasoning(self, event: ResponsesEvent, out: list[Event]) -> None:
        """Read reasoning; each part of a summary after the first begins a new paragraph."""
        number = self._item_number(event)
        part = (number, event.summary_index)
        gap = "\n\n" if event.summary_index > 0 and part not in self._summary_parts else ""
        self._summary_parts.add(part)
        self._with_content.add(number)
        self.choice.emit_text(Reasoning(gap + _delta_text(event.delta)), out)

    def _read_call(self, index: int, item: ResponsesItem, arguments: _Arguments, out: list[Event]) -> None:
        name = flat_name(item.namespace or "", item.name or "")
        self.choice.read_call(index, out, call_id=item.call_id, name=name, arguments=arguments)

    def _read_arguments(self, index: int, arguments: _Arguments, out: list[Event]) -> None:
        self._with_content.add(index)
        self.choice.read_call(index, out, arguments=arguments)

    def _read_response(self, response: ResponseObject, out: list[Event]) -> None:
        """End the choice with the response object; its items are read if no item came in an event of its own."""
        if response.status in ("failed", "cancelled") or (response.error is not None and response.status is None):
            raise upstream_failure(
                find_error_message({"error": response.error}) or f"the response is {response.status}"
            )
        if response.status is None and response.output is None:
            raise upstream_failure("its answer is not a response")
        if not self._with_content:
            for index, item in enumerate(response.output or ()):
                self._read_whole_item(index, item, out)
        self.done = True
        self.choice.finish(_stop_reason(response), out, read_usage(response.usage) if response.usage else None)


def _stop_reason(response: ResponseObject) -> StopReason:
    if response.status != "incomplete":
        return "complete"
    filtered = (response.incomplete_details or {}).get("reason") == "content_filter"
    return "content_filter" if filtered else "max_tokens"


def _join_parts(parts: list[ResponsesPart] | None, separator: str) -> str:
    return separator.join(part.text or part.refusal or "" for part in parts or ())


def _delta_text(delta: JSON) -> str:
    return delta if isinstance(delta, str) else ""


def read_usage(usage: dict[str, JSON]) -> Usage:
    """Read token counts; a count that is missing or not a positive integer is 0."""
    return Usage(
        input_tokens=read_count(usage, "input_tokens"),
        output_tokens=read_count(usage, "output_tokens"),
        cached_tokens=read_count(usage.get("input_tokens_details"), "cached_tokens"),
        reasoning_tokens=read_count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )
