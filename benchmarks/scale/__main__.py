"""Replicas and workers on a part of a core each: throughput, conversations during crashes, streams during restarts.

Rule: loopback only, every loop is bounded; N replicas are compared with one in the same round.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.proxy.processes import Process, cpu_seconds, scripted_upstream
from benchmarks.report import Report, arguments
from benchmarks.scale.cpu_limit import limited, method
from benchmarks.scale.replicas import Replica, running_replicas
from benchmarks.scale.scenarios import (
    converse_while_replicas_are_killed,
    stream_while_replicas_are_restarted,
    stream_while_settings_change,
    throughput,
)
from benchmarks.scale.stores import shared_stores

_CORES = 0.25
"""The part of a core that each replica gets: of two cores, four replicas leave one to the load."""
_REPLICAS = 3


@dataclass(frozen=True)
class Throughput:
    """Replies per second, and the cores that the processes got: on a busy machine fewer than they may have."""

    rate: float
    cores: float


def main() -> int:
    """Measure, report and return the exit status."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("throughput", "kills", "restarts"), help="one of the three parts")
    parser.add_argument("--cores", type=float, default=_CORES, help="what each replica gets; less on a busy machine")
    options = parser.parse_args()
    report = Report("scale")
    with scripted_upstream() as upstream, tempfile.TemporaryDirectory() as folder:
        if options.only in (None, "throughput"):
            uvloop.run(_measure_throughput(report, upstream, options.cores, quick=options.quick))
        if options.only in (None, "kills"):
            uvloop.run(_measure_kills(report, upstream, Path(folder), 20 if options.quick else 200))
        if options.only in (None, "restarts"):
            uvloop.run(_measure_restarts(report, upstream, Path(folder), 20 if options.quick else 200))
    return report.finish(options.json)


_CROWD = 4
"""Times as many clients for workers: Linux deals connections out at random, and a few may all wait for one worker."""


async def _measure_throughput(report: Report, upstream: Process, limit: float, *, quick: bool) -> None:
    counts = (1, 2) if quick else (1, 2, 3, 4)
    rounds, seconds = (1, 1.5) if quick else (3, 4)
    found: dict[tuple[str, int], list[Throughput]] = {}
    for _ in range(rounds):
        for count in counts:
            async with running_replicas(count, upstream.port) as replicas:
                measured = await _limited_throughput(replicas, [replica.port for replica in replicas], limit, seconds)
            found.setdefault(("replicas", count), []).append(measured)
            async with running_replicas(1, upstream.port, "--workers", str(count)) as replicas:
                ports = [replicas[0].port] * count * _CROWD
                measured = await _limited_throughput(replicas, ports, limit, seconds)
            found.setdefault(("workers", count), []).append(measured)
    rates = {case: statistics.median(each.rate for each in measured) for case, measured in found.items()}
    cores = {case: statistics.median(each.cores for each in measured) for case, measured in found.items()}
    rows = [
        (f"{count} {kind}", rate, rate / rates[kind, 1], cores[kind, count], rate / cores[kind, count])
        for (kind, count), rate in sorted(rates.items())
    ]
    columns = ("", "replies/s", "x one", "cores got", "replies/s a core")
    report.table(f"Replies per second, {limit} of a core each ({method()})", columns, rows)
    for (kind, count), rate in sorted(rates.items()):
        if count > 1:
            report.bar(f"{count} {kind}, beside {count} x one", count * rates[kind, 1] / rate, 1 / 0.9, "x")


async def _limited_throughput(
    replicas: Sequence[Replica], ports: Sequence[int], limit: float, seconds: float
) -> Throughput:
    await throughput(ports, 0.3)  # the first requests import and compile
    pids = [pid for replica in replicas for pid in _processes(replica)]
    with limited(pids, limit):
        before, started = sum(map(cpu_seconds, pids)), time.monotonic()
        rate = await throughput(ports, seconds)
        return Throughput(rate, (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - started))


def _processes(replica: Replica) -> list[int]:
    """Return the workers of a replica; a single process serves by itself."""
    children = Path(f"/proc/{replica.pid}/task/{replica.pid}/children").read_text("utf-8").split()
    return [int(child) for child in children] or [replica.pid]


async def _measure_kills(report: Report, upstream: Process, folder: Path, conversations: int) -> None:
    rows = []
    with shared_stores(folder) as stores:
        for store in stores:
            async with running_replicas(_REPLICAS, upstream.port, "--store", store) as replicas:
                result = await converse_while_replicas_are_killed(
                    replicas, conversations=conversations, turns=5, pause=0.1
                )
            tally, name = result.tally, store.partition(":")[0]
            rows.append((name, result.kills, tally.completed, tally.repeated, tally.lost, result.seconds))
            if tally.problem:
                print(f"{name}: {tally.problem}", file=sys.stderr)
            report.bar(f"{name}: turns lost of {conversations} conversations", 5 * conversations - tally.completed, 0)
    columns = ("store", "kills", "turns", "asked again", "lost", "s")
    report.table(f"{conversations} conversations of 5 turns while {_REPLICAS} replicas are killed", columns, rows)


async def _measure_restarts(report: Report, upstream: Process, folder: Path, streams: int) -> None:
    rows = []
    settings = folder / "fcshim.toml"
    settings.write_text("", "utf-8")
    async with running_replicas(_REPLICAS, upstream.port) as replicas:
        restarted = await stream_while_replicas_are_restarted(replicas, streams=streams, chunks=60, pause=0.1)
    options = ("--workers", str(_REPLICAS), "--config", str(settings))
    async with running_replicas(1, upstream.port, *options) as (replica,):
        reloaded = await stream_while_settings_change(
            replica, settings, reloads=20, streams=streams, chunks=60, pause=0.1
        )
    for name, tally in (
        (f"{_REPLICAS} replicas are restarted in turn", restarted),
        (f"{_REPLICAS} workers load their settings 20 times", reloaded),
    ):
        rows.append((name, streams, tally.complete, tally.cut))
        report.bar(f"streams cut while {name}", tally.cut, 0)
    report.table("Streams of 6 s while", ("", "at once", "complete", "cut"), rows)


if __name__ == "__main__":
    sys.exit(main())
