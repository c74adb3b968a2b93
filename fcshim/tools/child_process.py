"""A process that we start, with pipes to it.

Rule: it leads a session and a process group of its own, so that it can be ended with all that it starts; its end is
known at once, also when a child of it holds the pipes open.
Neighbours: the built-in tools run commands, the MCP room runs servers.
"""

import asyncio
import contextlib
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

_OUTPUT_GRACE = 0.2
"""Seconds for the last output of a process that ended; a child of it may hold the pipe open for ever."""


class ChildProcess:
    """A running process; `exited` is set when it ended, and its output ends soon after."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport, exited: asyncio.Event) -> None:
        self.process = process
        self.exited = exited
        self._transport = transport

    @property
    def group_id(self) -> int:
        """The number of its process group, which is its own."""
        return self.process.pid

    async def wait_exit(self, seconds: float) -> bool:
        """Wait for its end; tell whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    def close(self) -> None:
        """Close the pipes, which others may hold open."""
        with contextlib.suppress(OSError):
            self._transport.close()


async def start_child(
    command: Sequence[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int = PIPE,
) -> ChildProcess:
    """Start a process. Raises `OSError` where that is not possible."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: _ExitAwareProtocol(loop),
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=stderr,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    return ChildProcess(Process(transport, protocol, loop), transport, protocol.exited)


class _ExitAwareProtocol(SubprocessStreamProtocol):
    """Tells of the process's end when it comes; asyncio's own waits for the last holder of the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=2**16, loop=loop)
        self.exited = asyncio.Event()
        self._event_loop = loop
        self._child_transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._child_transport = cast("asyncio.SubprocessTransport", transport)  # uvloop's is one in all but its class

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()
        self._event_loop.call_later(_OUTPUT_GRACE, self._close_output)

    def _close_output(self) -> None:
        output = self._child_transport.get_pipe_transport(1) if self._child_transport is not None else None
        if output is not None:
            output.close()
