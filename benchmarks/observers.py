"""What observing requests costs: CPU per chunk of the proxy with figures, records and traces, beside none, in one run.

Rule: as in `benchmarks.proxy`; the proxies take turns, and the medians are compared.
"""

import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.proxy.__main__ import measure_costs
from benchmarks.proxy.processes import Process, proxy, scripted_upstream
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.report import Report, arguments

_RATE = 4_000
_OPTIONS = {
    "off": (),
    "--metrics": ("--metrics",),
    "--record": ("--record", "records"),
    "traces": (),
    "all": ("--metrics", "--record", "all"),
}
_TRACED = frozenset({"traces", "all"})
_NO_COLLECTOR = "http://127.0.0.1:9"
"""Nobody listens there: what an export costs is the collector's affair, the spans are made all the same."""


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    seconds, rounds = (1.5, 3) if options.quick else (2.0, 7)
    report = Report("observers")
    with (
        scripted_upstream() as upstream,
        tempfile.TemporaryDirectory() as folder,
        contextlib.ExitStack() as stack,
    ):
        running = {name: stack.enter_context(_proxy(name, upstream, Path(folder))) for name in _OPTIONS}
        cases = [(name, kind) for kind in (TEXT, CALL) for name in _OPTIONS]
        found = [
            {case: measure_costs(running[case[0]], case[1], _RATE, seconds).cpu for case in cases}
            for _ in range(rounds)
        ]
    costs = {case: statistics.median(each[case] for each in found) for case in cases}
    rows = [(f"{name}, {kind}", cpu, cpu / costs["off", kind]) for (name, kind), cpu in costs.items()]
    report.table(
        f"{_RATE:,} chunks a second, median of {rounds} rounds in turns",
        ("observed by, reply", "us CPU a chunk", "x off"),
        rows,
    )
    for name in ("--metrics", "traces"):
        report.bar(f"{TEXT}: CPU with {name} beside without", costs[name, TEXT] / costs["off", TEXT], 1.1, "x")
    return report.finish(options.json)


@contextlib.contextmanager
def _proxy(name: str, upstream: Process, folder: Path) -> Iterator[Process]:
    given = [str(folder / each) if each in {"records", "all"} else each for each in _OPTIONS[name]]
    if name in _TRACED:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = _NO_COLLECTOR
    with proxy("fcshim", upstream, folder, *given) as process:
        os.environ.pop("OTEL_EXPORTER_OTLP_ENDPOINT", None)
        yield process


if __name__ == "__main__":
    sys.exit(main())
