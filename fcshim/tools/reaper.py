"""The reaper: a process that ends the child processes of its parent after the parent's death, whatever its cause.

Rule: standard library only, run as a script, so that it starts in some 15 ms and does not fail with the parent. It
reads lines from standard input: `+123` adds a process group, `-123` removes one, `.` announces an orderly end.

SIGKILL cannot be caught, but when a process dies its pipes close, so the reader at the other end learns of the death at
once. Process groups find the descendants of a child process. A process that left its group (a daemon), or whose start
was not reported in time, is found by a mark in its environment, which children inherit: Linux shows it in
`/proc/PID/environ`. A process that dropped its environment too is found as long as its parent is one of these.
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
"""The line of a parent that has ended all its children itself."""
GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL: enough to write a file, and no caller waits for a result any more."""
_PARENT_CHECK = 1.0
"""Seconds between checks of the parent's pid: a fork of the parent may hold the pipe open after its death."""
_FINAL_SWEEPS = 3
"""Searches for remaining processes: a process between fork and exec has no mark yet."""
_SWEEP_PAUSE = 0.1


def main(mark: str, parent: int) -> None:
    """Track the process groups until the parent has ended, then end them."""
    # The reaper of a nested fcshim is found as a descendant, and must still end that one's processes.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups, orderly = _read_groups(parent)
    if orderly and not survivors(groups, mark):
        return
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        send_signal(groups, survivors(groups, mark), signal_number)
        _wait_until_gone(groups, mark)
    for _ in range(_FINAL_SWEEPS):
        time.sleep(_SWEEP_PAUSE)
        send_signal(groups, survivors(groups, mark), signal.SIGKILL)


def _read_groups(parent: int) -> tuple[set[int], bool]:
    """Read lines until the parent has ended; return the remaining groups, and whether it announced its end."""
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
    """Send a signal to groups and to single processes; skip those that have ended or belong to another user."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal_number)
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, signal_number)


def survivors(groups: Collection[int], mark: str) -> list[int]:
    """Return the processes in one of the groups or with the mark, and all that these started, except zombies.

    Where the system has no `/proc`, return the groups that still exist.
    """
    folders = list(Path("/proc").glob("[0-9]*"))
    if not folders:
        return [group for group in groups if _exists(group)]
    children: dict[int, list[int]] = {}
    pending = []
    for folder in folders:
        with contextlib.suppress(OSError):
            # The line is `pid (name) state ppid pgrp ...`; the name may hold anything, parentheses too.
            state, parent, group = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:3]
            if state in b"ZX":
                continue
            process = int(folder.name)
            children.setdefault(int(parent), []).append(process)
            if int(group) in groups or mark.encode() in (folder / "environ").read_bytes():
                pending.append(process)
    found: set[int] = set()
    while pending:
        process = pending.pop()
        if process not in found:
            found.add(process)
            pending += children.get(process, ())
    return sorted(found)


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
