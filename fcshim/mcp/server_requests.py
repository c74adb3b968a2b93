"""What servers ask of us: the model (sampling) and the user (elicitation).

Rule: a server gets an answer only where the operator gave us somebody to ask; it never sees the conversation. A URL
that a server wants opened is not opened.
Neighbours: `manager` hands these to the SDK; the agent or the terminal gives the functions.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec
from mcp.client.session import ClientRequestContext, ElicitationFnT, SamplingFnT
from mcp.types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    SamplingMessage,
    TextContent,
)

from fcshim.errors import FcshimError
from fcshim.events import JSON
from fcshim.messages import AssistantMessage, MediaPart, Message, Part, SystemMessage, TextPart, UserMessage
from fcshim.reply import Reply

MAX_SAMPLING_TOKENS = 4_096
"""Of one answer to a server: it is the user's model that pays."""

AskModel: TypeAlias = Callable[[tuple[Message, ...], int], Awaitable[Reply]]
"""Asks the model on behalf of a server: (messages, most tokens)."""


class ElicitationForm(msgspec.Struct, frozen=True):
    """What a server asks of the user: a text, and the schema of the answer."""

    message: str
    schema: dict[str, JSON]


AskUser: TypeAlias = Callable[[ElicitationForm], Awaitable[Mapping[str, JSON] | None]]
"""Asks the user; null where the user refuses."""

_STOP_REASONS = {"max_tokens": "maxTokens", "stop_sequence": "stopSequence"}


def sampling_callback(ask: AskModel, *, model: str = "fcshim") -> SamplingFnT:
    """Let servers ask the model."""

    async def answer(
        context: ClientRequestContext,  # noqa: ARG001 - the SDK passes it by this name
        params: CreateMessageRequestParams,
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        messages = tuple(_message(each) for each in params.messages)
        if params.system_prompt:
            messages = (SystemMessage((TextPart(params.system_prompt),)), *messages)
        try:
            reply = await ask(messages, min(params.max_tokens, MAX_SAMPLING_TOKENS))
        except FcshimError as error:
            return ErrorData(code=INVALID_REQUEST, message=error.message)
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=reply.text),
            model=model,
            stop_reason=_STOP_REASONS.get(reply.stop_reason or "", "endTurn"),
        )

    return answer


def elicitation_callback(ask: AskUser) -> ElicitationFnT:
    """Let servers ask the user, by forms alone."""

    async def answer(
        context: ClientRequestContext,  # noqa: ARG001 - the SDK passes it by this name
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        if not isinstance(params, ElicitRequestFormParams):
            return ElicitResult(action="decline")
        values = await ask(ElicitationForm(params.message, params.requested_schema))
        if values is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=dict(values))

    return answer


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
