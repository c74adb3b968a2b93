"""The process that outlives us: it ends what we started when we end, however that happens.

Rule: the standard library alone, run as a script of its own, so that it starts in some 15 ms and cannot fail with us.
Neighbours: `guard` starts it, and tells it on standard input which process groups are ours: `+123`, `-123`,
and `.` at last.

Nobody can catch `kill -9`. But when a process dies its pipes close, so a reader at the other end learns of it at once.
Process groups find the children of what we started. What left its group (a daemon), or was being started just then and
was never announced, is found by a mark in the environment, which children inherit: Linux shows `/proc/PID/environ`.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path

SHUTDOWN = b"."
"""Said by a parent that has ended all that it started itself."""
GRACE = 0.5
"""Seconds between asking and killing: enough to write a file out, and nobody waits for an answer any more."""
_PARENT_CHECK = 1.0
"""Seconds between looks at the parent, in case a fork of it holds our pipe open."""
_FINAL_SWEEPS = 3
"""Looks for what is left: a process that was between fork and exec has no mark yet."""
_SWEEP_PAUSE = 0.1


def main(mark: str, parent: int) -> None:
    """Read which groups live until the parent is gone, then end them."""
    groups, orderly = _read_groups(parent)
    if orderly and not survivors(groups, mark):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        send_signal(groups, survivors(groups, mark), number)
        _wait_until_gone(groups, mark)
    for _ in range(_FINAL_SWEEPS):
        time.sleep(_SWEEP_PAUSE)
        send_signal(groups, survivors(groups, mark), signal.SIGKILL)


def _read_groups(parent: int) -> tuple[set[int], bool]:
    """Give the groups that are left, and whether the parent took its leave."""
    groups: set[int] = set()
    orderly = False
    rest = b""
    while True:
        readable, _, _ = select.select([0], [], [], _PARENT_CHECK)
        if not readable:
            if os.getppid() != parent:
                return groups, orderly
            continue
        data = os.read(0, 65_536)
        if not data:
            return groups, orderly
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            orderly = line == SHUTDOWN
            if not orderly:
                (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))


def _wait_until_gone(groups: set[int], mark: str) -> None:
    deadline = time.monotonic() + GRACE
    while survivors(groups, mark) and time.monotonic() < deadline:
        time.sleep(0.02)


def send_signal(groups: Collection[int], processes: Iterable[int], signal_number: int) -> None:
    """Send a signal to groups and to single processes; what is gone, or not ours, is left alone."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal_number)
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, signal_number)


def survivors(groups: Collection[int], mark: str) -> list[int]:
    """Give the processes that are in one of the groups or carry the mark; the dead that nobody buried do not count.

    Where the system has no `/proc`, the groups that still exist.
    """
    folders = list(Path("/proc").glob("[0-9]*"))
    if not folders:
        return [group for group in groups if _exists(group)]
    return [int(folder.name) for folder in folders if _is_ours(folder, groups, mark.encode())]


def _is_ours(folder: Path, groups: Collection[int], mark: bytes) -> bool:
    try:
        # pid (name, which may hold anything) state ppid pgrp ...
        state, _, group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
        return state not in b"ZX" and (int(group) in groups or mark in (folder / "environ").read_bytes())
    except OSError:
        return False


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
