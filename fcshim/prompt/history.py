"""A conversation with tools as plain turns of text, for a model that knows only system, user and assistant.

Rule: what is written for a message depends on the messages before it alone, so that the prompt of one turn is a prefix
of the next one's; nothing that a client, a tool or a model wrote can pass for a marker.
Neighbours: `turns` writes the turns, here they get their roles; profiles say which roles there are.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from fcshim.messages import AssistantMessage, Content, Message, SystemMessage, TextPart, UserMessage
from fcshim.parse.dialect import Dialect
from fcshim.prompt.contents import cleaned, joined
from fcshim.prompt.neutralise import Neutraliser
from fcshim.prompt.steps import steps_of
from fcshim.prompt.turns import Manners, Turn, Turns

OPENING = "(The assistant opens the conversation.)"
"""What the user says where a conversation starts with the assistant and the model's template wants the user first."""


def write_history(
    messages: Sequence[Message],
    neutralise: Neutraliser,
    *,
    dialect: Dialect,
    manners: Manners,
    preamble: str = "",
    later: Mapping[int, str] | None = None,
) -> tuple[Message, ...]:
    """Write `messages` without tool messages and calls; the tools' prompt, `preamble`, follows the system text.

    `later` is what is told of tools after steps, by the step's number.
    Never fails, whatever ids, arguments or order the client's history has.
    """
    count = next((at for at, message in enumerate(messages) if not isinstance(message, SystemMessage)), len(messages))
    own = [cleaned(message.content, neutralise) for message in messages[:count]]
    system = joined([*own, (TextPart(preamble),)], "\n\n")
    writer = Turns(neutralise, dialect, manners, offered=bool(preamble), later=later)
    turns = writer.write(steps_of(messages[count:]))
    if manners.alternate:
        turns = _alternating(turns)
    if not system:
        return _opened(turns, manners)
    if manners.system_role:
        return (SystemMessage(system), *_opened(turns, manners))
    return _merged_into_user(system, turns)


def _merged_into_user(system: Content, turns: list[Turn]) -> tuple[Message, ...]:
    if turns and isinstance(turns[0], UserMessage):
        return (UserMessage(joined([system, turns[0].content], "\n\n")), *turns[1:])
    return (UserMessage(system), *turns)


def _opened(turns: list[Turn], manners: Manners) -> tuple[Message, ...]:
    if manners.alternate and turns and isinstance(turns[0], AssistantMessage):
        return (UserMessage((TextPart(OPENING),)), *turns)
    return tuple(turns)


def _alternating(turns: Iterable[Turn]) -> list[Turn]:
    return [_merged(list(group)) for _, group in itertools.groupby(turns, key=type)]


def _merged(turns: Sequence[Turn]) -> Turn:
    first = turns[0]
    if len(turns) == 1:
        return first
    content = joined([turn.content for turn in turns], "\n\n")
    if isinstance(first, UserMessage):
        return UserMessage(content)
    thoughts = [turn.reasoning for turn in turns if isinstance(turn, AssistantMessage) and turn.reasoning]
    return AssistantMessage(content, reasoning="\n\n".join(thoughts))
