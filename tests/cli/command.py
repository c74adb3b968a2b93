"""Runs `fcshim` as a user does: a process of its own, bytes in, bytes out."""

import subprocess
import sys
from dataclasses import dataclass

COMMAND = (sys.executable, "-m", "fcshim")


@dataclass(frozen=True)
class CliResult:
    """What a finished command left."""

    code: int
    out: str
    err: str


def fcshim(*arguments, stdin=b"", env=None):
    """Run the command to its end."""
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, env=env, check=False)
    return CliResult(done.returncode, done.stdout.decode(), done.stderr.decode())
