"""Measures replicas under load: their throughput, and what is lost when they crash or are restarted."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.proxy.load import LoadResult, encode_request, read_stream, send_request
from benchmarks.proxy.upstream import TEXT
from benchmarks.scale.conversations import Tally, converse
from benchmarks.scale.replicas import Balancer, Replica

_CLIENTS = 8
"""Clients for each replica: enough that it always has work."""
_SHORT = f"{TEXT}:20:0"


async def throughput(ports: Sequence[int], seconds: float) -> float:
    """Return the replies per second of clients that send the next request at once, each on a new connection."""
    request = encode_request(_SHORT)
    result = LoadResult()
    until = time.monotonic() + seconds

    async def ask(port: int) -> None:
        while time.monotonic() < until:
            await send_request(port, request, result)

    started = time.monotonic()
    await asyncio.gather(*(ask(port) for port in ports for _ in range(_CLIENTS)))
    return result.completed / (time.monotonic() - started)


_CALM = 1.0
"""Seconds between two kills: longer than a reply takes, so that most replies are completed."""


@dataclass(frozen=True)
class KillResult:
    """The outcomes of conversations while replicas were killed."""

    tally: Tally
    kills: int
    seconds: float


async def converse_while_replicas_are_killed(
    replicas: Sequence[Replica], *, conversations: int, turns: int, pause: float
) -> KillResult:
    """Have all conversations at once while one replica after the other is killed and started again.

    `pause` is the time between the chunks of a reply, of which there are ten. The first replica is killed when as many
    turns have ended as there are conversations: where one starts slowly, the other would serve all of them from the
    first turn on.
    """
    tally, kills, started = Tally(), 0, time.monotonic()

    async def kill_in_turn() -> None:
        nonlocal kills
        ended = 0
        while ended < conversations:
            await asyncio.sleep(0.01)
            ended = tally.completed + tally.lost
        for replica in itertools.cycle(replicas):
            await replica.kill()
            kills += 1
            await replica.start()
            await asyncio.sleep(_CALM)

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


@dataclass
class StreamTally:
    """The outcomes of streams."""

    begun: int = 0
    result: LoadResult = field(default_factory=LoadResult)

    @property
    def complete(self) -> int:
        """The number of complete streams."""
        return self.result.completed

    @property
    def cut(self) -> int:
        """The number of streams that broke off."""
        return self.begun - self.complete


@contextlib.asynccontextmanager
async def _kept_streams(port: int, count: int, *, chunks: int, pause: float) -> AsyncIterator[StreamTally]:
    """Keep `count` streams running while the block runs, each followed by another, and wait for their ends."""
    tally, done = StreamTally(), asyncio.Event()

    async def stream() -> None:
        while not done.is_set():
            tally.begun += 1
            with contextlib.suppress(OSError):
                await read_stream(port, f"{TEXT}:{chunks}:{pause}", tally.result)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(stream())
        await asyncio.sleep(chunks * pause / 2)
        yield tally
        done.set()


async def stream_while_replicas_are_restarted(
    replicas: Sequence[Replica], *, streams: int, chunks: int, pause: float
) -> StreamTally:
    """Keep `streams` running while one replica after the other drains, ends and is started again.

    Each is out of the balancer before it is told to end, as a pod is after its preStop hook.
    """
    async with (
        Balancer([replica.port for replica in replicas]).running() as balancer,
        _kept_streams(balancer.port, streams, chunks=chunks, pause=pause) as tally,
    ):
        for replica in replicas:
            balancer.ports.remove(replica.port)
            await replica.terminate()
            await replica.start()
            balancer.ports.append(replica.port)
    return tally


async def stream_while_settings_change(
    replica: Replica, settings: Path, *, reloads: int, streams: int, chunks: int, pause: float
) -> StreamTally:
    """Keep `streams` running while the file `settings` changes and the processes load it again."""
    async with _kept_streams(replica.port, streams, chunks=chunks, pause=pause) as tally:
        for number in range(reloads):
            change_settings(settings, number)
            replica.reload()
            await asyncio.sleep(chunks * pause / reloads)
    return tally


def change_settings(settings: Path, number: int) -> None:
    """Write other settings than before."""
    settings.write_text(f"max_tools = {number + 1}\n", "utf-8")
