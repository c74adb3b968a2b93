"""Building the items of a response: messages, reasoning and calls, whole or event by event.

Rule: an item keeps its index and its id in all its events; the item of the `done` event is repeated unchanged in the
final output. A call that ended with an error is there only if the response is `incomplete`, too.
"""

import base64

from fcshim.codecs.openai_chat.request import custom_text
from fcshim.codecs.openai_responses.builtin_tools import BUILTIN_TOOLS, call_fields
from fcshim.codecs.openai_responses.emitter import DeltaTemplate, Emitter
from fcshim.codecs.openai_responses.request_tools import ResponsesClientOptions
from fcshim.codecs.outcome import BufferedArguments
from fcshim.events import JSON, ToolCallEnd, ToolCallStart, WebToolUse

_STATUS = "completed"
_COMPACTION = "fcshim_1."
"""Begins the content of a compaction item that is ours; the number is that of its form."""
_ITEM_PREFIXES = {"shell": "sh", "local_shell": "lsh", "apply_patch": "apc", "tool_search": "tsc"}


def message_item(item_id: str, text: str, status: str = _STATUS) -> dict[str, JSON]:
    """Return a whole message."""
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": [_text_part(text)]}


def reasoning_item(item_id: str, text: str, signature: str | None, status: str = _STATUS) -> dict[str, JSON]:
    """Return whole reasoning; `signature` is the provider's encrypted form, which the client sends back."""
    item: dict[str, JSON] = {
        "id": item_id,
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": text}],
        "status": status,
    }
    return item if signature is None else {**item, "encrypted_content": signature}


def call_item(item_id: str, call: ToolCallEnd, client_options: ResponsesClientOptions) -> dict[str, JSON]:
    """Return a whole call, in the form in which the client offered the tool."""
    names = client_options.client_name(call.tool_call_name)
    arguments = call.tool_call_arguments_complete
    if call.tool_call_name in client_options.custom:
        text = custom_text(arguments) or ""
        return {"id": item_id, "type": "custom_tool_call", "call_id": call.tool_call_id, **names, "input": text}
    if call.tool_call_name in client_options.builtin:
        row = BUILTIN_TOOLS[call.tool_call_name]
        content = call_fields(call.tool_call_name, arguments) or {}
        return {"id": item_id, "type": row.call_type, "call_id": call.tool_call_id, **content, "status": _STATUS}
    fields = {"call_id": call.tool_call_id, **names, "arguments": arguments, "status": _STATUS}
    return {"id": item_id, "type": "function_call", **fields}


def web_item(item_id: str, use: WebToolUse) -> dict[str, JSON]:
    """Return the item of a web search, or of a page that was opened."""
    action: dict[str, JSON] = {"type": "open_page", "url": use.subject}
    if use.action == "search":
        sources = [{"type": "url", "url": result.url} for result in use.results]
        action = {"type": "search", "query": use.subject, "queries": [use.subject], "sources": sources}
    status = _STATUS if use.error is None else "failed"
    return {"id": item_id, "type": "web_search_call", "status": status, "action": action}


def write_web_item(index: int, item: dict[str, JSON], emitter: Emitter) -> None:
    """Write all events of a web search; it has ended already."""
    begun = {**item, "status": "in_progress"}
    emitter.emit("response.output_item.added", {"output_index": index, "item": begun})
    for state in ("in_progress", "searching", "completed"):
        emitter.emit(f"response.web_search_call.{state}", {"output_index": index, "item_id": item["id"]})
    emitter.emit("response.output_item.done", {"output_index": index, "item": item})


def call_item_prefix(name: str, client_options: ResponsesClientOptions) -> str:
    """Return the prefix of the item id of a call."""
    return _ITEM_PREFIXES[name] if name in client_options.builtin else "ctc" if name in client_options.custom else "fc"


def _text_part(text: str) -> dict[str, JSON]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class _TextItem:
    """Base of message and reasoning: an item with one part, whose text comes in deltas."""

    def __init__(self, index: int, item_id: str, *, kind: str, after: bytes = b"") -> None:
        self.id = item_id
        self.index = index
        self.fragments: list[str] = []
        self.kind = kind
        self.location: dict[str, JSON] = {"item_id": item_id, "output_index": index, "content_index": 0}
        self._template = DeltaTemplate(f"response.{kind}.delta", self.location, after)

    def begin(self, emitter: Emitter, item: dict[str, JSON], part: dict[str, JSON]) -> None:
        """Write the events that add the item and its part."""
        emitter.emit("response.output_item.added", {"output_index": self.index, "item": item})
        emitter.emit("response.content_part.added", {**self.location, "part": part})

    def add(self, text: str, emitter: Emitter) -> None:
        """Write a delta."""
        self.fragments.append(text)
        emitter.emit_delta(self._template, text)

    def finish(self, emitter: Emitter, item: dict[str, JSON], part: dict[str, JSON], *, extra: dict[str, JSON]) -> None:
        """Write the `done` events of the text, the part and the item."""
        emitter.emit(f"response.{self.kind}.done", {**self.location, "text": part["text"], **extra})
        emitter.emit("response.content_part.done", {**self.location, "part": part})
        emitter.emit("response.output_item.done", {"output_index": self.index, "item": item})


class MessageItem(_TextItem):
    """A message that is being streamed."""

    def __init__(self, index: int, item_id: str, emitter: Emitter) -> None:
        super().__init__(index, item_id, kind="output_text", after=b',"logprobs":[]')
        item = {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        self.begin(emitter, item, _text_part(""))

    def close(self, emitter: Emitter, status: str) -> dict[str, JSON]:
        """Write the end of the item; return the item for the output."""
        item = message_item(self.id, "".join(self.fragments), status)
        self.finish(emitter, item, item["content"][0], extra={"logprobs": []})
        return item


class ReasoningItem(_TextItem):
    """Reasoning that is being streamed; `signature` is set when it comes, before `close`."""

    def __init__(self, index: int, item_id: str, emitter: Emitter) -> None:
        super().__init__(index, item_id, kind="reasoning_text")
        self.signature: str | None = None
        item = {"id": item_id, "type": "reasoning", "status": "in_progress", "summary": [], "content": []}
        self.begin(emitter, item, {"type": "reasoning_text", "text": ""})

    def close(self, emitter: Emitter, status: str) -> dict[str, JSON]:
        """Write the end of the item; return the item for the output."""
        item = reasoning_item(self.id, "".join(self.fragments), self.signature, status)
        self.finish(emitter, item, item["content"][0], extra={})
        return item


class FunctionItem:
    """A function call whose arguments come in fragments."""

    def __init__(
        self, index: int, item_id: str, start: ToolCallStart, client_options: ResponsesClientOptions, emitter: Emitter
    ) -> None:
        self._id = item_id
        self.index = index
        self._client_options = client_options
        self._location: dict[str, JSON] = {"item_id": item_id, "output_index": index}
        self._template = DeltaTemplate("response.function_call_arguments.delta", self._location)
        self._arguments = BufferedArguments()
        names = client_options.client_name(start.tool_call_name)
        item = {"id": item_id, "type": "function_call", "call_id": start.tool_call_id, **names, "arguments": ""}
        self._item = item
        emitter.emit("response.output_item.added", {"output_index": index, "item": {**item, "status": "in_progress"}})

    def add(self, fragment: str, emitter: Emitter) -> None:
        """Write a fragment of the arguments, except what must be buffered."""
        if text := self._arguments.feed(fragment):
            emitter.emit_delta(self._template, text)

    def end(self, call: ToolCallEnd, emitter: Emitter) -> dict[str, JSON] | None:
        """End the call: return the item for the output, or invalidate the sent arguments and return None."""
        if rest := self._arguments.close(valid=call.error is None):
            emitter.emit_delta(self._template, rest)
        if call.error is not None:
            return None
        item = call_item(self._id, call, self._client_options)
        done = {**self._location, "name": item["name"], "arguments": item["arguments"]}
        emitter.emit("response.function_call_arguments.done", done)
        emitter.emit("response.output_item.done", {"output_index": self.index, "item": item})
        return item

    def end_incomplete(self, emitter: Emitter) -> dict[str, JSON]:
        """Write the end of a failed call, and return the item: the official client raises if an item stays open."""
        item = {**self._item, "arguments": self._arguments.sent_text(), "status": "incomplete"}
        emitter.emit("response.output_item.done", {"output_index": self.index, "item": item})
        return item


def write_whole_call(
    index: int, item_id: str, call: ToolCallEnd, client_options: ResponsesClientOptions, emitter: Emitter
) -> dict[str, JSON]:
    """Write all events of a call of a custom or built-in tool, and return the item for the output.

    It is extracted from the JSON arguments, which is possible only when they are complete.
    """
    item = call_item(item_id, call, client_options)
    if call.tool_call_name in client_options.builtin:
        emitter.emit("response.output_item.added", {"output_index": index, "item": {**item, "status": "in_progress"}})
        emitter.emit("response.output_item.done", {"output_index": index, "item": item})
        return item
    at: dict[str, JSON] = {"item_id": item_id, "output_index": index}
    emitter.emit("response.output_item.added", {"output_index": index, "item": {**item, "input": ""}})
    emitter.emit_delta(DeltaTemplate("response.custom_tool_call_input.delta", at), item["input"])
    emitter.emit("response.custom_tool_call_input.done", {**at, "input": item["input"]})
    emitter.emit("response.output_item.done", {"output_index": index, "item": item})
    return item


def compaction_item(item_id: str, summary: str) -> dict[str, JSON]:
    """Return the item that sums up a conversation; clients send it back as it is."""
    content = _COMPACTION + base64.urlsafe_b64encode(summary.encode()).decode()
    return {"id": item_id, "type": "compaction", "encrypted_content": content}


def read_compaction(content: JSON) -> str:
    """Return the summary in an item's `encrypted_content`; empty if another server has written it."""
    if not isinstance(content, str) or not content.startswith(_COMPACTION):
        return ""
    try:
        return base64.b64decode(content.removeprefix(_COMPACTION), altchars=b"-_", validate=True).decode()
    except ValueError:
        return ""
