"""The cost of each client API, relative to the Chat API, through the whole proxy in one run.

Rule: loopback only, every loop is bounded. The APIs are measured in turns, so that other load on the machine affects
all of them equally.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.proxy.load import CHAT, LoadResult, read_stream, read_streams
from benchmarks.proxy.processes import Process, proxy, scripted_upstream
from benchmarks.proxy.upstream import CALL, TEXT
from benchmarks.report import Report, arguments
from fcshim.codecs.routes import CODECS

_STREAMS = 20
_PAUSE = 0.005
_ROUNDS = 5
_SHORT_STREAMS = 150
"""Streams of one chunk each, one after the other, for the time from a request to the first chunk of its reply."""
_LIMIT = 1.3


@dataclass(frozen=True)
class ApiCosts:
    """Microseconds of CPU per chunk of text and of arguments."""

    text: float
    call: float


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    report = Report("apis")
    chunks = 300 if options.quick else 600
    with (
        scripted_upstream() as upstream,
        tempfile.TemporaryDirectory() as folder,
        proxy("fcshim", upstream, Path(folder)) as process,
    ):
        _measure(process, CHAT, 50)
        rounds = [{api: _measure(process, api, chunks) for api in CODECS} for _ in range(_ROUNDS)]
        firsts = _first_chunk_milliseconds(process)
    _report_costs(report, rounds, firsts)
    return report.finish(options.json)


def _measure(process: Process, api: str, chunks: int) -> ApiCosts:
    return ApiCosts(*(_cpu(process, api, kind, chunks) for kind in (TEXT, CALL)))


def _first_chunk_milliseconds(process: Process) -> dict[str, float]:
    """Return the median milliseconds until the first chunk; the APIs take turns request by request."""
    results = {api: LoadResult() for api in CODECS}

    async def ask() -> None:
        for _ in range(_SHORT_STREAMS):
            for api, result in results.items():
                await read_stream(process.port, f"{TEXT}:1:0", result, api)

    uvloop.run(ask())
    return {api: result.median_first_chunk * 1e3 for api, result in results.items()}


def _cpu(process: Process, api: str, kind: str, chunks: int) -> float:
    before = process.cpu()
    _load(process, api, f"{kind}:{chunks}:{_PAUSE}", _STREAMS)
    return (process.cpu() - before) / (_STREAMS * chunks) * 1e6


def _load(process: Process, api: str, script: str, count: int) -> LoadResult:
    result = uvloop.run(read_streams(process.port, count, script, api))
    if result.completed != count:
        raise RuntimeError(f"{api}: {count - result.completed} of {count} streams broke")
    return result


def _report_costs(report: Report, rounds: Sequence[dict[str, ApiCosts]], firsts: dict[str, float]) -> None:
    kinds = ("CPU per chunk of text", "CPU per chunk of arguments", "time to the first chunk")
    medians = {
        api: (
            statistics.median(costs[api].text for costs in rounds),
            statistics.median(costs[api].call for costs in rounds),
            firsts[api],
        )
        for api in CODECS
    }
    columns = ("API", "us CPU a chunk of text", "of arguments", "ms to the first chunk")
    rows = [(api, *figures) for api, figures in medians.items()]
    report.table(f"client APIs, {_STREAMS} streams, median of {_ROUNDS} rounds in turns", columns, rows)
    for api in CODECS:
        for at, kind in enumerate(kinds):
            if api != CHAT:
                report.bar(f"{api}, {kind}: beside the Chat API", medians[api][at] / medians[CHAT][at], _LIMIT, "x")


if __name__ == "__main__":
    sys.exit(main())
