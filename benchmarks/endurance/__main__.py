"""Mixed traffic at half of the capacity, with faults: what is left of it in the proxy, and how every request ended.

Rule: loopback only. The capacity is that of this machine in the same run, the load's own work included. Workers are
killed in the first third, since memory is compared between its end and that of the run.
"""

import asyncio
import contextlib
import itertools
import random
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from benchmarks.endurance.footprint import Footprint, kill_worker, measure_footprint
from benchmarks.endurance.traffic import ENDS, KINDS, WRONG, Outcomes, Traffic
from benchmarks.proxy.processes import Process, scripted_upstream
from benchmarks.report import Report, arguments
from benchmarks.scale.replicas import Replica, running_replicas
from benchmarks.scale.scenarios import change_settings

LIMIT = 1.05
"""What may be left, beside what was there."""
_WORKERS = 2
_MINUTES = 30
_STALL_SECONDS = 5
"""The proxy's limit for the upstream's next bytes, which healthy ones must keep on a busy machine."""
_CAPACITY_SECONDS = 5.0
_SETTLE_SECONDS = 10.0
"""Seconds after a load until idle connections are closed and memory is returned."""
_MAX_SETTLE_SECONDS = 60.0
_KILLS = (0.1, 0.2)
"""Parts of the run after which a worker is killed."""
_RELOADS = 30
"""Times that the settings change during the run."""
_WINDOW = 1 / 15
"""The part of the run over which memory is the median of `_SAMPLES`."""
_SAMPLES = 5


@dataclass
class EnduranceResult:
    """The measurements of a run."""

    capacity: float
    """Requests per second."""
    before: Footprint
    after: Footprint
    outcomes: Outcomes
    memory: list[int] = field(default_factory=list)
    """Resident bytes at equal intervals during the run."""

    def memory_until(self, share: float) -> float:
        """Return the median memory in the window that ends after this part of the run."""
        end = round(len(self.memory) * share)
        return statistics.median(self.memory[end - _SAMPLES : end])


async def endure(upstream: Process, folder: Path, seconds: float, seed: int = 1) -> EnduranceResult:
    """Run the traffic for `seconds` through a proxy of two workers, which keeps its files in `folder`."""
    settings, choose = folder / "fcshim.toml", random.Random(seed)
    change_settings(settings, 0)
    stall = str(_STALL_SECONDS)
    options = ("--workers", str(_WORKERS), "--config", str(settings), "--store", f"sqlite:{folder / 'store.db'}")
    limits = ("--first-chunk-timeout", stall, "--chunk-timeout", stall)
    module = "benchmarks.endurance.counted_proxy"
    async with running_replicas(1, upstream.port, *options, *limits, module=module) as (replica,):
        process, traffic = Process(replica.port, replica.pid), Traffic(replica.port, choose)
        capacity = await traffic.measure_capacity(_CAPACITY_SECONDS)
        await asyncio.sleep(_SETTLE_SECONDS)
        before, memory, outcomes = await measure_footprint(process), [], Outcomes()
        async with _background(
            _sample_memory(process, seconds * _WINDOW / _SAMPLES, memory),
            _reload_repeatedly(replica, settings, seconds / _RELOADS),
            _kill_workers(process, seconds, outcomes, choose),
        ):
            await traffic.run(capacity / 2, seconds, outcomes)
        after = await _settled_footprint(process, before)
    return EnduranceResult(capacity, before, after, outcomes, memory)


@contextlib.asynccontextmanager
async def _background(*works: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run `works` while the block runs. Raises what one of them raises."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()


async def _sample_memory(process: Process, interval: float, memory: list[int]) -> None:
    while True:
        await asyncio.sleep(interval)
        with contextlib.suppress(OSError, IndexError):  # a worker that has just been killed
            memory.append(process.memory())


async def _reload_repeatedly(replica: Replica, settings: Path, interval: float) -> None:
    for number in itertools.count(1):
        await asyncio.sleep(interval)
        change_settings(settings, number)
        replica.reload()


async def _kill_workers(process: Process, seconds: float, outcomes: Outcomes, choose: random.Random) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    for part in _KILLS:
        await asyncio.sleep(started + part * seconds - loop.time())
        _, *workers = process.pids()
        outcomes.cut_ports |= await kill_worker(choose.choice(workers), process.port)


async def _settled_footprint(process: Process, before: Footprint) -> Footprint:
    """Measure after the load, again until what is left is within `LIMIT`, or for `_MAX_SETTLE_SECONDS`."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _MAX_SETTLE_SECONDS
    await asyncio.sleep(_SETTLE_SECONDS)
    while True:
        after = await measure_footprint(process)
        settled = after.descriptors <= before.descriptors * LIMIT and after.tasks <= before.tasks * LIMIT
        if settled or loop.time() >= until:
            return after
        await asyncio.sleep(1)


def report_result(report: Report, result: EnduranceResult, minutes: float) -> None:
    """Report a run with its bars."""
    outcomes, before, after = result.outcomes, result.before, result.after
    ends = (*ENDS, WRONG)
    rows = [
        (kind.name, *(outcomes.ends[kind.name, end] for end in ends))
        for kind in KINDS
        if any(outcomes.ends[kind.name, end] for end in ends)
    ]
    total = ("all", *(sum(row[at] for row in rows) for at in range(1, len(ends) + 1)))
    rate = result.capacity / 2
    report.table(
        f"Requests in {minutes:g} minutes, {rate:.0f} a second (capacity {result.capacity:.0f})",
        ("", *ends),
        [*rows, total],
    )
    for problem in outcomes.problems:
        print(problem, file=sys.stderr)
    talks = outcomes.conversations
    print(f"turns of conversations: {talks.completed} completed, {talks.repeated} asked again, {talks.lost} lost")
    memory = [result.memory_until(part) / 1e6 for part in (1 / 3, 1)]
    report.table(
        f"The proxy, {_WORKERS} workers and their supervisor",
        ("", "descriptors", "tasks", "MB"),
        [
            ("before", before.descriptors, before.tasks, before.memory / 1e6),
            ("under load, at a third", None, None, memory[0]),
            ("under load, at the end", None, None, memory[1]),
            ("after", after.descriptors, after.tasks, after.memory / 1e6),
        ],
    )
    report.bar("descriptors after, beside those before", after.descriptors / before.descriptors, LIMIT, "x")
    report.bar("tasks after, beside those before", after.tasks / before.tasks, LIMIT, "x")
    report.bar("memory at the end, beside that at a third", memory[1] / memory[0], LIMIT, "x")
    report.bar("requests that did not end as they should", outcomes.wrong, 0)
    report.bar("turns of conversations that were lost", talks.lost, 0)


def main() -> int:
    """Measure, report and return the exit status."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, help="how long the traffic runs (30; 1 with --quick)")
    options = parser.parse_args()
    minutes = options.minutes or (1 if options.quick else _MINUTES)
    report = Report("endurance")
    with scripted_upstream() as upstream, tempfile.TemporaryDirectory() as folder:
        report_result(report, uvloop.run(endure(upstream, Path(folder), 60 * minutes)), minutes)
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
