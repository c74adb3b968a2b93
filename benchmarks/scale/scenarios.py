"""What happens to load on replicas: how much they serve, and what is lost when they crash or are restarted."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.proxy.load import LoadResult, encode_request, read_stream, send_request
from benchmarks.proxy.upstream import TEXT
from benchmarks.scale.conversations import Tally, converse
from benchmarks.scale.replicas import Balancer, Replica

_CLIENTS = 8
"""Clients for each replica: enough that it always has work."""
_SHORT = f"{TEXT}:20:0"


async def throughput(ports: Sequence[int], seconds: float) -> float:
    """Return the replies per second that clients get who ask again at once, each on a new connection."""
    request = encode_request(_SHORT)
    result = LoadResult()
    until = time.monotonic() + seconds

    async def ask(port: int) -> None:
        while time.monotonic() < until:
            await send_request(port, request, result)

    started = time.monotonic()
    await asyncio.gather(*(ask(port) for port in ports for _ in range(_CLIENTS)))
    return result.completed / (time.monotonic() - started)


@dataclass(frozen=True)
class KillResult:
    """What became of conversations while replicas were killed."""

    tally: Tally
    kills: int
    seconds: float


async def converse_while_replicas_are_killed(
    replicas: Sequence[Replica], *, conversations: int, turns: int, pause: float
) -> KillResult:
    """Have all conversations at once while one replica after the other is killed and started again.

    `pause` is the time between the chunks of a reply, of which there are ten.
    """
    tally, kills, started = Tally(), 0, time.monotonic()

    async def kill_in_turn() -> None:
        nonlocal kills
        for replica in itertools.cycle(replicas):
            await replica.kill()
            kills += 1
            await replica.start()

    async with Balancer([replica.port for replica in replicas]).running() as balancer:
        killer = asyncio.create_task(kill_in_turn())
        try:
            names = (f"c{number}" for number in range(conversations))
            await asyncio.gather(*(converse(balancer.port, name, turns, tally, pause=pause) for name in names))
        finally:
            killer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killer
    return KillResult(tally, kills, time.monotonic() - started)


@dataclass(frozen=True)
class RestartResult:
    """What became of streams while replicas were restarted."""

    complete: int
    cut: int
    seconds: float


async def stream_while_replicas_are_restarted(
    replicas: Sequence[Replica], *, streams: int, chunks: int, pause: float
) -> RestartResult:
    """Keep `streams` running while one replica after the other drains, ends and is started again.

    Each is out of the balancer before it is told to end, as a pod is after its preStop hook.
    """
    result, begun, started = LoadResult(), 0, time.monotonic()
    done = asyncio.Event()

    async def stream(port: int) -> None:
        nonlocal begun
        while not done.is_set():
            begun += 1
            with contextlib.suppress(OSError):
                await read_stream(port, f"{TEXT}:{chunks}:{pause}", result)

    async with Balancer([replica.port for replica in replicas]).running() as balancer:
        tasks = [asyncio.create_task(stream(balancer.port)) for _ in range(streams)]
        await asyncio.sleep(chunks * pause / 2)
        for replica in replicas:
            balancer.ports.remove(replica.port)
            await replica.terminate()
            await replica.start()
            balancer.ports.append(replica.port)
        done.set()
        await asyncio.gather(*tasks)
    return RestartResult(result.completed, begun - result.completed, time.monotonic() - started)
