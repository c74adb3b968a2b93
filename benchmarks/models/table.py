"""The table of the results: right calls and right refusals by model and mode, with intervals."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.models.results import CaseResult, Results
from benchmarks.report import format_table
from fcshim.evaluate.bfcl import CALL_CATEGORIES, NO_CALL_CATEGORIES, BfclCase


def print_table(folder: Path, models: Sequence[str], modes: Sequence[str], cases: Sequence[BfclCase]) -> None:
    """Print a row for each model and mode that has results."""
    ids = [case.id for case in cases]
    rows = []
    for model in models or sorted(path.name for path in folder.iterdir()):
        for mode in modes:
            results = Results(folder / model / f"{mode}.jsonl").of(ids)
            if results:
                rows.append([model, mode, *figures(results)])
    columns = ["model", "mode", "calls", "+-", "no call", "n", *map(_short, (*CALL_CATEGORIES, *NO_CALL_CATEGORIES))]
    print(format_table([*columns, "tokens", "s"], rows))


def figures(results: Sequence[CaseResult]) -> list[str]:
    """Return the cells of a row: call accuracy, its interval, refusals, count, each category, mean tokens, seconds."""
    by_category: dict[str, list[bool]] = defaultdict(list)
    for result in results:
        by_category[result.category].append(result.verdict == "right")
    calls = [by_category[category] for category in CALL_CATEGORIES if by_category[category]]
    refusals = [by_category[category] for category in NO_CALL_CATEGORIES if by_category[category]]
    prompts = [result.raw[0].prompt_tokens for result in results if result.raw]
    return [
        _percent(mean_of(calls)),
        _percent(half_width(calls)),
        _percent(mean_of(refusals)),
        str(len(results)),
        *(
            f"{sum(by_category[category])}/{len(by_category[category])}"
            for category in (*CALL_CATEGORIES, *NO_CALL_CATEGORIES)
        ),
        f"{statistics.mean(prompts):.0f}" if prompts else "-",
        f"{statistics.mean(result.seconds for result in results):.1f}",
    ]


def mean_of(categories: Sequence[Sequence[bool]]) -> float:
    """Return the mean over the categories of the share of right cases."""
    return statistics.mean(sum(each) / len(each) for each in categories) if categories else math.nan


def half_width(categories: Sequence[Sequence[bool]]) -> float:
    """Return half the 95 % interval of that mean (normal approximation)."""
    if not categories:
        return math.nan
    variances = [_variance(each) / len(each) for each in categories]
    return 1.96 * math.sqrt(sum(variances)) / len(categories)


def _variance(right: Iterable[bool]) -> float:
    values = list(right)
    share = (sum(values) + 1) / (len(values) + 2)
    return share * (1 - share)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _short(category: str) -> str:
    return category.replace("parallel", "par").replace("multiple", "mult").replace("irrelevance", "irrel")
