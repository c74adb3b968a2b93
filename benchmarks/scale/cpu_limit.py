"""Limits processes to a part of one core: by a control group where one can be made, else by stopping them in turns.

Rule: each process has a limit of its own; groups are removed, and processes run again, at the end of the context.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_V1 = Path("/sys/fs/cgroup/cpu")
_V2 = Path("/sys/fs/cgroup")
_PERIOD = 0.02
"""Seconds in which a process gets its part; shorter than most replies."""


def method() -> str:
    """Return how processes are limited here."""
    return "control groups" if _group_parent() is not None else "stopping in turns"


@contextlib.contextmanager
def limited(pids: Sequence[int], cores: float) -> Iterator[None]:
    """Give each process at most `cores` of one core while the block runs."""
    with contextlib.ExitStack() as stack:
        for pid in pids:
            stack.enter_context(_group(pid, cores) if _group_parent() is not None else _stopped_in_turns(pid, cores))
        yield


def _group_parent() -> Path | None:
    """Return the folder in which groups with a quota can be made."""
    if os.access(_V1, os.W_OK) and (_V1 / "cgroup.procs").exists():
        return _V1
    with contextlib.suppress(OSError):
        if "cpu" in (_V2 / "cgroup.subtree_control").read_text("utf-8").split() and os.access(_V2, os.W_OK):
            return _V2
    return None


@contextlib.contextmanager
def _group(pid: int, cores: float) -> Iterator[None]:
    parent = _group_parent()
    assert parent is not None
    group = parent / f"fcshim-scale-{pid}"
    group.mkdir()
    try:
        period, quota = round(_PERIOD * 1e6), round(_PERIOD * cores * 1e6)
        if parent == _V1:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {period}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        with contextlib.suppress(OSError):  # the process may have ended
            (parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


@contextlib.contextmanager
def _stopped_in_turns(pid: int, cores: float) -> Iterator[None]:
    done = threading.Event()

    def alternate() -> None:
        while not done.is_set():
            os.kill(pid, signal.SIGCONT)
            time.sleep(_PERIOD * cores)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(_PERIOD * (1 - cores))

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        os.kill(pid, signal.SIGCONT)
