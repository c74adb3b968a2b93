"""Writing requests for upstreams of the Responses API.

Rule: a request always asks for a stream and for no storage: the whole conversation is sent each time. Fields that only
this API has are forwarded from its clients; fields with default values are omitted.
"""

from fcshim.codecs.base import UpstreamRequest
from fcshim.codecs.json_text import write_json
from fcshim.codecs.openai_chat.upstream_request import tool_fields
from fcshim.codecs.openai_responses.request import API
from fcshim.codecs.option_table import write_options
from fcshim.errors import RequestError
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

PATH = "/responses"

_FORWARDED_FIELDS = (
    "include", "max_tool_calls", "metadata", "prompt_cache_key", "prompt_cache_retention", "reasoning",
    "safety_identifier", "service_tier", "text", "top_logprobs", "truncation", "user",
)  # fmt: skip


def write_request(request: Request) -> UpstreamRequest:
    """Write the request for the upstream. Raises `RequestError` for several choices, which the API does not have."""
    if request.n > 1:
        raise RequestError("n: the upstream's API gives one choice; ask again for more", param="n")
    given = {
        "model": request.model or None,
        "input": [item for message in request.messages for item in _write_message(message)],
        **tool_fields(request, _write_function, lambda name: {"type": "function", "name": name}),
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        **_write_settings(request),
    }
    body = {name: value for name, value in given.items() if value is not None}
    return UpstreamRequest(PATH, write_json({**body, "stream": True, "store": False}))


def _write_settings(request: Request) -> dict[str, JSON]:
    """Return the client's own fields, or the fields of the Chat API converted."""
    own = request.verbatim.get(API)
    if own is not None:
        return {name: own[name] for name in _FORWARDED_FIELDS if name in own}
    settings = write_options(request, API)
    text = settings.get("text", {})
    match request.extra.get("response_format"):
        case {"type": "json_schema", "json_schema": dict(form)}:
            settings["text"] = {"format": {"type": "json_schema", **form}, **text}
        case {"type": "json_object"}:
            settings["text"] = {"format": {"type": "json_object"}, **text}
    effort = request.extra.get("reasoning_effort")
    if isinstance(effort, str):
        settings["reasoning"] = {"effort": effort}
    return settings


def _write_function(tool: Tool) -> dict[str, JSON]:
    """Return a function; `strict` is always written, because its default in this API is true."""
    strict = tool.strict and is_closed(tool.parameters, all_required=True)
    function = {"type": "function", "name": tool.name, "parameters": as_object(tool.parameters), "strict": strict}
    return {**function, "description": tool.description} if tool.description else function


def _write_message(message: Message) -> list[dict[str, JSON]]:
    match message:
        case SystemMessage():
            return [{"role": "system", "content": _write_content(message.content)}]
        case UserMessage():
            return [{"role": "user", "content": _write_content(message.content)}]
        case ToolMessage():
            output = _write_content(message.content)
            return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": output}]
        case AssistantMessage():
            return _write_assistant(message)


def _write_assistant(message: AssistantMessage) -> list[dict[str, JSON]]:
    """Return the items of one turn of the model: reasoning with its signature, text, calls."""
    items: list[dict[str, JSON]] = []
    if message.signature:
        items.append({"type": "reasoning", "summary": [], "encrypted_content": message.signature})
    if text := text_of(message.content):
        part = {"type": "output_text", "text": text}  # llama-server rejects a plain string here
        items.append({"type": "message", "role": "assistant", "content": [part]})
    items += [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments or "{}"}
        for call in message.tool_calls
    ]
    return items


def _write_content(content: Content) -> JSON:
    """Return text as one string; an array of parts only where there are media."""
    return write_parts(content) if has_media_part(content) else text_of(content)


def write_parts(content: Content) -> list[JSON]:
    """Return content as an array of parts."""
    return [
        _write_media(part) if isinstance(part, MediaPart) else {"type": "input_text", "text": part.text}
        for part in content
    ]


def _write_media(part: MediaPart) -> dict[str, JSON]:
    """Convert a media part; one with neither data nor URL becomes a text that describes it."""
    if not (part.url or part.data):
        return {"type": "input_text", "text": placeholder(part).text}
    if part.media_type.startswith("audio/") and part.data:
        audio = {"data": part.data, "format": part.media_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": audio}
    url = part.url or f"data:{part.media_type};base64,{part.data}"
    if part.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": url}
    if part.url:
        return {"type": "input_file", "file_url": url}
    return {"type": "input_file", "filename": "file", "file_data": url}
