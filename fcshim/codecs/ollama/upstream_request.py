"""The request for an upstream that is Ollama.

Rule: it always asks for a stream. Arguments are objects. What Ollama cannot express (a required call, images by URL) is
dropped or described in text, never an error.
"""

import json

import msgspec

from fcshim.codecs.base import UpstreamRequest
from fcshim.codecs.ollama.options import write_settings
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import (
    AssistantMessage,
    Content,
    Message,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from fcshim.schema.providers import as_object

PATH = "//api/chat"


def write_request(request: Request, context: int = 0) -> UpstreamRequest:
    """Write a request; `context` is the context length to ask for (`num_ctx`), unless the client asks for one; 0: none.

    Raises `RequestError` for several choices, which the API does not support.
    """
    if request.n > 1:
        raise RequestError("n: the upstream's API returns one choice; send several requests for more", param="n")
    body: dict[str, JSON] = {"model": request.model, "messages": _messages(request)}
    choice = request.tool_choice
    # Ollama has no `tool_choice`, so the tools that may not be called are not offered.
    offered = () if choice.mode == "none" else request.tools
    if tools := [tool for tool in offered if not choice.names or tool.name in choice.names]:
        body["tools"] = [{"type": "function", "function": _function(tool)} for tool in tools]
    settings = write_settings(request)
    if context:
        settings = {**settings, "options": {"num_ctx": context, **settings.get("options", {})}}
    return UpstreamRequest(PATH, msgspec.json.encode({**body, **settings, "stream": True}))


def _function(tool: Tool) -> dict[str, JSON]:
    return {"name": tool.name, "description": tool.description, "parameters": as_object(tool.parameters)}


def _messages(request: Request) -> list[dict[str, JSON]]:
    names: dict[str, str] = {}
    return [_message(message, names) for message in request.messages]


def _message(message: Message, names: dict[str, str]) -> dict[str, JSON]:
    match message:
        case SystemMessage():
            return {"role": "system", **_content(message.content)}
        case UserMessage():
            return {"role": "user", **_content(message.content)}
        case ToolMessage():
            name = message.name or names.get(message.tool_call_id, "")
            ids = {"tool_call_id": message.tool_call_id}
            return {"role": "tool", **_content(message.content), **({"tool_name": name} if name else {}), **ids}
        case AssistantMessage():
            return _assistant(message, names)


def _assistant(message: AssistantMessage, names: dict[str, str]) -> dict[str, JSON]:
    fields: dict[str, JSON] = {"role": "assistant", **_content(message.content)}
    if message.reasoning:
        fields["thinking"] = message.reasoning
    if message.tool_calls:
        names.update((call.id, call.name) for call in message.tool_calls)
        fields["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": _arguments(call)}}
            for call in message.tool_calls
        ]
    return fields


def _arguments(call: ToolCall) -> JSON:
    """Return the arguments as an object; anything else is wrapped in one."""
    try:
        value = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return msgspec.Raw((call.arguments or "{}").encode("utf-8", "replace"))
    return {"arguments": call.arguments}


def _content(content: Content) -> dict[str, JSON]:
    """Return text and images; every other part becomes a note in the text."""
    texts: list[str] = []
    images: list[str] = []
    for part in content:
        if isinstance(part, TextPart):
            texts.append(part.text)
        elif part.media_type.startswith("image/") and part.data:
            images.append(part.data)
        else:
            kind = part.media_type.partition("/")[0] or "media"
            is_link = part.url and not part.url.startswith("data:")
            texts.append(f"[{kind}: {part.url if is_link else part.media_type}]")
    return {"content": "".join(texts), **({"images": images} if images else {})}
