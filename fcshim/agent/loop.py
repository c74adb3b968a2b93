"""The loop model -> tools -> model, until the model answers without calling.

Rule: the model learns of everything that goes wrong with a call; calls of a reply that was cut off are not executed.
Neighbours: `client.run` gives it a way to ask the model; `run` is the same loop with events; `tools.executor` does the
work of the calls.
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
"""Replies of the model in one run: more than honest tasks need, few enough that a model in a loop stops."""

_EXECUTABLE_STOPS = ("tool_use", "complete", "stop_sequence")
"""Stop reasons after which calls count. After `max_tokens` the model had not finished saying what it wants."""

Ask: TypeAlias = Callable[[tuple[Message, ...]], Awaitable[Reply]]
"""Asks the model to go on with a conversation."""


class Round(msgspec.Struct, frozen=True):
    """One reply of the model, and the conversation so far, with that reply and the results of its calls."""

    reply: Reply
    messages: tuple[Message, ...]


async def rounds(
    ask: Ask, messages: Sequence[Message], tools: Executor, *, max_rounds: int = DEFAULT_MAX_ROUNDS
) -> AsyncIterator[Round]:
    """Let the model call `tools` until it answers; give every round, the last one with the answer.

    Raises `ModelOutputError` (kind `max_rounds`) when the last allowed reply calls again; those calls are not executed.
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
    """Give the calls of a reply that count: none where it was cut off."""
    return reply.tool_calls if reply.stop_reason in _EXECUTABLE_STOPS else ()


def max_rounds_error(max_rounds: int) -> ModelOutputError:
    """Say that a model does not come to an end."""
    return ModelOutputError(f"the model still calls tools in reply {max_rounds}, the last one", kind="max_rounds")


def assistant_message(reply: Reply, calls: Sequence[ToolCallEnd]) -> AssistantMessage:
    """Turn a reply into a turn of the conversation."""
    return AssistantMessage(
        content=(TextPart(reply.text),) if reply.text else (),
        tool_calls=tuple(ToolCall(call.tool_call_id, call.tool_call_name, _valid_arguments(call)) for call in calls),
        reasoning=reply.reasoning,
        signature=reply.signature,
    )


def _valid_arguments(call: ToolCallEnd) -> str:
    """A malformed call in the history makes upstreams refuse every later turn; its result shows what was written."""
    return "{}" if call.error is not None else call.tool_call_arguments_complete or "{}"
