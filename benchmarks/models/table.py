"""The figures of the results: right calls and right refusals by model and mode, with intervals; table and plot."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models.modes import MODES
from benchmarks.models.results import CaseResult, case_results
from benchmarks.report import format_table
from fcshim.evaluate.bfcl import CALL_CATEGORIES, NO_CALL_CATEGORIES
from fcshim.evaluate.plot import check_plot

_Z = 1.96
"""Half the width of a 95 % interval, in standard deviations."""
COLUMNS = ("model", "mode", "cases", "right calls", "+-", "rightly none", "prompt tokens", "seconds")


@dataclass(frozen=True, slots=True)
class Figures:
    """What the results of one model in one mode say. The shares are means over the categories."""

    model: str
    mode: str
    cases: int
    calls: float
    half_width: float
    """Half the 95 % interval of `calls`."""
    refusals: float
    by_category: dict[str, tuple[int, int]]
    """Right cases and all cases."""
    prompt_tokens: float
    seconds: float


def load_figures(folder: Path, models: Sequence[str] = ()) -> list[Figures]:
    """Return the figures of all results in a folder, by model, in the order of the modes."""
    found = []
    for model in models or sorted(path.name for path in folder.iterdir()):
        for mode in MODES:
            results = list(case_results(folder / model, mode).by_id.values())
            if results:
                found.append(figures(model, mode, results))
    return found


def figures(model: str, mode: str, results: Sequence[CaseResult]) -> Figures:
    """Return the figures of one model in one mode."""
    right: dict[str, list[bool]] = defaultdict(list)
    for result in results:
        right[result.category].append(result.verdict == "right")
    calls = [right[category] for category in CALL_CATEGORIES if right[category]]
    prompts = [result.raw[0].prompt_tokens for result in results if result.raw]
    return Figures(
        model,
        mode,
        len(results),
        _mean(calls),
        half_width(calls),
        _mean([right[category] for category in NO_CALL_CATEGORIES if right[category]]),
        {category: (sum(each), len(each)) for category, each in right.items()},
        statistics.mean(prompts) if prompts else math.nan,
        statistics.mean(result.seconds for result in results),
    )


def text_table(rows: Sequence[Figures]) -> str:
    """Return the table in plain text, with the categories."""
    categories = (*CALL_CATEGORIES, *NO_CALL_CATEGORIES)
    cells = [[*_cells(row), *(_count(row, category) for category in categories)] for row in rows]
    return format_table([*COLUMNS, *map(_short, categories)], cells)


def markdown_table(rows: Sequence[Figures]) -> str:
    """Return the table for the documentation."""
    return format_markdown(COLUMNS, map(_cells, rows))


def format_markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, ("---",) * len(columns), *rows))


def draw(rows: Sequence[Figures], path: Path) -> None:
    """Draw right calls and right refusals by mode, a row of axes for each model."""
    check_plot(path)
    from matplotlib import rc_context  # noqa: PLC0415 - optional, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    models = list(dict.fromkeys(row.model for row in rows))
    figure = Figure(figsize=(7.0, 0.9 + 0.42 * len(rows)), layout="constrained")
    heights = [sum(row.model == model for row in rows) for model in models]
    for axes, model in zip(
        figure.subplots(len(models), 1, squeeze=False, height_ratios=heights)[:, 0], models, strict=True
    ):
        own = [row for row in rows if row.model == model]
        places = range(len(own))
        axes.barh(
            [place - 0.2 for place in places],
            [100 * row.calls for row in own],
            0.38,
            xerr=[100 * row.half_width for row in own],
            error_kw={"linewidth": 0.8},
            label="right calls (95 % interval)",
        )
        axes.barh([place + 0.2 for place in places], [100 * row.refusals for row in own], 0.38, label="rightly no call")
        axes.set_yticks(places, [row.mode for row in own], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_title(model, fontsize=9, loc="left")
    axes.set_xlabel("% of the cases")
    figure.legend(*axes.get_legend_handles_labels(), fontsize=8, ncols=2, loc="outside upper right", frameon=False)
    with rc_context({"svg.hashsalt": "models", "svg.fonttype": "none"}):  # the same bytes each time
        figure.savefig(path, metadata={"Date": None})


def _cells(row: Figures) -> tuple[str, ...]:
    return (
        row.model,
        row.mode,
        str(row.cases),
        _percent(row.calls),
        _percent(row.half_width),
        _percent(row.refusals),
        f"{row.prompt_tokens:.0f}",
        f"{row.seconds:.1f}",
    )


def _mean(categories: Sequence[Sequence[bool]]) -> float:
    """Return the mean over the categories of the share of right cases."""
    return statistics.mean(sum(each) / len(each) for each in categories) if categories else math.nan


def half_width(categories: Sequence[Sequence[bool]]) -> float:
    """Return half the 95 % interval of the mean over the categories of the share of right cases."""
    if not categories:
        return math.nan
    return _Z * math.sqrt(sum(_variance(each) / len(each) for each in categories)) / len(categories)


def _variance(right: Iterable[bool]) -> float:
    """Return the variance of one case, with one right and one wrong case added: 3 of 3 right is no certainty."""
    values = list(right)
    share = (sum(values) + 1) / (len(values) + 2)
    return share * (1 - share)


def _count(row: Figures, category: str) -> str:
    right, count = row.by_category.get(category, (0, 0))
    return f"{right}/{count}"


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.0f} %"


def _short(category: str) -> str:
    return category.replace("parallel", "par").replace("multiple", "mult").replace("irrelevance", "irrel")
