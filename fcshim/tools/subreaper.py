"""The subreaper: starts one program, and ends with it all that it started, also what left its session (Linux).

Rule: standard library only, run as a script. Orphans of the program become its children instead of init's, whatever
session or environment they have (`PR_SET_CHILD_SUBREAPER`), so that it and the reaper find them. Its exit code is the
program's, 128 more than the number of the signal that ended it.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL for what the program left behind."""
_PR_SET_CHILD_SUBREAPER = 36
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CANNOT_START = 127


def wrap(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts a program below a subreaper, where the system has them."""
    if sys.platform != "linux":
        return command
    return (sys.executable, "-I", "-S", str(Path(__file__)), *command)


def main(command: list[str]) -> int:
    """Run the program to its end, then end its descendants; return its exit code."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    program = os.fork()
    if program == 0:
        try:
            os.execvp(command[0], command)  # noqa: S606 - this is its purpose
        except OSError:
            os._exit(_CANNOT_START)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the program is in the same group and gets them too
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)  # a pipe ends when the program closes it
    code = _wait_for(program)
    deadline = time.monotonic() + GRACE
    number = signal.SIGTERM
    while left := _children():
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, number)
        time.sleep(0.02)
        number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
    return code


def _wait_for(program: int) -> int:
    """Reap processes until the program has ended; return its exit code."""
    while True:
        process, status = os.wait()
        if process == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _children() -> list[int]:
    """Reap the children that have ended; return the others. An orphan of one of them becomes a child in turn."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    own = os.getpid()
    return [int(each) for each in Path(f"/proc/self/task/{own}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
