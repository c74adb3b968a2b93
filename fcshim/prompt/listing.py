"""The tool listing of a prompt: as configured, or at levels that are shorter and shorter.

Theory of operation. Level 0 is the configured style. Level 1 lists the same tools by signature, which keeps the names
and types of a schema at about half its length. Each further level describes half as many tools as the level before and
lists the others by name. Levels are rendered on demand.

Rule: a level depends only on the tools, the tool choice and the steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fcshim.messages import Tool, ToolChoice
from fcshim.parse.dialect import Dialect
from fcshim.prompt.escape import Escaper
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
        steps: Sequence[Step],
        escape: Escaper,
        *,
        choice: ToolChoice,
        parallel: bool,
        style: ToolsStyle,
        max_tools: int,
    ) -> None:
        self._dialect = dialect
        self._tools = tools
        self._steps = steps
        self._escape = escape
        self._choice = choice
        self._parallel = parallel
        self._levels = _levels(len(tools), style, max_tools)
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

    def _make(self, style: ToolsStyle, most: int) -> Listing:
        if not self._tools:
            return Listing("")
        selection = select_tools(self._tools, self._steps, most, self._escape, self._choice.names)
        preamble = render_system(self._dialect, selection.described, self._choice, parallel=self._parallel, style=style)
        if selection.name_only:
            names = "\n".join(outline(tool.name, tool.parameters) for tool in selection.name_only)
            preamble = f"{preamble}\n\n{NAME_ONLY_SECTION.format(names=names)}"
        later = {
            at: f"{LATER_HEADING}\n\n{render_tools(self._dialect, described, style)}"
            for at, described in selection.described_later.items()
        }
        return Listing(preamble, later, len(selection.name_only))


def _levels(count: int, style: ToolsStyle, max_tools: int) -> list[tuple[ToolsStyle, int]]:
    most = min(max_tools or count, count)
    levels: list[tuple[ToolsStyle, int]] = [(style, most)]
    if style == "schema":
        levels.append(("signature", most))
    while most > 1:
        most //= 2
        levels.append(("signature", most))
    return levels if count else levels[:1]
