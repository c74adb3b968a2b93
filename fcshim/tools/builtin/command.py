"""Runs a command to its end or its time limit.

Rule: the command leads its own process group, which is killed when the command exits, times out or is cancelled, and
when this process dies. A limited part of the output is kept, but all of it is read, so that the command never blocks on
a full pipe.
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
from fcshim.tools.subreaper import wrap

_READ_SIZE = 65_536
_KILL_SECONDS = 2.0


class CommandResult(msgspec.Struct, frozen=True):
    """A command's exit code (None after a timeout), the beginning of its output, and its end if it is truncated."""

    code: int | None
    output: bytes
    truncated: bool
    end: bytes = b""


async def run_command(
    command: Sequence[str],
    *,
    cwd: Path,
    seconds: float,
    max_output: int,
    keep_end: bool = False,
    contain: bool = False,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> CommandResult:
    """Run a command, standard error merged into standard output. Raises `OSError` if it cannot be started.

    With `keep_end`, three quarters of a long output are from its end. With `contain`, what the command started and made
    independent of it ends with it too, where the system can do that.
    """
    async with ProcessGuard() as guard:
        mark = guard.new_mark()
        full_env = dict(os.environ if env is None else env) | mark_environment(mark)
        child = await start_child(wrap(tuple(command)) if contain else command, cwd=cwd, env=full_env, stderr=STDOUT)
        guard.add_group(child.group_id)
        output = _OutputBuffer(max_output, max_output * 3 // 4 if keep_end else 0)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                    group.create_task(_write_stdin(child, stdin))
                    group.create_task(output.read(child))
                    await child.exited.wait()
            code = child.process.returncode
            return output.result(code)
        finally:
            # What the command left in the background ends with it, also processes that left its group.
            await kill_group(child.group_id, mark)
            await child.wait_exit(_KILL_SECONDS)
            child.close()
            guard.remove_group(child.group_id)


class _OutputBuffer:
    """Keeps the beginning and the end of a command's output, and counts all of it."""

    def __init__(self, limit: int, end: int) -> None:
        self._start, self._end = bytearray(), bytearray()
        self._size = 0
        self._limit, self._end_limit = limit - end, end

    def result(self, code: int | None) -> CommandResult:
        """Return the result; output that fits is whole in `output`."""
        if self._size <= self._limit + self._end_limit:
            return CommandResult(code, bytes(self._start + self._end), truncated=False)
        return CommandResult(code, bytes(self._start), truncated=True, end=bytes(self._end))

    async def read(self, child: ChildProcess) -> None:
        assert child.process.stdout is not None
        while data := await child.process.stdout.read(_READ_SIZE):
            self._size += len(data)
            room = self._limit - len(self._start)
            self._start += data[:room]
            self._end += data[room:] if self._end_limit else b""
            del self._end[: max(0, len(self._end) - self._end_limit)]


async def _write_stdin(child: ChildProcess, data: bytes) -> None:
    pipe = child.process.stdin
    assert pipe is not None
    with contextlib.suppress(OSError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()
