"""A summary as a bar chart: a group of bars per category, a bar per dialect, with confidence intervals.

Rule: matplotlib is the `plot` extra; it is imported only here, and only when a chart is drawn.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

from fcshim.errors import ConfigError
from fcshim.evaluate.summary import Rate, Summary

_SUFFIXES = (".svg", ".png")
_GROUP_WIDTH = 0.8
"""Width of a group of bars; 1 is the distance between groups."""
_ALL = "all"


def check_plot(path: Path) -> None:
    """Check that a chart can be written to `path`, before the cases run. Raises `ConfigError`."""
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"{path}: a plot is written as {' or '.join(_SUFFIXES)}")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")
    try:
        importlib.import_module("matplotlib")
    except ImportError as error:
        raise ConfigError("a plot needs matplotlib: pip install 'fcshim[plot]'") from error


def write_plot(summaries: Sequence[Summary], path: Path, title: str = "") -> None:
    """Draw the chart and write it as SVG or PNG, by the suffix of `path`. Raises `ConfigError` and `OSError`."""
    check_plot(path)
    from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and 0.3 s to import

    names = [*dict.fromkeys(name for summary in summaries for name in summary.categories), _ALL]
    width = _GROUP_WIDTH / max(1, len(summaries))
    figure = Figure(figsize=(max(5.0, 1.1 * len(names)), 4.2), layout="constrained")
    axes = figure.subplots()
    for position, summary in enumerate(summaries):
        bars = [(place, rate) for place, name in enumerate(names) if (rate := _rate(summary, name)) is not None]
        axes.bar(
            [place - _GROUP_WIDTH / 2 + width * (position + 0.5) for place, _ in bars],
            [100 * rate.share for _, rate in bars],
            width,
            yerr=[
                [100 * (rate.share - rate.low) for _, rate in bars],
                [100 * (rate.high - rate.share) for _, rate in bars],
            ],
            capsize=2,
            error_kw={"linewidth": 0.8},
            label=summary.dialect,
        )
    axes.set_xticks(range(len(names)), [name.replace("_", "\n") for name in names], fontsize=8)
    axes.set_ylim(0, 102)
    axes.set_ylabel("exact, %, with 95 % intervals")
    axes.set_title(title, fontsize=10)
    if len(summaries) > 1:
        axes.legend(fontsize=8, ncols=len(summaries), loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False)
    figure.savefig(path, dpi=150)


def _rate(summary: Summary, name: str) -> Rate | None:
    return summary.total if name == _ALL else summary.categories.get(name)
