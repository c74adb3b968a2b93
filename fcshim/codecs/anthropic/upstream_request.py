"""The request for an upstream that speaks the Messages API.

Rule: always a stream. What the API cannot say is left out or becomes text: later system messages, media of other
kinds, reasoning without the provider's signature. Empty texts, which the API refuses, are never sent.
Neighbours: the shim gives a request without tools, a native upstream gets the tools as they are.
"""

import json
from collections.abc import Iterable, Sequence

from fcshim.codecs.anthropic.blocks import REDACTED_PREFIX
from fcshim.codecs.anthropic.options import write_options
from fcshim.codecs.base import UpstreamRequest
from fcshim.codecs.json_writer import write_json
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
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
    placeholder,
    text_of,
)
from fcshim.prompt.history import OPENING
from fcshim.schema.providers import as_object, is_closed

PATH = "/messages"
VERSION = (b"anthropic-version", b"2023-06-01")
"""The version that still takes sampling parameters."""
DEFAULT_MAX_TOKENS = 8192
"""The API demands a limit; this one every model in use accepts."""


def write_request(request: Request) -> UpstreamRequest:
    """Write a request. Raises `RequestError` for several choices, which the API does not give."""
    if request.n > 1:
        raise RequestError("n: the upstream's API gives one choice; ask again for more", param="n")
    leading = next(
        (at for at, each in enumerate(request.messages) if not isinstance(each, SystemMessage)), len(request.messages)
    )
    system = "\n\n".join(filter(None, (text_of(message.content) for message in request.messages[:leading])))
    given = {
        "model": request.model or None,
        "max_tokens": request.max_tokens if request.max_tokens and request.max_tokens > 0 else DEFAULT_MAX_TOKENS,
        "system": system or None,
        "messages": _turns(request.messages[leading:]),
        **_tools(request),
        "stop_sequences": [stop for stop in request.stop if stop.strip()] or None,
        "temperature": None if request.temperature is None else min(request.temperature, 1.0),
        "top_p": request.top_p if request.temperature is None else None,
    }
    body = {
        **write_options(request),
        **{name: value for name, value in given.items() if value is not None},
        "stream": True,
    }
    return UpstreamRequest(PATH, write_json(body), (VERSION,))


def _tools(request: Request) -> dict[str, JSON]:
    """Give the tool fields. A choice among several tools is said by offering only those."""
    choice = request.tool_choice
    tools = [tool for tool in request.tools if len(choice.names) < 2 or tool.name in choice.names]
    if not tools:
        return {}
    chosen = _tool_choice(choice)
    if not request.parallel_tool_calls and choice.mode != "none":
        chosen = {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": True}
    return {"tools": [_tool(tool) for tool in tools], "tool_choice": chosen}


def _tool(tool: Tool) -> dict[str, JSON]:
    written: dict[str, JSON] = {"name": tool.name, "input_schema": as_object(tool.parameters)}
    if tool.description:
        written["description"] = tool.description
    strict = tool.strict and is_closed(tool.parameters, all_required=False)
    return {**written, "strict": True} if strict else written


def _tool_choice(choice: ToolChoice) -> dict[str, JSON] | None:
    if choice.mode == "none":
        return {"type": "none"}
    if choice.mode == "auto":
        return None
    return {"type": "tool", "name": choice.names[0]} if len(choice.names) == 1 else {"type": "any"}


def _turns(messages: Sequence[Message]) -> list[JSON]:
    """Write the turns; neighbours of one role become one, so that a turn's results stand together and first."""
    turns: list[dict[str, JSON]] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    for turn in turns:
        turn["content"].sort(key=lambda block: block["type"] != "tool_result")
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [_text(OPENING)]})
    return turns


def _blocks(message: Message) -> list[JSON]:
    match message:
        case SystemMessage():
            return [_text(f"<system_note>\n{text_of(message.content)}\n</system_note>")]
        case UserMessage():
            return _content(message.content)
        case ToolMessage():
            result: dict[str, JSON] = {"type": "tool_result", "tool_use_id": message.tool_call_id}
            if message.content:
                result["content"] = _content(message.content)
            return [{**result, "is_error": True} if message.is_error else result]
        case AssistantMessage():
            texts = [part for part in message.content if isinstance(part, TextPart)]
            return [*_thinking(message), *_content(texts), *map(_call, message.tool_calls)]


def _thinking(message: AssistantMessage) -> Iterable[JSON]:
    """Give the reasoning back to who signed it; unsigned reasoning is refused there."""
    if message.signature.startswith(REDACTED_PREFIX):
        return [{"type": "redacted_thinking", "data": message.signature.removeprefix(REDACTED_PREFIX)}]
    if message.signature:
        return [{"type": "thinking", "thinking": message.reasoning, "signature": message.signature}]
    return []


def _call(call: ToolCall) -> JSON:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments_object(call.arguments)}


def _arguments_object(arguments: str) -> dict[str, JSON]:
    """Read a call's arguments; what is no object cannot be said to this API."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _content(content: Content | list[TextPart]) -> list[JSON]:
    return [_part(part) for part in content if isinstance(part, MediaPart) or part.text]


def _part(part: Part) -> JSON:
    """Write one part: media in the client's own form where it is of this API, else in the one that fits."""
    if isinstance(part, TextPart):
        return _text(part.text)
    if isinstance(part.raw, dict) and part.raw.get("type") in ("image", "document"):
        return part.raw
    kind = "image" if part.media_type.startswith("image/") else "document"
    if part.url:
        return {"type": kind, "source": {"type": "url", "url": part.url}}
    if part.data and (kind == "image" or part.media_type == "application/pdf"):
        return {"type": kind, "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
    return _text(placeholder(part).text)


def _text(text: str) -> dict[str, JSON]:
    return {"type": "text", "text": text}
