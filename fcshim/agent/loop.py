"""The loop model -> tools -> model, until the model answers without a call. `run` is the same loop with events.

Rule: the model gets every error of a call as its result. The calls of a truncated reply are not executed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from fcshim.errors import ConfigError, ModelOutputError
from fcshim.events import ToolCallEnd
from fcshim.messages import AssistantMessage, Message, TextPart, ToolCall
from fcshim.reply import Reply
from fcshim.tools import Executor

DEFAULT_MAX_ROUNDS = 16
"""Replies of the model in one run: more than ordinary tasks need, few enough to stop a model that never answers."""

_EXECUTABLE_STOPS = ("tool_use", "complete", "stop_sequence")
"""Stop reasons after which calls are executed. After `max_tokens` the model had not finished its reply."""

Ask: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[Reply]]
"""Requests the model's next reply to a conversation."""


class Round(msgspec.Struct, frozen=True):
    """One reply of the model, and the conversation including that reply and the results of its calls."""

    reply: Reply
    messages: tuple[Message, ...]


async def rounds(
    ask: Ask, messages: Sequence[Message], tools: Executor, *, max_rounds: int = DEFAULT_MAX_ROUNDS
) -> AsyncIterator[Round]:
    """Let the model call `tools` until it answers; yield every round, the last one with the answer.

    Raises `ModelOutputError` (kind `max_rounds`) if the last allowed reply still has calls; these are not executed.
    """
    if max_rounds < 1:
        raise ConfigError("max_rounds must be at least 1")
    conversation = tuple(messages)
    for number in range(1, max_rounds + 1):
        reply = await ask(conversation)
        calls = executable_calls(reply)
        if calls and number == max_rounds:
            raise max_rounds_error(max_rounds)
        results = await tools.execute(calls)
        conversation += (assistant_message(reply, calls), *results)
        yield Round(reply, conversation)
        if not calls:
            return


def executable_calls(reply: Reply) -> tuple[ToolCallEnd, ...]:
    """Return the calls of a reply to execute: none if it was truncated."""
    return reply.tool_calls if reply.stop_reason in _EXECUTABLE_STOPS else ()


def max_rounds_error(max_rounds: int) -> ModelOutputError:
    """Make the error for a model that calls tools in its last allowed reply."""
    return ModelOutputError(f"the model still calls tools in reply {max_rounds}, the last one", kind="max_rounds")


def assistant_message(reply: Reply, calls: Sequence[ToolCallEnd]) -> AssistantMessage:
    """Convert a reply to a message of the conversation."""
    return AssistantMessage(
        content=(TextPart(reply.text),) if reply.text else (),
        tool_calls=tuple(ToolCall(call.tool_call_id, call.tool_call_name, _valid_arguments(call)) for call in calls),
        reasoning=reply.reasoning,
        signature=reply.signature,
    )


def _valid_arguments(call: ToolCallEnd) -> str:
    """Return the arguments of a call, or `{}` if it has an error.

    Upstreams refuse a history with malformed arguments; the call's result shows the model what it wrote.
    """
    return "{}" if call.error is not None else call.tool_call_arguments_complete or "{}"
