"""Reports of benchmarks: tables, bars that are ok or MISSED, and the same numbers as JSON.

Rule: a time is compared with something measured in the same run; a bar is an upper limit for such a number.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Bar:
    """A number that must not exceed its limit; `unit` is printed after both."""

    name: str
    value: float
    limit: float
    unit: str = ""

    @property
    def ok(self) -> bool:
        """Whether the bar is met."""
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "ok    " if self.ok else "MISSED"
        unit = f" {self.unit}" if self.unit else ""
        return f"{verdict}  {self.name}: {number(self.value)}{unit} (bar {number(self.limit)}{unit})"


@dataclass(slots=True)
class Report:
    """The tables and bars of one benchmark run, in order."""

    name: str
    tables: list[dict[str, object]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Print a table and keep it for the JSON."""
        self.tables.append({"title": title, "columns": list(columns), "rows": [list(row) for row in rows]})
        print(f"\n{title}\n{format_table(columns, rows)}", flush=True)

    def bar(self, name: str, value: float, limit: float, unit: str = "") -> None:
        """Print a bar as ok or MISSED and keep it for the JSON."""
        bar = Bar(name, value, limit, unit)
        self.bars.append(bar)
        print(bar, flush=True)

    @property
    def missed(self) -> int:
        """The number of missed bars."""
        return sum(not bar.ok for bar in self.bars)

    def finish(self, json_path: Path | None = None) -> int:
        """Print the number of met bars, write the JSON to the path if given, and return the exit status."""
        print(f"\n{len(self.bars) - self.missed} of {len(self.bars)} bars met")
        if json_path is not None:
            json_path.write_text(json.dumps(self.as_dict(), indent=2) + "\n", encoding="utf-8")
        return 1 if self.missed else 0

    def as_dict(self) -> dict[str, object]:
        """Return the report as plain values, with the machine."""
        bars = [
            {"name": bar.name, "value": bar.value, "limit": bar.limit, "unit": bar.unit, "ok": bar.ok}
            for bar in self.bars
        ]
        return {"benchmark": self.name, "machine": machine(), "tables": self.tables, "bars": bars}


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark: `--quick` and `--json FILE`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes: seconds instead of minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers as JSON")
    return parser


def machine() -> dict[str, Cell]:
    """Return a description of the machine."""
    return {"python": sys.version.split()[0], "platform": platform.platform(), "cores": os.cpu_count()}


def slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Return the slope of times over sizes on logarithmic axes: 1 is linear, 2 quadratic."""
    logs = [_log(size) for size in sizes], [_log(time) for time in times]
    return statistics.linear_regression(*logs).slope


def format_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table in plain text, with the first column aligned to the left and the others to the right."""
    cells = [list(columns), *([number(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    lines = [
        "  ".join(_align(text, width, at) for at, (text, width) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def number(value: Cell) -> str:
    """Format a cell: three significant digits, a comma between thousands, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _align(text: str, width: int, column: int) -> str:
    return text.rjust(width) if column else text.ljust(width)


def _log(value: float) -> float:
    return math.log(max(value, 1e-12))
