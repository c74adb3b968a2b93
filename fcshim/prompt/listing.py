"""The tools of a request as its prompt lists them: as the settings say, or shorter and shorter, level by level.

Theory of operation. Level 0 is what the settings say. Level 1 lists the same tools by signature, which keeps all that
a schema tells of names and types at about half the length. Each further level describes half as many tools as the one
before, and names the others. Levels are made when they are asked for.

Rule: a level depends on the tools, the choice and the steps alone.
Neighbours: `offer` chooses tools, `render` writes them, `budget` goes up the levels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fcshim.messages import Tool, ToolChoice
from fcshim.parse.dialect import Dialect
from fcshim.prompt.render import render_system, render_tools
from fcshim.prompt.signature import ToolsStyle, outline
from fcshim.prompt.steps import Step
from fcshim.prompt.tool_selection import select_tools

NAME_ONLY_SECTION = """\
Those functions are described in full. There are more, of which only the names are given here, with their parameters:

{names}

Call one of them only where none of those above fits, in the format above. It is described in full after that."""
LATER_HEADING = "Of the functions that were given by name:"


@dataclass(frozen=True, slots=True)
class Listing:
    """The part of the system prompt that offers tools, and what is added after steps, by their number."""

    preamble: str
    later_descriptions: Mapping[int, str] = field(default_factory=dict)
    name_only_count: int = 0
    """Tools that are only named in the system prompt."""


class Listings:
    """All levels at which the tools of one request can be listed."""

    def __init__(
        self,
        dialect: Dialect,
        tools: Sequence[Tool],
        steps: Sequence[Step],
        *,
        choice: ToolChoice,
        parallel: bool,
        style: ToolsStyle,
        max_tools: int,
    ) -> None:
        self._dialect = dialect
        self._tools = tools
        self._steps = steps
        self._choice = choice
        self._parallel = parallel
        self._levels = _levels(len(tools), style, max_tools)
        self._cache: dict[int, Listing] = {}

    @property
    def last(self) -> int:
        """The level that takes the least room."""
        return len(self._levels) - 1

    def at(self, level: int) -> Listing:
        """Give the listing of a level."""
        if level not in self._cache:
            self._cache[level] = self._make(*self._levels[level])
        return self._cache[level]

    def _make(self, style: ToolsStyle, most: int) -> Listing:
        if not self._tools:
            return Listing("")
        offer = select_tools(self._tools, self._steps, most, self._choice.names)
        preamble = render_system(self._dialect, offer.described, self._choice, parallel=self._parallel, style=style)
        if offer.name_only:
            names = "\n".join(outline(tool.name, tool.parameters) for tool in offer.name_only)
            preamble = f"{preamble}\n\n{NAME_ONLY_SECTION.format(names=names)}"
        later = {
            at: f"{LATER_HEADING}\n\n{render_tools(self._dialect, new, style)}"
            for at, new in offer.described_later.items()
        }
        return Listing(preamble, later, len(offer.name_only))


def _levels(count: int, style: ToolsStyle, max_tools: int) -> list[tuple[ToolsStyle, int]]:
    most = min(max_tools or count, count)
    levels: list[tuple[ToolsStyle, int]] = [(style, most)]
    if style == "schema":
        levels.append(("signature", most))
    while most > 1:
        most //= 2
        levels.append(("signature", most))
    return levels if count else levels[:1]
