"""What the processes of a proxy use: open descriptors, tasks of their event loops, resident memory."""

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from benchmarks.endurance.counted_proxy import count_file
from benchmarks.proxy.processes import Process

_COUNT_SECONDS = 30.0
"""Seconds in which a worker must tell its number of tasks."""


@dataclass(frozen=True)
class Footprint:
    """The sums over a supervisor and its workers; `memory` in bytes."""

    descriptors: int
    tasks: int
    memory: int


async def measure_footprint(process: Process) -> Footprint:
    """Measure a proxy of `counted_proxy` with workers."""
    supervisor, *workers = process.pids()
    descriptors = sum(len(_links(pid)) for pid in (supervisor, *workers))
    tasks = sum([await _count_tasks(pid) for pid in workers])
    return Footprint(descriptors, tasks, process.memory())


async def _count_tasks(pid: int) -> int:
    file = count_file(pid)
    file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    async with asyncio.timeout(_COUNT_SECONDS):
        while not file.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
    count = int(file.read_text("utf-8"))
    file.unlink()
    return count


async def kill_worker(pid: int, port: int) -> set[int]:
    """Kill a worker of the proxy on `port`; return the ports of the clients that it served."""
    os.kill(pid, signal.SIGSTOP)  # so that it accepts no connection between the look and its end
    while not _is_stopped(pid):  # noqa: ASYNC110 - the kernel does it
        await asyncio.sleep(0.001)
    clients = _client_ports(pid, port)
    os.kill(pid, signal.SIGKILL)
    return clients


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"


def _client_ports(pid: int, port: int) -> set[int]:
    sockets = _links(pid)
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("utf-8").splitlines()[1:]]
    return {
        int(row[2].partition(":")[2], 16)
        for row in rows
        if int(row[1].partition(":")[2], 16) == port and f"socket:[{row[9]}]" in sockets
    }


def _links(pid: int) -> list[str]:
    """Return what the open descriptors of a process are."""
    return [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
