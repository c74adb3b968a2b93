"""The cost of MCP servers: starting many compared with starting one, and a call compared with the SDK's client.

Rule: the two clients call one real server in turns; the servers that are started take half a second each.
"""

import asyncio
import statistics
import sys
import time
from pathlib import Path

from mcp import Client, StdioServerParameters

from benchmarks.report import Report, arguments
from fcshim.mcp import Manager, McpServerConfig, StdioTransport

_SERVERS = Path(__file__).parent.parent / "tests" / "mcp" / "servers"
_SERVER_COUNT = 20
_START_LIMIT = 1.5
_CALL_LIMIT = 1.0
_RESTART_LIMIT = 2.0


def main() -> int:
    """Measure, report and return the exit status."""
    options = arguments(__doc__.partition("\n")[0]).parse_args()
    report = Report("servers")
    asyncio.run(_measure(report, calls=200 if options.quick else 2_000, rounds=2 if options.quick else 5))
    return report.finish(options.json)


async def _measure(report: Report, *, calls: int, rounds: int) -> None:
    one = min([await _start_seconds(1) for _ in range(rounds)])
    many = min([await _start_seconds(_SERVER_COUNT) for _ in range(rounds)])
    report.table(
        "Starting servers that take 0.5 s, best of all rounds",
        ("servers", "s"),
        [("1", one), (f"{_SERVER_COUNT}", many)],
    )
    report.bar(f"{_SERVER_COUNT} servers, beside 1", many / one, _START_LIMIT, "x")
    sdk, manager = await _call_seconds(calls)
    report.table("A call, median", ("by", "ms"), [("the SDK's client", sdk * 1e3), ("the manager", manager * 1e3)])
    report.bar("what the manager adds", (manager - sdk) * 1e3, _CALL_LIMIT, "ms")
    report.bar(
        "from a server's death to the next result, its start included", await _restart_seconds(), _RESTART_LIMIT, "s"
    )


def _command(name: str, *args: str) -> StdioTransport:
    return StdioTransport(command=sys.executable, args=(str(_SERVERS / f"{name}.py"), *args))


async def _start_seconds(count: int) -> float:
    servers = [McpServerConfig(name=f"s{number}", transport=_command("raw", "late")) for number in range(count)]
    begin = time.perf_counter()
    async with Manager(servers) as manager:
        took = time.perf_counter() - begin
        assert len(manager.tools()) == count
    return took


async def _call_seconds(count: int) -> tuple[float, float]:
    """Call with both clients in turns; return the median seconds of each."""
    friendly = _command("friendly")
    parameters = StdioServerParameters(command=friendly.command, args=list(friendly.args))
    taken: tuple[list[float], list[float]] = ([], [])
    async with Client(parameters) as client, Manager([McpServerConfig(name="f", transport=friendly)]) as manager:
        for _ in range(count):
            begin = time.perf_counter()
            await client.call_tool("add", {"a": 1, "b": 2})
            middle = time.perf_counter()
            await manager.call("mcp__f__add", {"a": 1, "b": 2})
            taken[0].append(middle - begin)
            taken[1].append(time.perf_counter() - middle)
    return statistics.median(taken[0]), statistics.median(taken[1])


async def _restart_seconds() -> float:
    """Return the seconds from a server's death to the result of the next call."""
    async with Manager([McpServerConfig(name="f", transport=_command("friendly"))]) as manager:
        await manager.call("f:die", {})
        begin = time.perf_counter()
        assert not (await manager.call("f:add", {"a": 1, "b": 2})).is_error
        return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
