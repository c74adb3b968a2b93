"""A conversation with tools as plain text turns, for a model that knows only system, user and assistant.

Rule: the text of a message depends on earlier messages only, so that each prompt is a prefix of the next one (and the
engine's prefix cache hits). Text of clients, tools and models is escaped, so that it cannot be read as a marker.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from fcshim.messages import (
    AssistantMessage,
    Content,
    Message,
    SystemMessage,
    TextPart,
    UserMessage,
    count_leading_system,
)
from fcshim.parse.dialect import Dialect
from fcshim.prompt.content_parts import escape_content, join_contents
from fcshim.prompt.escape import Escaper
from fcshim.prompt.profiles import Profile
from fcshim.prompt.steps import split_steps
from fcshim.prompt.turns import TextTurn, TurnWriter

OPENING = "(The assistant opens the conversation.)"
"""The user turn before a conversation that starts with the assistant, for chat templates that require the user
first."""


def write_history(
    messages: Sequence[Message],
    escape: Escaper,
    *,
    dialect: Dialect,
    profile: Profile,
    preamble: str = "",
    later_descriptions: Mapping[int, str] | None = None,
) -> tuple[Message, ...]:
    """Write `messages` without tool messages and calls; `preamble`, the prompt of the tools, follows the system text.

    `later_descriptions` are tool descriptions that come after a step, by the step's number.
    Never raises, whatever ids, arguments or order the client's history has.
    """
    count = count_leading_system(messages)
    instructions = [escape_content(message.content, escape) for message in messages[:count]]
    system = join_contents([*instructions, (TextPart(preamble),)], "\n\n")
    writer = TurnWriter(escape, dialect, profile, has_tools=bool(preamble), later_descriptions=later_descriptions)
    turns = writer.write(split_steps(messages[count:]))
    if profile.alternate:
        turns = _merge_same_role(turns)
    if not system:
        return _with_user_first(turns, profile)
    if profile.system_role:
        return (SystemMessage(system), *_with_user_first(turns, profile))
    return _merged_into_user(system, turns)


def _merged_into_user(system: Content, turns: list[TextTurn]) -> tuple[Message, ...]:
    if turns and isinstance(turns[0], UserMessage):
        return (UserMessage(join_contents([system, turns[0].content], "\n\n")), *turns[1:])
    return (UserMessage(system), *turns)


def _with_user_first(turns: list[TextTurn], profile: Profile) -> tuple[Message, ...]:
    if profile.alternate and turns and isinstance(turns[0], AssistantMessage):
        return (UserMessage((TextPart(OPENING),)), *turns)
    return tuple(turns)


def _merge_same_role(turns: Iterable[TextTurn]) -> list[TextTurn]:
    return [_merged(list(group)) for _, group in itertools.groupby(turns, key=type)]


def _merged(turns: Sequence[TextTurn]) -> TextTurn:
    first = turns[0]
    if len(turns) == 1:
        return first
    content = join_contents([turn.content for turn in turns], "\n\n")
    if isinstance(first, UserMessage):
        return UserMessage(content)
    reasoning = [turn.reasoning for turn in turns if isinstance(turn, AssistantMessage) and turn.reasoning]
    return AssistantMessage(content, reasoning="\n\n".join(reasoning))
