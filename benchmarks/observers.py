"""The cost of observing requests: a chunk with the inspector, figures, records, traces, and without any, in one run.

Rule: as in `benchmarks.proxy.lockstep`. The bars are for instructions, which are the same in each run. Times follow:
they include the kernel and what memory takes, but depend on where a process has its memory, and on which turn a
garbage collection falls into. So all configurations take turns in one process, in another order each round, and the
median of several processes counts.
"""

import asyncio
import random
import shutil
import statistics
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
        asyncio.run(_measure(report, variants, processes=3 if options.quick else 7, rounds=10))
        if shutil.which("valgrind") is None:
            print("valgrind is not installed: instructions are not counted", file=sys.stderr)
        elif not options.quick:
            asyncio.run(_count(report, variants))
    return report.finish(options.json)


async def _measure(
    report: Report, variants: Mapping[str, Mapping[str, str | bool]], *, processes: int, rounds: int
) -> None:
    found = [await _costs_in_one_process(variants, seed, rounds) for seed in range(processes)]
    ratios = {case: [each[case] / each["off", case[1]] for each in found] for case in found[0]}
    costs = {case: statistics.median(each[case] for each in found) * 1e6 for case in ratios}
    rows = [
        (", ".join(case), costs[case], statistics.median(each), min(each), max(each)) for case, each in ratios.items()
    ]
    title = f"CPU of a chunk, median of {processes} processes with {rounds} rounds each"
    report.table(title, ("observed by, reply", "us", "x off", "least", "most"), rows)


async def _costs_in_one_process(
    variants: Mapping[str, Mapping[str, str | bool]], seed: int, rounds: int
) -> dict[tuple[str, str], float]:
    """Return the seconds of CPU of a chunk for each configuration and kind of reply."""
    order = random.Random(seed)
    shuffled = order.sample(list(variants), len(variants))
    cases = [(name, kind) for kind in (TEXT, CALL) for name in variants]
    async with lockstep_proxies({name: variants[name] for name in shuffled}, hash_seed=seed) as proxies:
        for case in cases:
            await proxies.warm_up(*case)
        found: dict[tuple[str, str], list[tuple[float, float]]] = {case: [] for case in cases}
        for _ in range(rounds):
            for case in order.sample(cases, len(cases)):
                found[case].append(await proxies.measure_seconds(*case))
    return {case: seconds_of_a_chunk(each) for case, each in found.items()}


async def _count(report: Report, variants: Mapping[str, Mapping[str, str | bool]]) -> None:
    async with lockstep_proxies(variants, counted=True) as proxies:
        costs = {
            (name, kind): await proxies.count_instructions(name, kind) for kind in (TEXT, CALL) for name in variants
        }
    ratios = {(name, kind): cost / costs["off", kind] for (name, kind), cost in costs.items()}
    rows = [(", ".join(case), cost, ratios[case]) for case, cost in costs.items()]
    title = "Instructions of a chunk, without those of the kernel"
    report.table(title, ("observed by, reply", "instructions", "x off"), rows)
    for kind in (TEXT, CALL):
        for name, limit in _LIMITS.items():
            report.bar(f"{kind}: instructions with {name} beside without", ratios[name, kind], limit, "x")


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
