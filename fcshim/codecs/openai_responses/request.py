"""Reading the client's request: a JSON body of the Responses API becomes a `Request`.

Rule: fields that `Request` has are validated; the whole body is kept, because the response repeats its fields. An
unknown field is never an error; a known feature that is not supported is rejected by name. All items of one turn of the
model, calls included, become one message, as in other APIs; calls and results keep their order. Unknown types of items
and parts are skipped. A result without its call is the API's documented error, unless a skipped item may have been the
call.
"""

from typing import Final

import msgspec

from fcshim.codecs.body_fields import BodyFields, FieldRules
from fcshim.codecs.json_text import (
    RequestLimits,
    check_arguments,
    expect,
    field_error,
    read_field,
    read_integer,
    read_number,
    read_object,
    read_required,
)
from fcshim.codecs.openai_chat.request import CUSTOM_ARGUMENT, parse_media_url
from fcshim.codecs.openai_responses.builtin_tools import BUILTIN_CALLS, BUILTIN_OUTPUTS, read_call, read_output
from fcshim.codecs.openai_responses.input_resolver import InputResolver
from fcshim.codecs.openai_responses.items import read_compaction
from fcshim.codecs.openai_responses.request_tools import flat_name, flat_names, read_tool_choice, read_tools
from fcshim.codecs.reply_store import Lookups
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Part,
    Request,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_ROLES = "'user', 'assistant', 'system' or 'developer'"


_COMPACTED = "Summary of the conversation up to here:\n"
"""Begins the turn of the model that stands for a compaction."""


class ItemReader:
    """Reads items in order. `loaded_tools` are the tools that items contain; `skipped`: whether an item was skipped."""

    def __init__(self, *, skipped: bool = False) -> None:
        self.skipped = skipped
        self.loaded_tools: list[JSON] = []
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._call_ids: dict[str, str] = {}  # by item id
        self._text: list[Part] = []
        self._calls: dict[str, ToolCall] = {}  # of the current turn, by id
        self._reasoning: list[str] = []
        self._signature = ""
        self._ends_with_text = False  # whether the current turn of the model ends with text

    def read(self, item: JSON, path: str) -> None:
        """Take the next item. Raises `RequestError`."""
        fields = expect(item, dict, path)
        match fields.get("type", "message"):
            case "message":
                self._read_message(fields, path)
            case "function_call":
                arguments = read_field(fields, "arguments", str, "", f"{path}.")
                self._read_call(fields, check_arguments(arguments, f"{path}.arguments"), path)
            case "custom_tool_call":
                text = read_field(fields, "input", str, "", f"{path}.")
                self._read_call(fields, msgspec.json.encode({CUSTOM_ARGUMENT: text}).decode(), path)
            case "function_call_output" | "custom_tool_call_output":
                self._read_result(fields, path)
            case "reasoning":
                self._read_reasoning(fields)
            case "compaction" | "compaction_summary":
                self._read_compaction(fields)
            case "additional_tools" | "tool_search_output":
                self._read_found_tools(fields, path)
            case str(kind) if kind in BUILTIN_CALLS and fields.get("call_id") is not None:
                self._read_call({**fields, "name": BUILTIN_CALLS[kind]}, read_call(fields, path), path)
            case str(kind) if kind in BUILTIN_OUTPUTS:
                self._read_result({**fields, "output": read_output(fields, path)}, path)
            case _:
                self.skipped = True

    def close(self) -> tuple[Message, ...]:
        """Return all messages."""
        self._end_turn()
        return tuple(self._messages)

    def _read_message(self, item: dict[str, JSON], path: str) -> None:
        content = _read_content(item.get("content"), f"{path}.content")
        match item.get("role"):
            case "assistant":
                self._add_text(content)
            case "user":
                self._append(UserMessage(content))
            case "system" | "developer":
                self._append(SystemMessage(content))
            case role:
                raise field_error(role, _ROLES, f"{path}.role")

    def _add_text(self, content: Content) -> None:
        """Add text of the model: a second text in a row begins a new message, text after a call does not."""
        if self._ends_with_text:
            self._end_turn()
        self._text += content
        self._ends_with_text = True

    def _read_reasoning(self, item: dict[str, JSON]) -> None:
        if self._ends_with_text and not self._calls:
            self._end_turn()
        signature = item.get("encrypted_content")
        self._reasoning.append(_join_texts(item.get("content")) or _join_texts(item.get("summary")))
        self._signature = signature if isinstance(signature, str) else self._signature

    def _read_call(self, item: dict[str, JSON], arguments: str, path: str) -> None:
        call_id = read_required(item, "call_id", str, path)
        name = flat_name(read_field(item, "namespace", str, "", f"{path}."), read_required(item, "name", str, path))
        if call_id in self._calls:  # engines begin their counts again in each turn
            raise RequestError(f"Duplicate tool call found with call_id {call_id[:100]}.", param="input")
        self._names[call_id] = name
        if isinstance(item.get("id"), str):
            self._call_ids[item["id"]] = call_id
        self._calls[call_id] = ToolCall(call_id, name, arguments)
        self._ends_with_text = False

    def _read_result(self, item: dict[str, JSON], path: str, loads: tuple[str, ...] = ()) -> None:
        output = item.get("output")
        if not isinstance(output, str | list | None):
            output = msgspec.json.encode(output).decode()
        content = _read_content(output, f"{path}.output")
        if item.get("call_id") is None and item.get("name") is not None:
            self._append(UserMessage(_describe_output(item, content, path)))
            return
        if item.get("call_id") is None and item.get("type") == "local_shell_call_output":
            own_id = read_required(item, "id", str, path)  # it is its call's id, of either kind
            call_id = self._call_ids.get(own_id, own_id)
        else:
            call_id = read_required(item, "call_id", str, path)
        if call_id not in self._names and not self.skipped:
            raise RequestError(
                f"No tool call found for function call output with call_id {call_id[:100]}.", param="input"
            )
        is_error = item.get("status") == "failed"
        self._append(ToolMessage(call_id, content, self._names.get(call_id, ""), is_error, loads))

    def _read_compaction(self, item: dict[str, JSON]) -> None:
        summary = read_compaction(item.get("encrypted_content"))
        self.skipped = self.skipped or not summary
        if summary:
            self._append(AssistantMessage((TextPart(_COMPACTED + summary),)))

    def _read_found_tools(self, item: dict[str, JSON], path: str) -> None:
        """Load the tools that a search has found; a search by the client has a call that needs a result."""
        found = read_field(item, "tools", list, [], f"{path}.")
        self.loaded_tools += found
        if item.get("call_id") is not None:
            names = tuple(flat_names(found))
            text = f"These tools can be called now: {', '.join(names)}" if names else "No tool was found."
            self._read_result({**item, "output": text}, path, names)

    def _append(self, message: Message) -> None:
        self._end_turn()
        self._messages.append(message)

    def _end_turn(self) -> None:
        if self._text or self._calls or self._ends_with_text:
            text, calls = tuple(self._text), tuple(self._calls.values())
            self._messages.append(AssistantMessage(text, calls, "".join(self._reasoning), self._signature))
        self._text, self._calls, self._reasoning, self._signature = [], {}, [], ""
        self._ends_with_text = False


def _describe_output(item: dict[str, JSON], content: Content, path: str) -> Content:
    """Convert an output without a call to a document of the client; Codex reports its own actions so."""
    name = flat_name(read_field(item, "namespace", str, "", f"{path}."), read_required(item, "name", str, path))
    parts = (TextPart(part.text, document=True) if isinstance(part, TextPart) else part for part in content)
    return (TextPart(f"Output of {name}:\n", document=True), *parts)


def _read_content(content: JSON, path: str) -> Content:
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    if not isinstance(content, list):
        raise field_error(content, "a string or an array of parts", path)
    parts = (_read_part(expect(part, dict, f"{path}[{at}]"), f"{path}[{at}].") for at, part in enumerate(content))
    return tuple(part for part in parts if part is not None)


def _read_part(source: dict[str, JSON], path: str) -> Part | None:
    """Read one part; None where its type is unknown."""
    match source.get("type"):
        case "input_text" | "output_text" | "text":
            return TextPart(expect(source.get("text"), str, f"{path}text"))
        case "refusal":
            return TextPart(read_field(source, "refusal", str, "", path))
        case "input_image":
            image = source.get("image_url")
            url = image.get("url") if isinstance(image, dict) else image
            return (
                parse_media_url(url, "image/*", source)
                if isinstance(url, str)
                else _describe_stored_file(source, "image")
            )
        case "input_file":
            data = read_field(source, "file_data", str, "", path) or read_field(source, "file_url", str, "", path)
            return (
                parse_media_url(data, "application/octet-stream", source)
                if data
                else _describe_stored_file(source, "file")
            )
        case "input_audio":
            audio = expect(source.get("input_audio"), dict, f"{path}input_audio")
            kind = read_field(audio, "format", str, "wav", f"{path}input_audio.")
            return MediaPart(
                f"audio/{kind}", data=read_field(audio, "data", str, "", f"{path}input_audio."), raw=source
            )
        case _:
            return None


def _describe_stored_file(source: dict[str, JSON], kind: str) -> TextPart:
    """Return a text that describes a file in the provider's own storage, which cannot be fetched from here."""
    name = source.get("filename") or source.get("file_id") or "without content"
    return TextPart(f"[{kind}: {str(name)[:200]}]")


def _join_texts(parts: JSON) -> str:
    """Join the texts of a reasoning item's parts."""
    listed = parts if isinstance(parts, list) else []
    texts = [part.get("text") for part in listed if isinstance(part, dict)]
    return "\n\n".join(text for text in texts if isinstance(text, str))


API: Final = "openai_responses"

ECHO_DEFAULTS: dict[str, JSON] = {
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Fields of the request that the response repeats, with the values for absent fields."""

_UNSUPPORTED = {
    "background": "leave it out, and stream the response",
    "conversation": "use previous_response_id, or send the whole history",
    "prompt": "send instructions and input",
}


FIELDS = FieldRules(known=frozenset(["model", "input", "stream", *_UNSUPPORTED, *ECHO_DEFAULTS]))


def read_request(body: bytes | BodyFields, resolver: InputResolver, limits: RequestLimits) -> Lookups[Request]:
    """Read a request. Raises `RequestError`."""
    source = read_object(body, FIELDS)
    for name, alternative in _UNSUPPORTED.items():
        if source.get(name):
            raise RequestError(f"{name}: not supported here; {alternative}", param=name, kind="unsupported_parameter")
    items = yield from resolver.resolve(source)
    messages, loaded_tools = _read_messages(source, items, has_unresolved=resolver.has_unresolved)
    if not messages and not (resolver.stored_upstream and resolver.has_unresolved):
        known = "; none of the items that it refers to is known here" if resolver.has_unresolved else ""
        raise RequestError(f"input: expected a string or at least one message{known}", param="input")
    offered = read_tools(read_field(source, "tools", list, []), loaded_tools, limits)
    return Request(
        model=read_field(source, "model", str, ""),
        messages=messages,
        tools=tuple(offered.tools.values()),
        provider_tools=tuple(offered.provider_tools),
        tool_choice=read_tool_choice(source, offered),
        parallel_tool_calls=read_field(source, "parallel_tool_calls", bool, default=None),
        stream=read_field(source, "stream", bool, default=False),
        include_usage=True,
        max_tokens=read_integer(source, "max_output_tokens", minimum=1),
        temperature=read_number(source, "temperature"),
        top_p=read_number(source, "top_p"),
        extra=_read_extra(source),
        verbatim={API: source},
        client_options=offered.client_options(),
    )


def _read_messages(
    source: dict[str, JSON], items: list[JSON], *, has_unresolved: bool
) -> tuple[tuple[Message, ...], list[JSON]]:
    """Return the messages, instructions first, and the tools that input items contain."""
    reader = ItemReader(skipped=has_unresolved)
    for position, item in enumerate(items):
        reader.read(item, f"input[{position}]")
    instructions = read_field(source, "instructions", str, "")
    before = (SystemMessage((TextPart(instructions),)),) if instructions else ()
    messages = (*before, *reader.close())
    return messages, reader.loaded_tools


def _read_extra(source: dict[str, JSON]) -> dict[str, JSON]:
    """Return the settings that local engines support, under their names in the Chat API."""
    extra: dict[str, JSON] = {}
    match read_field(source, "text", dict, {}).get("format"):
        case {"type": "json_schema", **rest}:
            form = {name: rest[name] for name in ("name", "description", "schema", "strict") if name in rest}
            extra["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", **form}}
        case {"type": "json_object"}:
            extra["response_format"] = {"type": "json_object"}
    effort = read_field(source, "reasoning", dict, {}).get("effort")
    if isinstance(effort, str):
        extra["reasoning_effort"] = effort
    return extra
