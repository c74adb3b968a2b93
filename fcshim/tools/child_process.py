"""A child process with pipes to its standard streams.

Rule: it leads its own session and process group, so that it can be ended with everything it started; its exit is
reported at once, even while one of its children holds the pipes open.
"""

import asyncio
import contextlib
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

_OUTPUT_GRACE = 0.2
"""Seconds to read the last output after the exit; a child of the process may hold the pipe open forever."""


class ChildProcess:
    """A running process; `exited` is set when it exits, and its output ends soon after."""

    def __init__(self, process: Process, transport: asyncio.SubprocessTransport, exited: asyncio.Event) -> None:
        self.process = process
        self.exited = exited
        self._transport = transport

    @property
    def group_id(self) -> int:
        """The id of its process group, which is its own process id."""
        return self.process.pid

    async def wait_exit(self, seconds: float) -> bool:
        """Wait up to `seconds` for the exit; return whether it happened."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        return self.exited.is_set()

    def close(self) -> None:
        """Close our ends of the pipes; children of the process may hold the other ends."""
        with contextlib.suppress(OSError):
            self._transport.close()


async def start_child(
    command: Sequence[str],
    *,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    stderr: int = PIPE,
) -> ChildProcess:
    """Start a process in a new session. Raises `OSError` if it cannot be started."""
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
    """Reports the exit at once; asyncio's own protocol waits until the last holder closes the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=2**16, loop=loop)
        self.exited = asyncio.Event()
        self._event_loop = loop
        self._child_transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._child_transport = cast(
            "asyncio.SubprocessTransport", transport
        )  # uvloop's has the interface, but not the base class

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()
        self._event_loop.call_later(_OUTPUT_GRACE, self._close_output)

    def _close_output(self) -> None:
        output = self._child_transport.get_pipe_transport(1) if self._child_transport is not None else None
        if output is not None:
            output.close()
