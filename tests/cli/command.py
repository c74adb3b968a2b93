"""Runs `fcshim` in a process of its own, as a user does."""

import subprocess
import sys
from dataclasses import dataclass

COMMAND = (sys.executable, "-m", "fcshim")


@dataclass(frozen=True)
class CliResult:
    """The exit code, stdout and stderr of a finished command."""

    code: int
    out: str
    err: str


def fcshim(*arguments, stdin=b"", env=None):
    """Run the command and wait for its end."""
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, env=env, check=False)
    return CliResult(done.returncode, done.stdout.decode(), done.stderr.decode())
