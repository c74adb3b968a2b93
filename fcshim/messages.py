"""The request vocabulary: what a client asks, in no provider's words.

Rule: wire dicts become these in a codec and travel no further; `extra` and `verbatim` carry what has no name here.
Neighbours: codecs decode and encode requests, the shim turns tools and past calls into text, `schema` limits tools.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.schema.limits import DEFAULT_TOOL_LIMITS, ToolLimits, check_schema


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    """Plain text."""

    text: str


class MediaPart(msgspec.Struct, frozen=True, tag="media"):
    """An image, sound or file: by `url` or base64 `data`; `raw` is the client's own form of it."""

    media_type: str
    url: str | None = None
    data: str | None = None
    raw: JSON = None


Part: TypeAlias = TextPart | MediaPart
Content: TypeAlias = tuple[Part, ...]


class ToolCall(msgspec.Struct, frozen=True):
    """A call of an earlier turn; `arguments` is the JSON text as the client sent it."""

    id: str
    name: str
    arguments: str


class SystemMessage(msgspec.Struct, frozen=True, tag="system"):
    """Instructions; a `developer` message is one too."""

    content: Content


class UserMessage(msgspec.Struct, frozen=True, tag="user"):
    """What the user said."""

    content: Content


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant"):
    """What the model said and called."""

    content: Content = ()
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    signature: str = ""
    """What proves the reasoning, or the first call, to the provider that made it; for that provider alone."""


class ToolMessage(msgspec.Struct, frozen=True, tag="tool"):
    """The result of one call; `name` where the client gave it (else it follows from the id)."""

    tool_call_id: str
    content: Content
    name: str = ""
    is_error: bool = False


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class Tool(msgspec.Struct, frozen=True):
    """A tool that is offered: `parameters` is the JSON Schema of its arguments object, as the client gave it."""

    name: str
    description: str = ""
    parameters: JSON = None
    strict: bool = False


class ToolChoice(msgspec.Struct, frozen=True):
    """How free the model is to call; with `names`, only those tools may be called."""

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()


AUTO = ToolChoice()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a reply."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool = True
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    extra: dict[str, JSON] = {}
    """Fields that the vocabulary does not name, in the form of OpenAI's Chat API, which local engines share: `top_k`,
    `response_format`, `reasoning_effort`, ...; a codec of another API translates what both know."""
    verbatim: dict[str, dict[str, JSON]] = {}
    """What only one API can say, under the name of its codec; an upstream of that API gets it as it came."""
    style: str = ""
    """Which variant of its API the client speaks (`functions` for OpenAI's legacy form); for its codec alone."""
    notes: tuple[str, ...] = ()
    """What was left out of the request, for the log."""


def text_of(content: Content) -> str:
    """Join the text parts of `content`; media are left out."""
    return "".join(part.text for part in content if isinstance(part, TextPart))


def placeholder(part: MediaPart) -> TextPart:
    """Give the line that says what was there, for whom it cannot be shown."""
    return TextPart(f"[{part.media_type.partition('/')[0] or 'media'}: {part.media_type}]")


def has_media(request: Request) -> bool:
    """Tell whether there is anything but text in the messages of a request."""
    return any(isinstance(part, MediaPart) for message in request.messages for part in message.content)


def uses_tools(request: Request) -> bool:
    """Tell whether a request offers tools or tells of calls: a model that knows none could not make sense of it."""
    return bool(request.tools) or any(
        isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls)
        for message in request.messages
    )


def as_tools(
    tools: Sequence[Tool | dict[str, JSON]] | None, limits: ToolLimits = DEFAULT_TOOL_LIMITS
) -> tuple[Tool, ...]:
    """Take `Tool` objects or OpenAI dicts (`{type, function: {...}}` or the bare function) and give `Tool` objects.

    Raises `RequestError` for anything else, an empty name, a name that comes twice, and tools beyond the limits.
    """
    if tools is not None and len(tools) > limits.tools:
        raise RequestError(f"tools: at most {limits.tools} are allowed, got {len(tools)}", param="tools")
    result: dict[str, Tool] = {}
    for position, tool in enumerate(tools or ()):
        made = tool if isinstance(tool, Tool) else _tool_from_dict(tool, position)
        place = f"tools[{position}]"
        if not made.name:
            raise RequestError(f"{place}: the name is empty", param=f"{place}.name")
        if made.name in result:
            raise RequestError(f"{place}: there are two tools named {made.name[:80]!r}", param=f"{place}.name")
        check_schema(made.parameters, f"{place} ({made.name[:80]!r})", limits, param=f"{place}.parameters")
        result[made.name] = made
    return tuple(result.values())


def _tool_from_dict(tool: JSON, position: int) -> Tool:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str):
        excerpt = repr(tool)[:80]
        raise RequestError(
            f"tools[{position}]: expected {{type: 'function', function: {{name, ...}}}}, got {excerpt}",
            param=f"tools[{position}]",
        )
    description = function.get("description")
    return Tool(
        name=name,
        description=description if isinstance(description, str) else "",
        parameters=function.get("parameters"),
        strict=function.get("strict") is True,
    )
