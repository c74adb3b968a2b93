"""What the inspector costs: CPU per chunk of the proxy without and with --inspect, beside a bare relay, in one run.

Rule: as in `benchmarks.proxy`; the three take turns, and the medians are compared.
"""

import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.proxy.__main__ import measure_costs
from benchmarks.proxy.processes import Process, proxy, scripted_upstream
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.report import Report, arguments

_RATE = 4_000
_NAMES = ("relay", "off", "on")
_ORDER = (*_NAMES, *reversed(_NAMES))
"""Of each round: where in a round a proxy is measured changes its CPU by more than the inspector does."""


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    seconds, rounds = (1.0, 3) if options.quick else (1.5, 7)
    report = Report("inspector")
    with (
        scripted_upstream() as upstream,
        tempfile.TemporaryDirectory() as folder,
        contextlib.ExitStack() as stack,
    ):
        place = Path(folder)
        running = {
            "relay": stack.enter_context(proxy("relay", upstream, place)),
            "off": stack.enter_context(proxy("fcshim", upstream, place)),
            "on": stack.enter_context(proxy("fcshim", upstream, place, "--inspect")),
        }
        found = [_measure_round(running, seconds) for _ in range(rounds)]
    costs = {case: statistics.median(each[case] for each in found) for case in found[0]}
    rows = [(f"{name}, {kind}", cpu, cpu / costs["relay", kind]) for (name, kind), cpu in costs.items()]
    report.table(
        f"{_RATE:,} chunks a second, median of {rounds} rounds in turns",
        ("proxy, reply", "us CPU a chunk", "x relay"),
        rows,
    )
    for kind in (TEXT, CALL):
        # Of each round, since other work on the machine slows both down.
        ratio = statistics.median(each["on", kind] / each["off", kind] for each in found)
        report.bar(f"{kind}: CPU with --inspect beside without, median of the rounds", ratio, 1.05, "x")
    return report.finish(options.json)


def _measure_round(running: dict[str, Process], seconds: float) -> dict[tuple[str, str], float]:
    costs = {(name, kind): 0.0 for kind in (TEXT, CALL) for name in _NAMES}
    for kind in (TEXT, CALL):
        for name in _ORDER:
            costs[name, kind] += measure_costs(running[name], kind, _RATE, seconds).cpu / 2
    return costs


if __name__ == "__main__":
    sys.exit(main())
