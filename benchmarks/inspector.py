"""What the inspector costs: CPU per chunk of the proxy without and with --inspect, beside a bare relay, in one run.

Rule: as in `benchmarks.proxy`. Both configurations run in one process and take turns of half a second; the ring is
small enough to be full after the first ones. Other work on the machine can only add: the lower quartiles are compared.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.proxy.__main__ import measure_costs
from benchmarks.proxy.processes import Process, proxy, proxy_variants, scripted_upstream
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.report import Report, arguments

_RATE = 4_000
_SECONDS = 0.5
_NAMES = ("relay", "off", "on")
_ORDER = (*_NAMES, *reversed(_NAMES))
_VARIANTS: dict[str, dict[str, str | bool]] = {"off": {}, "on": {"inspect": True, "inspect_bytes": "4000000"}}


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    rounds = 8 if options.quick else 20
    report = Report("inspector")
    with (
        scripted_upstream() as upstream,
        tempfile.TemporaryDirectory() as folder,
        proxy("relay", upstream, Path(folder)) as relay,
        proxy_variants(upstream, _VARIANTS) as variants,
    ):
        running = {"relay": relay, **variants}
        _measure_round(running, {})
        found: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            _measure_round(running, found)
    costs = {case: statistics.quantiles(each, n=4)[0] for case, each in found.items()}
    rows = [(f"{name}, {kind}", cpu, cpu / costs["relay", kind]) for (name, kind), cpu in costs.items()]
    report.table(
        f"{_RATE:,} chunks a second, lower quartile of {2 * rounds} turns",
        ("proxy, reply", "us CPU a chunk", "x relay"),
        rows,
    )
    for kind in (TEXT, CALL):
        report.bar(f"{kind}: CPU with --inspect beside without", costs["on", kind] / costs["off", kind], 1.05, "x")
    return report.finish(options.json)


def _measure_round(running: dict[str, Process], found: dict[tuple[str, str], list[float]]) -> None:
    for kind in (TEXT, CALL):
        for name in _ORDER:
            cost = measure_costs(running[name], kind, _RATE, _SECONDS).cpu
            found.setdefault((name, kind), []).append(cost)


if __name__ == "__main__":
    sys.exit(main())
