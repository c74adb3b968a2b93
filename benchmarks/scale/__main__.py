"""Replicas and workers on a part of a core each: throughput, conversations during crashes, streams during restarts.

Rule: loopback only, every loop is bounded; N replicas are compared with one in the same round.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop

from benchmarks.proxy.processes import Process, scripted_upstream
from benchmarks.report import Report, arguments
from benchmarks.scale.cpu_limit import limited, method
from benchmarks.scale.replicas import Replica, running_replicas
from benchmarks.scale.scenarios import (
    converse_while_replicas_are_killed,
    stream_while_replicas_are_restarted,
    throughput,
)
from benchmarks.scale.stores import shared_stores

_CORES = 0.25
"""What each replica gets: four of them leave a core to the load."""
_REPLICAS = 3


def main() -> int:
    """Measure, report and return the exit status."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("throughput", "kills", "restarts"), help="one of the three parts")
    options = parser.parse_args()
    report = Report("scale")
    with scripted_upstream() as upstream, tempfile.TemporaryDirectory() as folder:
        if options.only in (None, "throughput"):
            uvloop.run(_measure_throughput(report, upstream, quick=options.quick))
        if options.only in (None, "kills"):
            uvloop.run(_measure_kills(report, upstream, Path(folder), 20 if options.quick else 200))
        if options.only in (None, "restarts"):
            uvloop.run(_measure_restarts(report, upstream, 20 if options.quick else 200))
    return report.finish(options.json)


async def _measure_throughput(report: Report, upstream: Process, *, quick: bool) -> None:
    counts = (1, 2) if quick else (1, 2, 3, 4)
    rounds, seconds = (1, 1.5) if quick else (5, 4)
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(rounds):
        for count in counts:
            async with running_replicas(count, upstream.port) as replicas:
                rate = await _limited_throughput(replicas, [replica.port for replica in replicas], seconds)
            found.setdefault(("replicas", count), []).append(rate)
            async with running_replicas(1, upstream.port, "--workers", str(count)) as replicas:
                rate = await _limited_throughput(replicas, [replicas[0].port] * count, seconds)
            found.setdefault(("workers", count), []).append(rate)
    rates = {case: statistics.median(values) for case, values in found.items()}
    rows = [(f"{count} {kind}", rate, rate / rates[kind, 1]) for (kind, count), rate in sorted(rates.items())]
    report.table(f"Replies per second, {_CORES} of a core each ({method()})", ("", "replies/s", "x one"), rows)
    for (kind, count), rate in sorted(rates.items()):
        if count > 1:
            report.bar(f"{count} {kind}, beside {count} x one", count * rates[kind, 1] / rate, 1 / 0.9, "x")


async def _limited_throughput(replicas: Sequence[Replica], ports: Sequence[int], seconds: float) -> float:
    await throughput(ports, 0.3)  # the first requests import and compile
    with limited([pid for replica in replicas for pid in _processes(replica)], _CORES):
        return await throughput(ports, seconds)


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


async def _measure_restarts(report: Report, upstream: Process, streams: int) -> None:
    async with running_replicas(_REPLICAS, upstream.port) as replicas:
        result = await stream_while_replicas_are_restarted(replicas, streams=streams, chunks=60, pause=0.1)
    columns = ("at once", "complete", "cut", "s")
    row = (streams, result.complete, result.cut, result.seconds)
    report.table(f"Streams of 6 s while {_REPLICAS} replicas are restarted in turn", columns, [row])
    report.bar("streams cut by a rolling restart", result.cut, 0)


if __name__ == "__main__":
    sys.exit(main())
