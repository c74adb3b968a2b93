"""The provider-neutral request: messages, tools and options.

Rule: a codec turns wire dicts into these types, and they travel no further; `extra` and `verbatim` carry fields that
have no name here.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Self, TypeAlias

import msgspec

from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.schema.limits import DEFAULT_TOOL_LIMITS, ToolLimits, check_schema, exceeds_depth

__all__ = [
    "AssistantMessage",
    "Content",
    "MediaPart",
    "Message",
    "Part",
    "SystemMessage",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolMessage",
    "UserMessage",
    "text_of",
]

RESPONSE_FORMAT = "response_format"
"""The field of `Request.extra` with the requested format, in the form of the Chat API; every codec converts to it."""
_ANY_OBJECT: dict[str, JSON] = {"type": "object"}


class TextPart(msgspec.Struct, frozen=True, gc=False, tag="text", omit_defaults=True):
    """Plain text."""

    text: str
    document: bool = False
    """True if the client marked it as a document, which the user did not write."""


class MediaPart(msgspec.Struct, frozen=True, tag="media"):
    """An image, sound or file, by `url` or as base64 `data`; `raw` is the part as the client sent it."""

    media_type: str
    url: str | None = None
    data: str | None = None
    raw: JSON = None


Part: TypeAlias = TextPart | MediaPart
Content: TypeAlias = tuple[Part, ...]


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call of an earlier turn; `arguments` is the JSON text that the client sent."""

    id: str
    name: str
    arguments: str


class SystemMessage(msgspec.Struct, frozen=True, gc=False, tag="system"):
    """Instructions; a `developer` message is one too."""

    content: Content


class UserMessage(msgspec.Struct, frozen=True, gc=False, tag="user", omit_defaults=True):
    """A turn of the user."""

    content: Content
    translation: str = ""
    """Its words in English, if it is in another language. The model does not see them: tools are searched by them."""


class AssistantMessage(msgspec.Struct, frozen=True, gc=False, tag="assistant"):
    """A turn of the model: text, reasoning and calls."""

    content: Content = ()
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    signature: str = ""
    """The provider's signature of the reasoning or the first call; only that provider can verify it."""


class ToolMessage(msgspec.Struct, frozen=True, gc=False, tag="tool"):
    """The result of one call; `name` is empty if the client did not send it (the id identifies the call)."""

    tool_call_id: str
    content: Content
    name: str = ""
    is_error: bool = False
    loads: tuple[str, ...] = ()
    """The names of deferred tools that can be called from here on."""


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class Tool(msgspec.Struct, frozen=True):
    """An offered tool; `parameters` is the JSON Schema of its arguments object, as the client sent it.

    `returns` is the JSON Schema of its result; None if that is not known.
    """

    name: str
    description: str = ""
    parameters: JSON = None
    strict: bool = False
    custom: bool = False
    """Whether it takes one text. The parser accepts any name for that argument, and the bare text without an argument.
    """
    deferred: bool = False
    """A tool result may have loaded it (`ToolMessage.loads`). It is described there, so that what the prompt says
    before stays as it was."""
    returns: JSON = None
    category: str = ""
    """What it is for, a word; empty if nobody said. The model does not see it: it helps to choose what to describe."""


WebAction: TypeAlias = Literal["search", "fetch"]
"""The actions of a provider's tools for the web."""


class ProviderTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the client expects its provider to run; `name` is what a model would call, `type` the API's type."""

    name: str
    type: str
    action: WebAction | None = None
    """The action of the tool, if the proxy can run it instead."""
    allowed_domains: tuple[str, ...] = ()
    """The only hosts that it may use, with their subdomains; empty for all."""
    blocked_domains: tuple[str, ...] = ()
    max_uses: int | None = None
    """Calls in one reply."""
    max_tokens: int | None = None
    """Approximate size of a page that the model gets."""


class ToolChoice(msgspec.Struct, frozen=True):
    """Whether the model may, must or must not call; with `names`, it may call only those tools.

    A client's choice may name provider tools.
    """

    mode: Literal["auto", "none", "required"] = "auto"
    names: tuple[str, ...] = ()


AUTO = ToolChoice()


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The variant of its API that a client uses. Each codec has a subclass, and reads no other."""

    @classmethod
    def of(cls, request: "Request") -> Self:
        """Return the options of a request; the defaults if the client speaks another API."""
        options = request.client_options
        return options if isinstance(options, cls) else cls()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a reply."""

    model: str
    real_model: str = ""
    """The real name of the model that answers, if it is known to be another; it is not sent."""
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    provider_tools: tuple[ProviderTool, ...] = ()
    tool_choice: ToolChoice = AUTO
    parallel_tool_calls: bool | None = None
    """Whether the reply may have several calls; None if the client does not say."""
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    stop: tuple[str, ...] = ()
    suffix: str = ""
    """The text that follows: the model writes what stands between the prompt and it, without a chat template."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    extra: dict[str, JSON] = {}
    """Other fields in the form of OpenAI's Chat API, which local engines share: `top_k`, `response_format`,
    `reasoning_effort`, ...; the codec of another API translates those that it knows."""
    verbatim: dict[str, dict[str, JSON]] = {}
    """Fields that only one API has, by the name of its codec; an upstream of that API gets them unchanged."""
    client_options: ClientOptions | None = None

    @property
    def allows_parallel_calls(self) -> bool:
        """Whether the client takes several calls in one reply, which it does unless it forbids them."""
        return self.parallel_tool_calls is not False


def text_of(content: Content) -> str:
    """Join the text parts of `content`; media are left out."""
    if len(content) == 1 and isinstance(content[0], TextPart):
        return content[0].text
    return "".join(part.text for part in content if isinstance(part, TextPart))


def document_texts(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the texts that neither the user nor the model wrote: tool results, and documents in messages of the user.

    What the user typed is not a document: a user who pastes a call may want it to run.
    """
    for message in messages:
        if isinstance(message, ToolMessage):
            yield text_of(message.content)
        elif isinstance(message, UserMessage):
            for part in message.content:
                if isinstance(part, TextPart) and part.document:
                    yield part.text


def count_leading_system(messages: Sequence[Message]) -> int:
    """Return how many system messages the conversation begins with."""
    count = 0
    while count < len(messages) and isinstance(messages[count], SystemMessage):
        count += 1
    return count


def placeholder(part: MediaPart) -> TextPart:
    """Return a line of text that stands in for media which the model cannot receive."""
    return TextPart(f"[{part.media_type.partition('/')[0] or 'media'}: {part.media_type}]")


def has_media_part(content: Content) -> bool:
    """Return whether a part is media."""
    for part in content:  # noqa: SIM110  # a generator takes three times as long, and this runs thousands of times
        if isinstance(part, MediaPart):
            return True
    return False


def has_media(request: Request) -> bool:
    """Return whether a message of the request contains media."""
    for message in request.messages:  # noqa: SIM110  # as above
        if has_media_part(message.content):
            return True
    return False


def uses_tools(request: Request) -> bool:
    """Return whether a request offers tools or contains past calls or results, which need native tools or the shim."""
    return bool(request.tools or request.provider_tools) or any(
        isinstance(message, ToolMessage) or (isinstance(message, AssistantMessage) and message.tool_calls)
        for message in request.messages
    )


def as_tools(
    tools: Sequence[Tool | dict[str, JSON]] | None, limits: ToolLimits = DEFAULT_TOOL_LIMITS
) -> tuple[Tool, ...]:
    """Convert tools to `Tool` objects, from such objects or OpenAI dicts (`{type, function: {...}}` or the function).

    A dict may also say by `returns` what the schema of the result is.

    Raises `RequestError` for anything else, an empty or repeated name, and tools beyond the limits.
    """
    if tools is not None and len(tools) > limits.tools:
        raise RequestError(f"tools: at most {limits.tools} are allowed, got {len(tools)}", param="tools")
    result: list[Tool] = []
    for position, tool in enumerate(tools or ()):
        converted = tool if isinstance(tool, Tool) else _tool_from_dict(tool, position)
        place = f"tools[{position}]"
        if not converted.name:
            raise RequestError(f"{place}: the name is empty", param=f"{place}.name")
        owner = f"{place} ({converted.name[:80]!r})"
        for name in ("parameters", "returns"):
            check_schema(getattr(converted, name), owner, limits, param=f"{place}.{name}")
        result.append(converted)
    check_names(result)
    return tuple(result)


def check_names(tools: Sequence[Tool]) -> None:
    """Raise `RequestError` for the first name that an earlier tool has."""
    names: set[str] = set()
    for position, tool in enumerate(tools):
        if tool.name in names:
            place = f"tools[{position}]"
            raise RequestError(f"{place}: there are two tools named {tool.name[:80]!r}", param=f"{place}.name")
        names.add(tool.name)


def as_function(tool: Tool) -> dict[str, JSON]:
    """Return a tool as the `function` of OpenAI's Chat API."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }


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
        returns=function.get("returns"),
    )


def requested_schema(request: Request) -> JSON:
    """Return the schema of the JSON document that the client requests, or None."""
    match request.extra.get(RESPONSE_FORMAT):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return None if exceeds_depth(schema, DEFAULT_TOOL_LIMITS.schema_depth) else schema
        case {"type": "json_object", "schema": dict(schema)}:  # llama.cpp's variant
            return None if exceeds_depth(schema, DEFAULT_TOOL_LIMITS.schema_depth) else schema
        case {"type": "json_object"}:
            return _ANY_OBJECT
    return None


def is_any_object(document: JSON) -> bool:
    """Return whether a requested schema is the one of plain `json_object`."""
    return document is _ANY_OBJECT


def without_format(request: Request) -> Request:
    """Return the request without its response format, with which an upstream could not write calls."""
    extra = {name: value for name, value in request.extra.items() if name != RESPONSE_FORMAT}
    verbatim = request.verbatim
    if "ollama" in verbatim:
        own = {name: value for name, value in verbatim["ollama"].items() if name != "format"}
        verbatim = {**verbatim, "ollama": own}
    return msgspec.structs.replace(request, extra=extra, verbatim=verbatim)
