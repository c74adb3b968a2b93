"""The request for an upstream that speaks the Messages API.

Rule: it always asks for a stream. What the API cannot express is dropped or becomes text: later system messages,
unsupported media, reasoning without the provider's signature. Empty texts are never sent, because the API rejects them.
"""

from collections.abc import Iterable, Sequence

from fcshim.codecs.anthropic.blocks import REDACTED_PREFIX
from fcshim.codecs.anthropic.options import write_settings
from fcshim.codecs.base import UpstreamRequest
from fcshim.codecs.json_text import arguments_object, write_json
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
    count_leading_system,
    placeholder,
    text_of,
)
from fcshim.prompt.history import OPENING
from fcshim.schema.providers import as_object, is_closed

PATH = "/messages"
VERSION = (b"anthropic-version", b"2023-06-01")
"""The last version that accepts sampling parameters: 2026-10-21 rejects them even at their defaults."""
DEFAULT_MAX_TOKENS = 8192
"""The API requires a limit; every model in use accepts this one."""


def write_request(request: Request) -> UpstreamRequest:
    """Write a request. Raises `RequestError` for several choices, which the API does not support."""
    if request.n > 1:
        raise RequestError("n: the upstream's API returns one choice; send several requests for more", param="n")
    leading = count_leading_system(request.messages)
    system = "\n\n".join(filter(None, (text_of(message.content) for message in request.messages[:leading])))
    fields = {
        "model": request.model or None,
        "max_tokens": request.max_tokens if request.max_tokens and request.max_tokens > 0 else DEFAULT_MAX_TOKENS,
        "system": system or None,
        "messages": _turns(request.messages[leading:]),
        **_tools(request),
        # The API rejects stop sequences that are only white space.
        "stop_sequences": [stop for stop in request.stop if stop.strip()] or None,
        # The API's range ends at 1.0, and it documents temperature or top_p, never both.
        "temperature": None if request.temperature is None else min(request.temperature, 1.0),
        "top_p": request.top_p if request.temperature is None else None,
    }
    body = {
        **write_settings(request),
        **{name: value for name, value in fields.items() if value is not None},
        "stream": True,
    }
    return UpstreamRequest(PATH, write_json(body), (VERSION,))


def _tools(request: Request) -> dict[str, JSON]:
    """Return the tool fields. The API has no choice among several tools, so only those are offered."""
    choice = request.tool_choice
    tools = [tool for tool in request.tools if len(choice.names) < 2 or tool.name in choice.names]
    if not tools:
        return {}
    tool_choice = _tool_choice(choice)
    if not request.allows_parallel_calls and choice.mode != "none":
        tool_choice = {**(tool_choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    return {"tools": [_tool(tool) for tool in tools], "tool_choice": tool_choice}


def _tool(tool: Tool) -> dict[str, JSON]:
    fields: dict[str, JSON] = {"name": tool.name, "input_schema": as_object(tool.parameters)}
    if tool.description:
        fields["description"] = tool.description
    strict = tool.strict and is_closed(tool.parameters, all_required=False)
    return {**fields, "strict": True} if strict else fields


def _tool_choice(choice: ToolChoice) -> dict[str, JSON] | None:
    if choice.mode == "none":
        return {"type": "none"}
    if choice.mode == "auto":
        return None
    return {"type": "tool", "name": choice.names[0]} if len(choice.names) == 1 else {"type": "any"}


def _turns(messages: Sequence[Message]) -> list[JSON]:
    """Write the turns.

    Adjacent messages of one role become one turn, with tool results first, as the API requires.
    """
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
    """Return the reasoning for the provider that signed it; the API rejects unsigned reasoning."""
    if message.signature.startswith(REDACTED_PREFIX):
        return [{"type": "redacted_thinking", "data": message.signature.removeprefix(REDACTED_PREFIX)}]
    if message.signature:
        return [{"type": "thinking", "thinking": message.reasoning, "signature": message.signature}]
    return []


def _call(call: ToolCall) -> JSON:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_object(call.arguments)}


def _content(content: Content | list[TextPart]) -> list[JSON]:
    return [_part(part) for part in content if isinstance(part, MediaPart) or part.text]


def _part(part: Part) -> JSON:
    """Write one part: media in the client's own form if it comes from this API, else converted."""
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
