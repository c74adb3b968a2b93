"""Writes the tool listing of a prompt: as configured, or at successively shorter levels.

Theory of operation. Level 0 is the configured style. Each of the next levels lists the same tools in the next shorter
style, which keeps the names and types of a schema. Each further level describes half as many tools as the level before
and lists the others by name. Levels are rendered on demand.

Where not all tools are described, the system prompt describes those that are most relevant to the user's first message;
among equally relevant ones, those of a relevant tool's category.
Another tool is described after a step in which the model called it, or in which a user message is more relevant to it
than to every tool described so far. The selection depends only on the conversation up to that step, so the next request
repeats it and its prompt starts with the same text. The model may also call a tool that is listed by name; if its
arguments are wrong, the tool's error and the description after it let the model correct them.

A deferred tool is described after the step whose result has loaded it, at every level: it was asked for.

Rule: a level depends only on the tools, the tool choice and the steps. Required tools are always described; tools keep
the client's order.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from fcshim.messages import Tool, ToolChoice, UserMessage, text_of
from fcshim.parse.dialect import Dialect
from fcshim.prompt.content import Escaper, number_of
from fcshim.prompt.history import HistoryStep
from fcshim.prompt.relevance import Relevance, words_of
from fcshim.prompt.render import render_system, render_tools
from fcshim.prompt.signature import ToolsStyle, outline
from fcshim.prompt.styles import PromptStyle

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
    tools: Sequence[Tool], steps: Sequence[HistoryStep], maximum: int, escape: Escaper, demanded: Collection[str] = ()
) -> ToolSelection:
    """Select at most `maximum` tools for the system prompt (0: all), but all `demanded` ones.

    `escape` makes the names of past calls those of `tools`, which are already escaped.
    """
    if not maximum or len(tools) <= maximum:
        return ToolSelection(tuple(tools))
    relevance = Relevance(tools)
    first = next((step for step in steps if step.has_user_message), None)
    scores = relevance.scores(_user_words(first, _MAX_FIRST_REQUEST) if first else ())
    best_in = defaultdict[str, float](float)  # by category: who needs one of its tools may need the others too
    for tool, score in zip(tools, scores, strict=True):
        if tool.category:
            best_in[tool.category] = max(score, best_in[tool.category])
    ranked = sorted(
        range(len(tools)), key=lambda at: (tools[at].name not in demanded, -scores[at], -best_in[tools[at].category])
    )
    count = max(maximum, sum(tool.name in demanded for tool in tools))
    described = set(ranked[:count])
    described_tools = tuple(tool for at, tool in enumerate(tools) if at in described)
    name_only = tuple(tool for at, tool in enumerate(tools) if at not in described)
    later = _described_later(tools, steps, escape, relevance, described, first)
    return ToolSelection(described_tools, name_only, later)


def split_loaded(
    tools: Sequence[Tool], steps: Sequence[HistoryStep], escape: Escaper
) -> tuple[Sequence[Tool], dict[int, tuple[Tool, ...]]]:
    """Split off the deferred tools that a tool result has loaded, by the number of its step.

    Where there are no others, nothing is split off: the call format is described with the tools.
    """
    deferred = {tool.name: tool for tool in tools if tool.deferred}
    if not deferred:
        return tools, {}
    loaded: dict[int, tuple[Tool, ...]] = {}
    for number, step in enumerate(steps):
        names = dict.fromkeys(escape(name) for result in step.results for name in result.loads)
        if found := tuple(deferred.pop(name) for name in names if name in deferred):
            loaded[number] = found
    described = {tool.name for group in loaded.values() for tool in group}
    others = [tool for tool in tools if tool.name not in described]
    return (others, loaded) if others else (tools, {})


def _described_later(
    tools: Sequence[Tool],
    steps: Sequence[HistoryStep],
    escape: Escaper,
    relevance: Relevance,
    described: set[int],
    first: HistoryStep | None,
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


def _user_words(step: HistoryStep, maximum: int) -> list[str]:
    """Return the words of the user messages in a step."""
    asked = [message for message in step.input_messages if isinstance(message, UserMessage)]
    text = "\n".join(text_of(message.content) for message in asked)
    shortened = text if len(text) <= maximum else f"{text[: maximum // 2]}\n{text[-maximum // 2 :]}"
    return words_of("\n".join([shortened, *(message.translation for message in asked)]))


NAMES_SECTION = """\
These functions can be called. Only their names and parameters are given here:

{names}

Those that fit best are described in full below. Call another one only where none of those fits, in the format below. \
It is described in full after that."""
LATER_HEADING = "Of the functions that were given by name:"
LOADED_HEADING = "These functions can be called now, too, in the format above:"


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools' part of the system prompt, and the descriptions that are added after a step, by the step's number."""

    preamble: str
    later_descriptions: Mapping[int, str] = field(default_factory=dict)
    name_only_count: int = 0
    """Number of tools that the system prompt lists by name only."""


class Listings:
    """The levels of the tool listing of one request."""

    def __init__(
        self,
        dialect: Dialect,
        tools: Sequence[Tool],
        steps: Sequence[HistoryStep],
        escape: Escaper,
        *,
        choice: ToolChoice,
        parallel: bool,
        style: PromptStyle,
        max_tools: int,
    ) -> None:
        self._dialect = dialect
        self._tools, self._loaded = split_loaded(tools, steps, escape)
        self._steps = steps
        self._escape = escape
        self._choice = choice
        self._parallel = parallel
        self._words = style
        self._levels = _levels(len(self._tools), style.listing, max_tools)
        self._cache: dict[int, Listing] = {}

    @property
    def last(self) -> int:
        """The shortest level."""
        return len(self._levels) - 1

    def at(self, level: int) -> Listing:
        """Return the listing of a level (cached)."""
        if level not in self._cache:
            self._cache[level] = self._make(*self._levels[level])
        return self._cache[level]

    def _make(self, style: ToolsStyle, maximum: int) -> Listing:
        if not self._tools:
            return Listing("")
        selection = select_tools(self._tools, self._steps, maximum, self._escape, self._choice.names)
        preamble = self._system(selection.described, style)
        if selection.name_only:
            # All names, and first: the text is then the same whichever tools are described after it.
            names = "\n".join(outline(tool.name, tool.parameters) for tool in self._tools)
            preamble = f"{NAMES_SECTION.format(names=names)}\n\n{preamble}"
        later = {
            at: f"{LATER_HEADING}\n\n{render_tools(self._dialect, described, style)}"
            for at, described in selection.described_later.items()
        }
        for at, loaded in self._loaded.items():
            text = f"{LOADED_HEADING}\n\n{render_tools(self._dialect, loaded, style)}"
            later[at] = f"{later[at]}\n\n{text}" if at in later else text
        return Listing(preamble, later, len(selection.name_only))

    def _system(self, tools: Sequence[Tool], style: ToolsStyle) -> str:
        dialect, choice, parallel, words = self._dialect, self._choice, self._parallel, self._words
        listed = self._escape.key_of(tools)

        def write() -> str:
            return render_system(dialect, tools, choice, parallel=parallel, style=style, words=words)

        if listed is None:
            return write()
        parts = (
            "system",
            number_of(dialect, words),
            listed,
            choice.mode,
            len(choice.names),
            *choice.names,
            parallel,
            style,
        )
        return self._escape.cached(parts, write, lambda text: (text,))


def _levels(count: int, style: ToolsStyle, max_tools: int) -> list[tuple[ToolsStyle, int]]:
    maximum = min(max_tools or count, count)
    listings = get_args(ToolsStyle)
    levels: list[tuple[ToolsStyle, int]] = [(each, maximum) for each in listings[listings.index(style) :]]
    while maximum > 1:
        maximum //= 2
        levels.append((listings[-1], maximum))
    return levels if count else levels[:1]
