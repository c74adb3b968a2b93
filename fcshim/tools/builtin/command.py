"""Runs a command to its end or its time limit.

Rule: the command leads its own process group, which is killed when the command exits, times out or is cancelled, and
when we die. Only the beginning of the output is kept, but all of it is read, so that the command never blocks on a full
pipe.
"""

import asyncio
import contextlib
import os
from asyncio.subprocess import STDOUT
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from fcshim.tools.child_process import ChildProcess, start_child
from fcshim.tools.process_guard import ProcessGuard, kill_group, mark_environment

_READ_SIZE = 65_536
_KILL_SECONDS = 2.0


class CommandResult(msgspec.Struct, frozen=True):
    """A command's exit code (None after a timeout) and the beginning of its output."""

    code: int | None
    output: bytes
    truncated: bool


async def run_command(
    command: Sequence[str],
    *,
    cwd: Path,
    seconds: float,
    max_output: int,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command, standard error merged into standard output. Raises `OSError` if it cannot be started."""
    async with ProcessGuard() as guard:
        mark = guard.new_mark()
        full_env = dict(os.environ if env is None else env) | mark_environment(mark)
        child = await start_child(command, cwd=cwd, env=full_env, stderr=STDOUT)
        guard.add_group(child.group_id)
        output = _OutputBuffer(max_output)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                    group.create_task(_write_stdin(child, stdin))
                    group.create_task(output.read(child))
                    await child.exited.wait()
            code = child.process.returncode
            return CommandResult(code, bytes(output.kept), truncated=output.size > len(output.kept))
        finally:
            await _kill(child, mark)
            guard.remove_group(child.group_id)


class _OutputBuffer:
    """Keeps the beginning of a command's output, and counts all of it."""

    def __init__(self, limit: int) -> None:
        self.kept = bytearray()
        self.size = 0
        self._limit = limit

    async def read(self, child: ChildProcess) -> None:
        assert child.process.stdout is not None
        while data := await child.process.stdout.read(_READ_SIZE):
            self.size += len(data)
            self.kept += data[: self._limit - len(self.kept)]


async def _write_stdin(child: ChildProcess, data: bytes) -> None:
    pipe = child.process.stdin
    assert pipe is not None
    with contextlib.suppress(OSError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()


async def _kill(child: ChildProcess, mark: str) -> None:
    """Kill what the command left in the background, including processes that left its group."""
    await kill_group(child.group_id, mark)
    await child.wait_exit(_KILL_SECONDS)
    child.close()
