"""The pictures of docs/mistakes.md and docs/performance.md, drawn from the tables of these pages.

Run `python -m benchmarks.plots` after a table has changed.
"""

import re
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
VERDICTS = {"exact": "#2e7d32", "two readings": "#9ccc65", "error": "#fbc02d", "lost": "#b0bec5"}
"""The colour of each verdict, in the order of the columns; both kinds of errors are asked for again."""
_SVG = {"svg.hashsalt": "fcshim", "svg.fonttype": "none"}
"""The same table gives the same file, and texts stay texts."""


def main() -> None:
    """Draw both pictures."""
    draw_mistakes(mistakes(), DOCS / "images" / "mistakes.svg")
    draw_slowdowns(slowdowns(), DOCS / "images" / "performance.svg")


def mistakes() -> list[tuple[str, list[float]]]:
    """Return the first table of docs/mistakes.md: each mistake with four shares in per cent and its wrong calls."""
    page = (DOCS / "mistakes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [\d,]+ \|((?: [\d.]+ % \|){4} \d+) \|$", page, re.MULTILINE)
    found = [(name, [float(share) for share in re.findall(r"[\d.]+", shares)]) for name, shares in rows]
    last = next((at for at, (name, _) in enumerate(found) if at and name == "no mistake"), len(found))
    return found[:last]


def slowdowns() -> dict[str, float]:
    """Return how many times as much as ours re-parsing at each chunk costs, from docs/performance.md."""
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if "re-parsing at each chunk, at 10 KB" in line]
    found = re.findall(r"([a-z][a-z-]+) ([\d,]+) x", line)
    return {"fcshim": 1.0, **{name: float(times.replace(",", "")) for name, times in found}}


def draw_mistakes(rows: Sequence[tuple[str, Sequence[float]]], path: Path) -> None:
    """Draw a bar for each mistake: what becomes of a reply with it."""
    from matplotlib import rc_context  # noqa: PLC0415 - optional, and slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with rc_context(_SVG):
        figure = Figure(figsize=(8.0, 0.2 * len(rows) + 1.0), layout="constrained")
        axes = figure.subplots()
        names = [name for name, _ in rows][::-1]
        left = [0.0] * len(rows)
        for at, (verdict, colour) in enumerate(VERDICTS.items()):
            widths = [shares[at] for _, shares in rows][::-1]
            axes.barh(names, widths, left=left, color=colour, label=verdict, height=0.8)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_xlim(0, 100)
        axes.set_xlabel(f"replies, %; delivered wrong: {sum(round(figures[-1]) for _, figures in rows)}")
        axes.margins(y=0.005)
        axes.tick_params(labelsize=8)
        axes.legend(ncols=len(VERDICTS), loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=8)
        figure.savefig(path, metadata={"Date": None})


def draw_slowdowns(times: dict[str, float], path: Path) -> None:
    """Draw how much more each way of reading costs, on a logarithmic scale."""
    from matplotlib import rc_context  # noqa: PLC0415 - as above
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with rc_context(_SVG):
        figure = Figure(figsize=(8.0, 1.9), layout="constrained")
        axes = figure.subplots()
        names = list(times)[::-1]
        bars = axes.barh(names, [times[name] for name in names], color="#1565c0")
        axes.bar_label(bars, [f"{times[name]:,.0f} x" for name in names], padding=3, fontsize=8)
        axes.set_xscale("log")
        axes.set_xlim(0.8, 30_000)
        axes.set_xlabel("CPU for a call with 10 KB of arguments, streamed, as a multiple of fcshim's")
        axes.tick_params(labelsize=8)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
