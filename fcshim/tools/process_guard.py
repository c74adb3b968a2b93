"""Starts and controls the reaper, the process that ends our child processes if this process dies first.

Rule: the reaper runs before the first child process, and learns of each process group as soon as it exists. Each child
carries a mark in its environment, so that a child that was never reported is found too.

Without this, hosts of MCP servers leave orphans behind: 232 processes with 5.2 GB in typescript-sdk #2002.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from fcshim.tools import reaper

_VARIABLE = "FCSHIM_MARK"
_CLOSE_SECONDS = 3.0
"""Seconds for the reaper to end the remaining processes and itself."""


class ProcessGuard:
    """Ends our child processes when this process dies.

    Close it after the last child, or use it as a context manager.
    """

    def __init__(self) -> None:
        self._token = secrets.token_hex(12)
        self._count = 0
        self._process: asyncio.subprocess.Process | None = None
        self._start_lock = asyncio.Lock()

    def new_mark(self) -> str:
        """Return a mark for one more process: `NAME=value;`, which `mark_environment` turns into a variable."""
        self._count += 1
        return f"{_VARIABLE}={self._token}.{self._count};"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def add_group(self, group: int) -> None:
        """Have the reaper end this process group when this process dies."""
        self._send(b"+%d\n" % group)

    def remove_group(self, group: int) -> None:
        """Stop tracking a group that has ended: the system may reuse its id."""
        self._send(b"-%d\n" % group)

    async def start(self) -> None:
        """Start the reaper unless it is running."""
        async with self._start_lock:
            if self._process is not None and self._process.returncode is None:
                return
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(Path(reaper.__file__)), f"{_VARIABLE}={self._token}."),
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={},  # our own environment may hold the mark of a parent's guard
                cwd="/",
                start_new_session=True,
            )

    async def aclose(self) -> None:
        """Make the reaper end the remaining processes and itself, and wait for it."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.write(reaper.SHUTDOWN + b"\n")
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await process.wait()

    def _send(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(line)


def mark_environment(mark: str) -> dict[str, str]:
    """Return the environment variable that carries a mark."""
    name, _, value = mark.partition("=")
    return {name: value}


async def end_group(group_id: int, mark: str, grace: float) -> None:
    """End a group and the marked processes outside it: SIGTERM, wait up to `grace` seconds, SIGKILL."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        remaining = await _survivors(group_id, mark)
        if not remaining:
            return
        reaper.send_signal([group_id], remaining, signal_number)
        await _wait_until_gone(group_id, mark, grace)


async def kill_group(group_id: int, mark: str) -> None:
    """Kill a group and the marked processes outside it."""
    reaper.send_signal([group_id], await _survivors(group_id, mark), signal.SIGKILL)


async def _wait_until_gone(group: int, mark: str, grace: float) -> None:
    clock = asyncio.get_running_loop().time
    deadline = clock() + grace
    while await _survivors(group, mark) and clock() < deadline:  # noqa: ASYNC110 - other processes set no event
        await asyncio.sleep(0.02)


async def _survivors(group: int, mark: str) -> list[int]:
    return await asyncio.to_thread(reaper.survivors, [group], mark)
