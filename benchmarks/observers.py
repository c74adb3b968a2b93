"""The cost of observing requests: a chunk with the inspector, figures, records, traces, and without any, in one run.

Rule: as in `benchmarks.proxy.lockstep`. All configurations run in one process and take turns, so that other work on the
machine slows all of them down.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.proxy.lockstep import lockstep_proxies, seconds_of_a_chunk
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.proxy.variants import COLLECTOR
from benchmarks.report import Report, arguments

_NO_COLLECTOR: dict[str, str | bool] = {COLLECTOR: "http://127.0.0.1:9"}
"""Nothing listens there: the cost of an export depends on the collector; the spans are made in any case."""
_LIMITS = {"--inspect": 1.05, "--metrics": 1.05, "--record": 1.05, "traces": 1.1}


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    report = Report("observers")
    with tempfile.TemporaryDirectory() as folder:
        variants = _variants(Path(folder))
        asyncio.run(_measure(report, variants, rounds=10 if options.quick else 40))
        if shutil.which("valgrind") is None:
            print("valgrind is not installed: instructions are not counted", file=sys.stderr)
        elif not options.quick:
            asyncio.run(_count(report, variants))
    return report.finish(options.json)


async def _measure(report: Report, variants: Mapping[str, Mapping[str, str | bool]], *, rounds: int) -> None:
    cases = [(name, kind) for kind in (TEXT, CALL) for name in variants]
    async with lockstep_proxies(variants) as proxies:
        for case in cases:
            await proxies.warm_up(*case)
        found = [{case: await proxies.measure_seconds(*case) for case in cases} for _ in range(rounds)]
    costs = {case: seconds_of_a_chunk([each[case] for each in found]) * 1e6 for case in cases}
    _report(report, f"CPU of a chunk, lower quartile of {rounds} rounds", "us", costs)


async def _count(report: Report, variants: Mapping[str, Mapping[str, str | bool]]) -> None:
    async with lockstep_proxies(variants, counted=True) as proxies:
        costs = {
            (name, kind): await proxies.count_instructions(name, kind) for kind in (TEXT, CALL) for name in variants
        }
    _report(report, "Instructions of a chunk, without those of the kernel", "instructions", costs)


def _report(report: Report, title: str, unit: str, costs: Mapping[tuple[str, str], float]) -> None:
    rows = [(f"{name}, {kind}", cost, cost / costs["off", kind]) for (name, kind), cost in costs.items()]
    report.table(title, ("observed by, reply", unit, "x off"), rows)
    for kind in (TEXT, CALL):
        for name, limit in _LIMITS.items():
            report.bar(f"{kind}: {unit} with {name} beside without", costs[name, kind] / costs["off", kind], limit, "x")


def _variants(folder: Path) -> dict[str, dict[str, str | bool]]:
    return {
        "off": {},
        "--inspect": {"inspect": True, "inspect_bytes": "4000000"},
        "--metrics": {"metrics": True},
        "--record": {"record": str(folder / "records")},
        "traces": _NO_COLLECTOR,
        "all": {"inspect": True, "metrics": True, "record": str(folder / "all"), **_NO_COLLECTOR},
    }


if __name__ == "__main__":
    sys.exit(main())
