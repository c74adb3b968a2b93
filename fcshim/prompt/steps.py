"""Splits a conversation into steps: messages of the assistant, then the messages that the client sent in reply.

Rule: every request ends at the end of a step. So a decision that depends only on the steps so far comes out the same in
every later request.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from fcshim.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

InputMessage = SystemMessage | UserMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Step:
    """Consecutive messages of the assistant, then consecutive messages of other roles; either may be empty."""

    assistant_messages: tuple[AssistantMessage, ...]
    input_messages: tuple[InputMessage, ...]

    @property
    def calls(self) -> list[ToolCall]:
        """The calls of the assistant, in order."""
        return [call for message in self.assistant_messages for call in message.tool_calls]

    @property
    def results(self) -> list[ToolMessage]:
        """The tool results, in the client's order."""
        return [message for message in self.input_messages if isinstance(message, ToolMessage)]

    @property
    def has_user_message(self) -> bool:
        """Whether the step has a user message."""
        return any(isinstance(message, UserMessage) for message in self.input_messages)


def split_steps(messages: Iterable[Message]) -> list[Step]:
    """Split a conversation into steps."""
    steps: list[Step] = []
    assistant: tuple[AssistantMessage, ...] = ()
    for is_assistant, group in itertools.groupby(messages, key=_is_assistant):
        if is_assistant:
            assistant = tuple(message for message in group if isinstance(message, AssistantMessage))
        else:
            inputs = tuple(message for message in group if not isinstance(message, AssistantMessage))
            steps.append(Step(assistant, inputs))
            assistant = ()
    return [*steps, Step(assistant, ())] if assistant else steps


def _is_assistant(message: Message) -> bool:
    return isinstance(message, AssistantMessage)
