"""BFCL's cases of one call with 80 to 100 tools in the request: the case's own, and those of other cases.

Twenty cases share a set of tools, as the requests of one client do, in an order that a fixed seed draws. A tool of
another case may do the same as the right one; a call to it is counted as wrong.
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.models.cases import Split, select_cases
from benchmarks.models.modes import MANY_TOOLS_MODES
from benchmarks.models.results import CaseResult, case_results
from benchmarks.models.table import format_markdown, half_width
from fcshim.evaluate.bfcl import BfclCase, load_bfcl
from fcshim.messages import Tool
from fcshim.openai import read_request
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.content import Escaper
from fcshim.prompt.escape import escaper_for
from fcshim.prompt.history import split_conversation
from fcshim.prompt.listing import select_tools

CATEGORIES = ("simple_python", "multiple", "live_simple", "live_multiple")
"""Categories whose cases want one call."""
MIN_TOOLS, MAX_TOOLS = 80, 100
_SHARING = 20
"""Cases with the same set of tools, so that the server reads it once for all of them where it is shown whole."""
_SEED = 36


def many_tools_cases(folder: Path, split: Split, count: int | None = None) -> list[BfclCase]:
    """Return about `count` cases of a split, or all, each with the tools of its set.

    A case is left out if its set has a tool of the same name already.
    """
    others = {tool.name: tool for category in CATEGORIES for case in load_bfcl(folder, category) for tool in case.tools}
    selected = select_cases(folder, split, count, CATEGORIES)
    groups = [selected[at : at + _SHARING] for at in range(0, len(selected), _SHARING)]
    return [case for number, group in enumerate(groups) for case in _with_one_set(group, others, number)]


def _with_one_set(group: Sequence[BfclCase], others: Mapping[str, Tool], number: int) -> list[BfclCase]:
    source = random.Random(_SEED + number)
    own: dict[str, Tool] = {}
    kept = []
    for case in group:
        if all(own.get(tool.name, tool) == tool for tool in case.tools):
            own.update({tool.name: tool for tool in case.tools})
            kept.append(case)
    size = max(source.randint(MIN_TOOLS, MAX_TOOLS), len(own))
    foreign = [tool for name, tool in others.items() if name not in own]
    tools = [*own.values(), *source.sample(foreign, size - len(own))]
    source.shuffle(tools)
    shared = tuple(tools)
    return [msgspec.structs.replace(case, tools=shared) for case in kept]


def described_tools(case: BfclCase, maximum: int) -> set[str]:
    """Return the names of the tools that the prompt describes."""
    request = read_request(list(case.messages), case.tools, {"model": "m"})
    escape = Escaper(escaper_for(FUNCTION_CALL))
    return {
        tool.name
        for tool in select_tools(case.tools, split_conversation(request.messages)[1], maximum, escape).described
    }


def recall(cases: Sequence[BfclCase], maximum: int) -> float:
    """Return the share of cases whose right tool is among the described ones."""
    return sum(_expected(case) <= described_tools(case, maximum) for case in cases) / len(cases)


def many_tools_table(folder: Path) -> str:
    """Return the figures of all results in a folder, by model, as a table in Markdown."""
    found = (
        (model, mode, list(case_results(folder / model, mode).by_id.values()))
        for model in sorted(path.name for path in folder.iterdir())
        for mode in MANY_TOOLS_MODES
    )
    rows = [(model, mode, *_figures(results)) for model, mode, results in found if results]
    return format_markdown(("model", "mode", "cases", "right tool", "+-", "right call", "prompt tokens"), rows)


def _figures(results: Sequence[CaseResult]) -> tuple[str, ...]:
    named = [result.verdict in {"right", "wrong_arguments"} for result in results]
    right = sum(result.verdict == "right" for result in results) / len(results)
    tokens = statistics.mean(result.raw[0].prompt_tokens for result in results if result.raw)
    shares = (statistics.mean(named), half_width([named]), right)
    return (str(len(results)), *(f"{100 * share:.0f} %" for share in shares), f"{tokens:.0f}")


def _expected(case: BfclCase) -> set[str]:
    return {call.name for call in case.expected[0]}
