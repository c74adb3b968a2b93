"""A conversation cut into steps: what the model said, and what it heard then.

Rule: a request ends where a step ends, so that what is decided at the end of a step, from what came up to it, is
decided the same way in every later request.
Neighbours: `turns` writes steps, `offer` and `budget` decide on them what the model is shown.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from fcshim.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

InputMessage = SystemMessage | UserMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class Step:
    """The model's messages in a row, then the others' in a row; either may be empty."""

    assistant_messages: tuple[AssistantMessage, ...]
    input_messages: tuple[InputMessage, ...]

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that the model made, in order."""
        return [call for message in self.assistant_messages for call in message.tool_calls]

    @property
    def results(self) -> list[ToolMessage]:
        """The results that came, in the client's order."""
        return [message for message in self.input_messages if isinstance(message, ToolMessage)]

    @property
    def has_user_message(self) -> bool:
        """Whether the user says something."""
        return any(isinstance(message, UserMessage) for message in self.input_messages)


def split_steps(messages: Iterable[Message]) -> list[Step]:
    """Cut a conversation into steps; the first one begins with what the model heard, or said."""
    steps: list[Step] = []
    said: tuple[AssistantMessage, ...] = ()
    for spoken, group in itertools.groupby(messages, key=_is_assistant):
        if spoken:
            said = tuple(message for message in group if isinstance(message, AssistantMessage))
        else:
            heard = tuple(message for message in group if not isinstance(message, AssistantMessage))
            steps.append(Step(said, heard))
            said = ()
    return [*steps, Step(said, ())] if said else steps


def _is_assistant(message: Message) -> bool:
    return isinstance(message, AssistantMessage)
