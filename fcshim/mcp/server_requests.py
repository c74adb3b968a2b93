"""Callbacks for requests of MCP servers: to the model (sampling), to the user (elicitation), for folders (roots).

Rule: a server gets an answer only if the operator supplied a callback, and it never sees the conversation. Elicitation
by URL is declined: no URL is opened.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from mcp.client.session import ClientRequestContext, ListRootsFnT
from mcp.types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    SamplingMessage,
    TextContent,
)
from pydantic import FileUrl

from fcshim.errors import FcshimError
from fcshim.events import JSON
from fcshim.messages import AssistantMessage, MediaPart, Message, Part, SystemMessage, TextPart, UserMessage
from fcshim.reply import Reply

MAX_SAMPLING_TOKENS = 4_096
"""Tokens of one reply to a server: the user pays for them."""

AskModel: TypeAlias = Callable[[tuple[Message, ...], int, str], Awaitable[Reply]]
"""Asks the model on behalf of a server: (messages, maximum tokens, the server's configured name)."""


class ElicitationForm(msgspec.Struct, frozen=True):
    """A server's question to the user: a message, the JSON Schema of the answer, the server's configured name."""

    message: str
    schema: dict[str, JSON]
    server: str = ""


AskUser: TypeAlias = Callable[[ElicitationForm], Awaitable[Mapping[str, JSON] | None]]
"""Asks the user; None means that the user declines."""

_STOP_REASONS = {"max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


class SamplingCallback:
    """The SDK's callback for questions to the model; `for_server` makes one that passes the server's name on."""

    def __init__(self, ask: AskModel, model: str, server: str = "") -> None:
        self._ask = ask
        self._model = model
        self._server = server

    def for_server(self, name: str) -> "SamplingCallback":
        """Return the callback of one server."""
        return SamplingCallback(self._ask, self._model, name)

    async def __call__(
        self,
        context: ClientRequestContext,  # noqa: ARG002 - the SDK passes it by this name
        params: CreateMessageRequestParams,
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        """Answer a server's request."""
        messages = tuple(_message(each) for each in params.messages)
        if params.system_prompt:
            messages = (SystemMessage((TextPart(params.system_prompt),)), *messages)
        try:
            reply = await self._ask(messages, min(params.max_tokens, MAX_SAMPLING_TOKENS), self._server)
        except FcshimError as error:
            return ErrorData(code=INVALID_REQUEST, message=error.message)
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=reply.text),
            model=self._model,
            stop_reason=_STOP_REASONS.get(reply.stop_reason or "", "endTurn"),
        )


def sampling_callback(ask: AskModel, *, model: str = "fcshim") -> SamplingCallback:
    """Return the SDK callback through which servers ask the model."""
    return SamplingCallback(ask, model)


class ElicitationCallback:
    """The SDK's callback for forms; `for_server` makes one that names the server to the user."""

    def __init__(self, ask: AskUser, server: str = "") -> None:
        self._ask = ask
        self._server = server

    def for_server(self, name: str) -> "ElicitationCallback":
        """Return the callback of one server."""
        return ElicitationCallback(self._ask, name)

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:  # noqa: ARG002 - the SDK passes it by this name
        """Answer a server's request."""
        if not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="decline")
        values = await self._ask(ElicitationForm(params.message, params.requested_schema, self._server))
        if values is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=dict(values))


def elicitation_callback(ask: AskUser) -> ElicitationCallback:
    """Return the SDK callback through which servers ask the user; it supports forms only."""
    return ElicitationCallback(ask)


def roots_callback(roots: Sequence[Path]) -> ListRootsFnT:
    """Return the SDK callback that lists the folders in which the user works."""
    listed = [Root(uri=FileUrl(folder.resolve().as_uri()), name=folder.name or str(folder)) for folder in roots]

    async def handle(context: ClientRequestContext) -> ListRootsResult:  # noqa: ARG001 - the SDK passes it by this name
        return ListRootsResult(roots=listed)

    return handle


def _message(message: SamplingMessage) -> Message:
    blocks = message.content if isinstance(message.content, list) else [message.content]
    content = tuple(_part(block) for block in blocks)
    return AssistantMessage(content) if message.role == "assistant" else UserMessage(content)


def _part(block: JSON) -> Part:
    match block.type:
        case "text":
            return TextPart(block.text)
        case "image" | "audio":
            return MediaPart(block.mime_type, data=block.data)
        case other:
            return TextPart(f"[{other}]")
