"""What observing requests costs: CPU per chunk of the proxy with figures, records and traces, beside none, in one run.

Rule: as in `benchmarks.proxy`. All configurations run in one process and take turns of a second, so that other work on
the machine slows all of them down.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.proxy.__main__ import measure_costs
from benchmarks.proxy.processes import proxy_variants, scripted_upstream
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.proxy.variants import COLLECTOR
from benchmarks.report import Report, arguments

_RATE = 4_000
_SECONDS = 0.8
_NO_COLLECTOR: dict[str, str | bool] = {COLLECTOR: "http://127.0.0.1:9"}
"""Nobody listens there: what an export costs is the collector's affair, the spans are made all the same."""


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    rounds = 4 if options.quick else 15
    report = Report("observers")
    with tempfile.TemporaryDirectory() as folder, scripted_upstream() as upstream:
        variants = _variants(Path(folder))
        with proxy_variants(upstream, variants) as running:
            cases = [(name, kind) for kind in (TEXT, CALL) for name in variants]
            found = [
                {case: measure_costs(running[case[0]], case[1], _RATE, _SECONDS).cpu for case in each}
                for each in [cases, cases[::-1]] * (rounds // 2)
            ]
    # Other work on the machine can only add.
    costs = {case: statistics.quantiles([each[case] for each in found], n=4)[0] for case in cases}
    rows = [(f"{name}, {kind}", cpu, cpu / costs["off", kind]) for (name, kind), cpu in costs.items()]
    report.table(
        f"{_RATE:,} chunks a second, lower quartile of {len(found)} turns",
        ("observed by, reply", "us CPU a chunk", "x off"),
        rows,
    )
    for name in ("--metrics", "traces"):
        report.bar(f"{TEXT}: CPU with {name} beside without", costs[name, TEXT] / costs["off", TEXT], 1.1, "x")
    return report.finish(options.json)


def _variants(folder: Path) -> dict[str, dict[str, str | bool]]:
    return {
        "off": {},
        "--metrics": {"metrics": True},
        "--record": {"record": str(folder / "records")},
        "traces": _NO_COLLECTOR,
        "all": {"metrics": True, "record": str(folder / "all"), **_NO_COLLECTOR},
    }


if __name__ == "__main__":
    sys.exit(main())
