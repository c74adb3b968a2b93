"""What the inspector costs: CPU per chunk of the proxy without and with --inspect, beside a bare relay, in one run.

Rule: as in `benchmarks.proxy`; the three take turns, and the medians are compared.
"""

import contextlib
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.proxy.__main__ import measure_costs
from benchmarks.proxy.processes import proxy, scripted_upstream
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.report import Report, arguments

_RATE = 4_000
_NAMES = ("relay", "off", "on")


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    seconds, rounds = (1.0, 5) if options.quick else (1.5, 11)
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
        cases = [(name, kind) for kind in (TEXT, CALL) for name in _NAMES]
        found = [
            {case: measure_costs(running[case[0]], case[1], _RATE, seconds).cpu for case in cases}
            for _ in range(rounds)
        ]
    costs = {case: statistics.median(each[case] for each in found) for case in cases}
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


if __name__ == "__main__":
    sys.exit(main())
