"""Which tools a prompt describes in full, and where, when they are too many.

Theory of operation. The tools that have most to do with the user's first words are described in the system prompt, all
others stand there by name. A tool is described later, at the end of a step, once the model has called it, or once the
user's words have more to do with it than with all those described so far. So the choice follows from the conversation
up to there: the next request makes it again, and the prompt begins as before. A tool that is known by name only can be
called, too; what the model gets wrong then, the tool's answer and the description behind it put right.

Rule: tools that the request demands are always described, and keep the client's order.
Neighbours: `relevance` scores tools, `listing` writes the offer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fcshim.messages import Tool, UserMessage, text_of
from fcshim.prompt.escape import escape
from fcshim.prompt.relevance import Relevance, words_of
from fcshim.prompt.steps import Step

_MAX_FIRST_REQUEST, _MAX_LATER_REQUEST = 8_000, 1_000
"""Characters of the user's first and later words that are read, half of them from the beginning, half from the end."""
_MAX_LATER_TOOLS = 3
"""Tools that the user's words bring at a time: who talks about more than that gets them as they are called."""


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """`full` are the tools of the system prompt, `named` those it only names; `later` are described after a step."""

    described: tuple[Tool, ...]
    name_only: tuple[Tool, ...] = ()
    described_later: Mapping[int, tuple[Tool, ...]] = field(default_factory=dict)


def select_tools(
    tools: Sequence[Tool], steps: Sequence[Step], most: int, demanded: Collection[str] = ()
) -> ToolSelection:
    """Describe at most `most` tools in the system prompt (0: all), but every one that is `demanded`."""
    if not most or len(tools) <= most:
        return ToolSelection(tuple(tools))
    relevance = Relevance(tools)
    first = next((step for step in steps if step.has_user_message), None)
    scores = relevance.scores(_user_words(first, _MAX_FIRST_REQUEST) if first else ())
    ranked = sorted(range(len(tools)), key=lambda at: (tools[at].name not in demanded, -scores[at]))
    count = max(most, sum(tool.name in demanded for tool in tools))
    shown = set(ranked[:count])
    full = tuple(tool for at, tool in enumerate(tools) if at in shown)
    named = tuple(tool for at, tool in enumerate(tools) if at not in shown)
    return ToolSelection(full, named, _described_later(tools, steps, relevance, shown, first))


def _described_later(
    tools: Sequence[Tool], steps: Sequence[Step], relevance: Relevance, described: set[int], first: Step | None
) -> dict[int, tuple[Tool, ...]]:
    places = {tool.name: at for at, tool in enumerate(tools)}
    later: dict[int, tuple[Tool, ...]] = {}
    for number, step in enumerate(steps):
        if len(described) == len(tools):
            break
        if not step.input_messages:
            continue  # nothing is written after it yet
        called = [places.get(escape(call.name)) for call in step.calls]
        wanted = (
            _newly_relevant(relevance, _user_words(step, _MAX_LATER_REQUEST), described)
            if step.has_user_message and step is not first
            else []
        )
        new = [at for at in dict.fromkeys([*called, *wanted]) if at is not None and at not in described]
        described.update(new)
        if new:
            later[number] = tuple(tools[at] for at in new)
    return later


def _newly_relevant(relevance: Relevance, words: Sequence[str], described: Collection[int]) -> list[int]:
    """Give the tools whose name was said and that have more to do with the words than any that was described."""
    scores = relevance.scores(words)
    best = max(scores[at] for at in described)
    better = [
        at
        for at, score in enumerate(scores)
        if score > best and at not in described and relevance.matches_name(at, words)
    ]
    return sorted(better, key=lambda at: -scores[at])[:_MAX_LATER_TOOLS]


def _user_words(step: Step, most: int) -> list[str]:
    """Give the words of the user's in a step."""
    text = "\n".join(text_of(message.content) for message in step.input_messages if isinstance(message, UserMessage))
    return words_of(text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}")
