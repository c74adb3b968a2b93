"""The proxy with the shim, compared with a bare relay on the same stack and with nginx, in one run.

Rule: loopback only, every loop is bounded; CPU is that of the proxy process, read before and after a paced load.
"""

import asyncio
import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.proxy.load import LoadResult, encode_request, read_streams
from benchmarks.proxy.processes import Process, proxy, scripted_upstream
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.report import Report, arguments

_RATES = {1_000: (5, 0.005), 4_000: (20, 0.005)}
"""Total chunks per second: the number of streams, and the seconds between the chunks of each. Streams are long, so that
the cost of a request does not count as the cost of its chunks."""
_LIVE_STREAMS = 1_000
_RETURN_SECONDS = 5
"""Seconds after a load until the memory is read: the proxy returns it after two seconds without a request."""
_ROUNDS = 5


@dataclass(frozen=True)
class ProxyCosts:
    """The cost of one proxy: microseconds of CPU per chunk, and the median age of a chunk in seconds at the client."""

    cpu: float
    age: float


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    report = Report("proxy")
    seconds, live = (1.5, 200) if options.quick else (3, _LIVE_STREAMS)
    with scripted_upstream() as upstream, tempfile.TemporaryDirectory() as folder:
        _measure_chunks(report, upstream, Path(folder), seconds)
        _measure_streams(report, upstream, Path(folder), live)
    return report.finish(options.json)


def _measure_chunks(report: Report, upstream: Process, folder: Path, seconds: float) -> None:
    names = ["relay", "fcshim"]
    if shutil.which("nginx"):
        names.append("nginx")
    else:
        print("nginx is not installed and not measured", file=sys.stderr)
    cases = [(name, kind) for kind in (TEXT, CALL) for name in names if (name, kind) != ("nginx", CALL)]
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(proxy(name, upstream, folder)) for name in names}
        for rate in _RATES:
            direct = _load(upstream.port, TEXT, rate, seconds).median_age
            rounds = [
                {case: measure_costs(running[case[0]], case[1], rate, seconds) for case in cases}
                for _ in range(_ROUNDS)
            ]
            _report_costs(report, rate, {case: _median([found[case] for found in rounds]) for case in cases}, direct)


def _report_costs(report: Report, rate: int, found: dict[tuple[str, str], ProxyCosts], direct: float) -> None:
    nginx = found.get(("nginx", TEXT))
    rows = [
        (
            f"{name}, {kind}",
            costs.cpu,
            costs.cpu / found["relay", kind].cpu,
            costs.cpu / nginx.cpu if nginx else None,
            (costs.age - direct) * 1e6,
            (costs.age - direct) / (nginx.age - direct) if nginx else None,
        )
        for (name, kind), costs in found.items()
    ]
    columns = ("proxy, reply", "us CPU a chunk", "x relay", "x nginx", "added p50, us", "x nginx ")
    report.table(f"{rate:,} chunks a second, median of {_ROUNDS} rounds in turns", columns, rows)
    for kind in (TEXT, CALL):
        cpu = found["fcshim", kind].cpu
        report.bar(f"{kind}, {rate:,}/s: CPU beside the bare relay", cpu / found["relay", kind].cpu, 1.4, "x")
        if nginx:
            report.bar(f"{kind}, {rate:,}/s: CPU beside nginx", cpu / nginx.cpu, 3.5, "x")
    if nginx:
        added = (found["fcshim", TEXT].age - direct) / (nginx.age - direct)
        report.bar(f"{rate:,}/s: added latency beside nginx's", added, 2.5, "x")


def measure_costs(process: Process, kind: str, rate: int, seconds: float) -> ProxyCosts:
    before = process.cpu()
    result = _load(process.port, kind, rate, seconds)
    return ProxyCosts((process.cpu() - before) / len(result.ages) * 1e6, result.median_age)


def _median(figures: list[ProxyCosts]) -> ProxyCosts:
    return ProxyCosts(
        statistics.median(costs.cpu for costs in figures), statistics.median(costs.age for costs in figures)
    )


def _load(port: int, kind: str, rate: int, seconds: float) -> LoadResult:
    count, pause = _RATES[rate]
    chunks = round(seconds / pause)
    result = uvloop.run(read_streams(port, count, f"{kind}:{chunks}:{pause}"))
    if result.completed != count or len(result.ages) < 0.99 * count * chunks:
        raise RuntimeError(f"{count - result.completed} of {count} streams broke; {len(result.ages)} stamps arrived")
    return result


def _measure_streams(report: Report, upstream: Process, folder: Path, live: int) -> None:
    names = ["relay", "fcshim", *(["nginx"] if shutil.which("nginx") else [])]
    rows = []
    for name in names:
        with proxy(name, upstream, folder) as process:
            _load(process.port, TEXT, 1_000, 0.2)
            base = process.memory()
            grown, gone = uvloop.run(measure_live_streams(process, upstream, live))
            time.sleep(_RETURN_SECONDS)
            kept = process.memory() / base
            rows.append((name, base / 1e6, (grown - base) / live / 1024, gone, kept))
    columns = ("proxy", "base, MB", "KB a stream", "s until upstream is free", f"x base {_RETURN_SECONDS} s later")
    report.table(f"{live:,} live streams", columns, rows)
    (_, base_mb, stream_kb, gone, kept) = next(row for row in rows if row[0] == "fcshim")
    report.bar("base memory", base_mb, 80, "MB")
    report.bar("memory of a live stream", stream_kb, 64, "KB")
    report.bar("resident memory after a load, beside the base", kept, 1.2, "x")
    report.bar("upstream connections gone after the last client", gone, 1, "s")


async def measure_live_streams(process: Process, upstream: Process, count: int) -> tuple[int, float]:
    """Open long streams, measure the memory, close them all, and wait until the upstream has no stream left."""
    ask = encode_request(f"{TEXT}:1200:0.5")
    connections = []
    for at in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
        writer.write(ask)
        connections.append((reader, writer))
        if at % 50 == 49:
            await asyncio.sleep(0.05)
    for reader, _ in connections:
        await asyncio.wait_for(reader.readuntil(b"@"), 60)
    memory = process.memory()
    if await _open_streams(upstream) != count:
        raise RuntimeError("not every stream is open")
    left = time.monotonic()
    for _, writer in connections:
        writer.transport.abort()
    for _ in range(3_000):
        if not await _open_streams(upstream):
            break
        await asyncio.sleep(0.01)
    return memory, time.monotonic() - left


async def _open_streams(upstream: Process) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    writer.write(b"GET /open HTTP/1.1\r\n\r\n")
    answer = (await reader.readuntil(b"\r\n\r\n")) + await reader.read(100)
    writer.close()
    return int(answer.rpartition(b"\r\n\r\n")[2])


if __name__ == "__main__":
    sys.exit(main())
