"""Selects the tools that a prompt describes in full, and where, when there are too many.

Theory of operation. The system prompt describes the tools that are most relevant to the user's first message and lists
all others by name. Another tool is described after a step in which the model called it, or in which a user message is
more relevant to it than to every tool described so far. The selection depends only on the conversation up to that step,
so the next request repeats it and its prompt starts with the same text. The model may also call a tool that is listed
by name; if its arguments are wrong, the tool's error and the description after it let the model correct them.

Rule: required tools are always described; tools keep the client's order.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fcshim.messages import Tool, UserMessage, text_of
from fcshim.prompt.escape import Escaper
from fcshim.prompt.relevance import Relevance, words_of
from fcshim.prompt.steps import Step

_MAX_FIRST_REQUEST, _MAX_LATER_REQUEST = 8_000, 1_000
"""Characters that are read of the first and of later user messages, half from the start and half from the end."""
_MAX_LATER_TOOLS = 3
"""Tools that one step may add by relevance; others are added when the model calls them."""


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """The tools that the system prompt describes or lists by name, and those described after a step, by its number."""

    described: tuple[Tool, ...]
    name_only: tuple[Tool, ...] = ()
    described_later: Mapping[int, tuple[Tool, ...]] = field(default_factory=dict)


def select_tools(
    tools: Sequence[Tool], steps: Sequence[Step], most: int, escape: Escaper, demanded: Collection[str] = ()
) -> ToolSelection:
    """Select at most `most` tools for the system prompt (0: all), but all `demanded` ones.

    `escape` makes the names of past calls those of `tools`, which are already escaped.
    """
    if not most or len(tools) <= most:
        return ToolSelection(tuple(tools))
    relevance = Relevance(tools)
    first = next((step for step in steps if step.has_user_message), None)
    scores = relevance.scores(_user_words(first, _MAX_FIRST_REQUEST) if first else ())
    ranked = sorted(range(len(tools)), key=lambda at: (tools[at].name not in demanded, -scores[at]))
    count = max(most, sum(tool.name in demanded for tool in tools))
    described = set(ranked[:count])
    described_tools = tuple(tool for at, tool in enumerate(tools) if at in described)
    name_only = tuple(tool for at, tool in enumerate(tools) if at not in described)
    later = _described_later(tools, steps, escape, relevance, described, first)
    return ToolSelection(described_tools, name_only, later)


def _described_later(
    tools: Sequence[Tool],
    steps: Sequence[Step],
    escape: Escaper,
    relevance: Relevance,
    described: set[int],
    first: Step | None,
) -> dict[int, tuple[Tool, ...]]:
    positions = {tool.name: at for at, tool in enumerate(tools)}
    described_later: dict[int, tuple[Tool, ...]] = {}
    for number, step in enumerate(steps):
        if len(described) == len(tools):
            break
        if not step.input_messages:
            continue  # the last step, without results yet
        called = [positions.get(escape(call.name)) for call in step.calls]
        relevant = (
            _newly_relevant(relevance, _user_words(step, _MAX_LATER_REQUEST), described)
            if step.has_user_message and step is not first
            else []
        )
        new = [at for at in dict.fromkeys([*called, *relevant]) if at is not None and at not in described]
        described.update(new)
        if new:
            described_later[number] = tuple(tools[at] for at in new)
    return described_later


def _newly_relevant(relevance: Relevance, words: Sequence[str], described: Collection[int]) -> list[int]:
    """Return undescribed tools whose name shares a word and that score higher than every described tool, best first."""
    scores = relevance.scores(words)
    best = max(scores[at] for at in described)
    better = [
        at
        for at, score in enumerate(scores)
        if score > best and at not in described and relevance.matches_name(at, words)
    ]
    return sorted(better, key=lambda at: -scores[at])[:_MAX_LATER_TOOLS]


def _user_words(step: Step, most: int) -> list[str]:
    """Return the words of the user messages in a step."""
    text = "\n".join(text_of(message.content) for message in step.input_messages if isinstance(message, UserMessage))
    return words_of(text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}")
