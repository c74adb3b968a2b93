"""The client's request: a JSON body of `/api/chat` or `/api/generate` becomes a `Request`.

Rule: fields that `Request` knows are validated; an unknown field is never an error. A request without messages asks to
load or unload the model, and for no reply. A call or result without an id gets one from its position, so that the same
history always renders to the same prompt (Ollama's own client drops the ids). A result without an id answers the next
open call of its tool.
"""

from collections import OrderedDict, defaultdict, deque

import msgspec

from fcshim.codecs.body_fields import BodyFields, FieldRules
from fcshim.codecs.json_text import (
    RequestLimits,
    check_arguments,
    expect,
    field_error,
    read_field,
    read_object,
    read_required,
)
from fcshim.codecs.ollama.options import UNSUPPORTED, OllamaClientOptions, read_settings, refuse_unsupported
from fcshim.codecs.openai_chat.request import read_tools
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)

_ROLES = "'system', 'user', 'assistant' or 'tool'"
_IMAGE_SIGNATURES = {"iVBORw0K": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""The first base64 characters of each image format."""


def read_messages(source: dict[str, JSON]) -> tuple[Message, ...]:
    """Read `messages`; an empty list is a request to load the model. Raises `RequestError`."""
    reader = _OllamaMessageReader()
    items = read_field(source, "messages", list, [])
    return tuple(reader.read(expect(item, dict, f"messages[{index}]"), index) for index, item in enumerate(items))


def read_prompt(source: dict[str, JSON]) -> tuple[Message, ...]:
    """Read `system`, `prompt` and `images`; without a prompt, it is a request to load the model."""
    content = _content(source, "prompt", "")
    if not content:
        return ()
    system = read_field(source, "system", str, "")
    system_messages = (SystemMessage((TextPart(system),)),) if system else ()
    return (*system_messages, UserMessage(content))


class _OllamaMessageReader:
    """Reads messages in order, and keeps the calls that have no result yet."""

    def __init__(self) -> None:
        self._open_calls: OrderedDict[str, str] = OrderedDict()  # names by call id
        self._by_name: defaultdict[str, deque[str]] = defaultdict(deque)

    def read(self, message: dict[str, JSON], position: int) -> Message:
        prefix = f"messages[{position}]."
        content = _content(message, "content", prefix)
        match message.get("role"):
            case "system" | "developer":
                return SystemMessage(content)
            case "user":
                return UserMessage(content)
            case "assistant":
                calls = read_field(message, "tool_calls", list, [], prefix)
                tool_calls = tuple(self._read_call(call, position, index) for index, call in enumerate(calls))
                return AssistantMessage(content, tool_calls, read_field(message, "thinking", str, "", prefix))
            case "tool":
                return self._read_result(message, content, position, prefix)
            case role:
                raise field_error(role, _ROLES, f"{prefix}role")

    def _read_call(self, call: JSON, position: int, index: int) -> ToolCall:
        path = f"messages[{position}].tool_calls[{index}]"
        fields = expect(call, dict, path)
        function = read_required(fields, "function", dict, path)
        name = read_required(function, "name", str, f"{path}.function")
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments or {}).decode()
        check_arguments(arguments, f"{path}.function.arguments")
        call_id = read_field(fields, "id", str, "", f"{path}.") or f"call_{position}_{index}"
        self._open_calls[call_id] = name
        self._by_name[name].append(call_id)
        return ToolCall(call_id, name, arguments)

    def _read_result(self, message: dict[str, JSON], content: Content, position: int, prefix: str) -> ToolMessage:
        name = read_field(message, "tool_name", str, "", prefix) or read_field(message, "name", str, "", prefix)
        call_id = (
            read_field(message, "tool_call_id", str, "", prefix) or self._find_open_call(name) or f"call_{position}"
        )
        called = self._open_calls.pop(call_id, "")
        return ToolMessage(call_id, content, name or called)

    def _find_open_call(self, name: str) -> str:
        """Find the first open call of that tool, or the first of all if the result names none."""
        if not name:
            return next(iter(self._open_calls), "")
        ids = self._by_name[name]
        while ids:
            if (call_id := ids.popleft()) in self._open_calls:
                return call_id
        return ""


def _content(message: dict[str, JSON], name: str, prefix: str) -> Content:
    text = read_field(message, name, str, "", prefix)
    images = read_field(message, "images", list, [], prefix)
    media = (_image(expect(image, str, f"{prefix}images[{index}]")) for index, image in enumerate(images))
    return (*((TextPart(text),) if text else ()), *media)


def _image(data: str) -> MediaPart:
    """Read an image in base64; some clients send a `data:` URL."""
    data = data.partition(";base64,")[2] or data
    media_type = next(
        (media_type for first_chars, media_type in _IMAGE_SIGNATURES.items() if data.startswith(first_chars)),
        "image/png",
    )
    return MediaPart(media_type, data=data)


_VERBATIM_FIELDS = ("format", "think", "keep_alive", "logprobs", "top_logprobs", "truncate", "shift")
FIELDS = FieldRules(
    known=frozenset(
        [
            "model", "messages", "tools", "stream", "options", "system", "prompt", "images", "suffix",
            *_VERBATIM_FIELDS,
            *UNSUPPORTED,
        ]
    )
)  # fmt: skip
_UNLOAD_VALUES = frozenset([0, "0", "0s", "0m", "0h"])


def read_request(body: bytes | BodyFields, limits: RequestLimits, *, generate: bool) -> Request:
    """Read a request. Raises `RequestError` with the offending field in `param`."""
    source = read_object(body, FIELDS)
    if generate:
        refuse_unsupported(source)
    messages = read_prompt(source) if generate else read_messages(source)
    settings = read_settings(source)
    verbatim = {name: source[name] for name in _VERBATIM_FIELDS if source.get(name) is not None}
    keep_alive = source.get("keep_alive")
    client_options = OllamaClientOptions(
        generate=generate,
        thinking=source.get("think") is not False,
        unload=isinstance(keep_alive, int | float | str) and keep_alive in _UNLOAD_VALUES,
    )
    return Request(
        model=expect(source.get("model"), str, "model").removesuffix(":latest"),  # the default tag
        messages=messages,
        tools=() if generate else _tools(source, limits),
        stream=read_field(source, "stream", bool, default=True),
        include_usage=True,
        stop=settings.stop,
        suffix=read_field(source, "suffix", str, "") if generate else "",
        max_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seed=settings.seed,
        extra=settings.extra,
        verbatim={"ollama": {**verbatim, **({"options": settings.ollama_options} if settings.ollama_options else {})}},
        client_options=client_options,
    )


def _tools(source: dict[str, JSON], limits: RequestLimits) -> tuple[Tool, ...]:
    """Read tools, which have the Chat API's form; other types are dropped."""
    items = read_field(source, "tools", list, [])
    functions = [tool for tool in items if not isinstance(tool, dict) or tool.get("type", "function") == "function"]
    tools, _ = read_tools({"tools": functions}, limits)
    return tools
