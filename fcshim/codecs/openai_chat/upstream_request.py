"""Writing requests for upstreams of the Chat API.

Rule: a request always asks for a stream with usage; fields of the client without a meaning here are forwarded verbatim;
fields with default values are omitted, because small servers reject fields that they do not know.
"""

from collections.abc import Callable

import msgspec

from fcshim.codecs.base import UpstreamRequest
from fcshim.codecs.openai_chat.request import ChatClientOptions
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Content,
    MediaPart,
    Message,
    Request,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
    has_media_part,
    placeholder,
    text_of,
)
from fcshim.schema.providers import as_object, is_closed

PATH = "/chat/completions"

_CHAT_PART_TYPES = frozenset(["image_url", "input_audio", "file"])
_OTHER_API_PART_TYPES = frozenset(["image", "document", "input_image", "input_file"])
"""Part types of other APIs, which are converted. A type in neither set counts as an extension of the Chat API."""


def write_request(request: Request) -> UpstreamRequest:
    """Write the request for the upstream."""
    return UpstreamRequest(PATH, msgspec.json.encode(build_body(request)))


def build_body(request: Request) -> dict[str, JSON]:
    """Return the body of the request."""
    options = ChatClientOptions.of(request)
    given = {
        "model": request.model or None,
        "messages": [_write_message(message) for message in request.messages],
        **tool_fields(request, _write_tool, lambda name: {"type": "function", "function": {"name": name}}),
        "n": request.n if request.n > 1 else None,
        "stop": list(request.stop) or None,
        "max_completion_tokens" if options.max_completion_tokens else "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
    }
    extra = {name: value for name, value in request.extra.items() if name != "stream_options"}
    body = {**extra, **{name: value for name, value in given.items() if value is not None}, "stream": True}
    if options.stream_usage:
        own = request.extra.get("stream_options")
        body["stream_options"] = {**(own if isinstance(own, dict) else {}), "include_usage": True}
    return body


def tool_fields(
    request: Request, write_tool: Callable[[Tool], JSON], write_choice: Callable[[str], JSON]
) -> dict[str, JSON]:
    """Return the tool fields of OpenAI's APIs, which differ in how a tool and the choice of one tool are written.

    A choice among several tools is expressed by offering only those tools, which every server supports.
    """
    choice = request.tool_choice
    tools = [tool for tool in request.tools if len(choice.names) < 2 or tool.name in choice.names]
    if not tools:
        return {}
    names_one = choice.mode == "required" and len(choice.names) == 1
    return {
        "tools": list(map(write_tool, tools)),
        "tool_choice": write_choice(choice.names[0]) if names_one else None if choice.mode == "auto" else choice.mode,
        "parallel_tool_calls": None if request.allows_parallel_calls else False,
    }


def _write_tool(tool: Tool) -> dict[str, JSON]:
    function: dict[str, JSON] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters is not None:
        function["parameters"] = as_object(tool.parameters)
    if tool.strict and is_closed(tool.parameters, all_required=True):
        function["strict"] = True
    return {"type": "function", "function": function}


def _write_message(message: Message) -> dict[str, JSON]:
    match message:
        case SystemMessage():
            return {"role": "system", "content": _write_content(message.content)}
        case UserMessage():
            return {"role": "user", "content": _write_content(message.content)}
        case ToolMessage():
            written: dict[str, JSON] = {"role": "tool", "tool_call_id": message.tool_call_id}
            if message.name:
                written["name"] = message.name
            return {**written, "content": _write_content(message.content)}
        case AssistantMessage():
            return _write_assistant(message)


def _write_assistant(message: AssistantMessage) -> dict[str, JSON]:
    written: dict[str, JSON] = {"role": "assistant", "content": _write_content(message.content)}
    if message.reasoning:
        written["reasoning_content"] = message.reasoning
    if message.tool_calls:
        written["content"] = written["content"] or None  # null beside calls, as in the API's own replies
        written["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}
            for call in message.tool_calls
        ]
    return written


def _write_content(content: Content) -> JSON:
    """Return text as one string, which every server accepts; an array of parts only where there are media."""
    if not has_media_part(content):
        return text_of(content)
    return [
        _write_media(part) if isinstance(part, MediaPart) else {"type": "text", "text": part.text} for part in content
    ]


def _write_media(part: MediaPart) -> JSON:
    """Return the client's own part where it is one of the Chat API, else convert it; without data it becomes text."""
    kind = part.raw.get("type") if isinstance(part.raw, dict) else None
    empty = not (part.url or part.data)
    if isinstance(kind, str) and (kind in _CHAT_PART_TYPES or (empty and kind not in _OTHER_API_PART_TYPES)):
        return part.raw
    if empty:
        return {"type": "text", "text": placeholder(part).text}
    if part.media_type.startswith("audio/") and part.data:
        return {
            "type": "input_audio",
            "input_audio": {"data": part.data, "format": part.media_type.removeprefix("audio/")},
        }
    url = part.url or f"data:{part.media_type};base64,{part.data}"
    if part.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"file_data": url}}
