"""Runs every benchmark: `python -m benchmarks [--quick]`.

Rule: each benchmark runs in its own process, so that none affects another; the exit status is 1 if a bar was missed.
"""

import subprocess
import sys

BENCHMARKS = (
    ("import_time",),
    ("parser",),
    ("fast_paths",),
    ("dialects",),
    ("proxy",),
    ("observers",),
    ("apis",),
    ("servers",),
    ("reading",),
    ("request_path",),
    ("hostile_requests",),
    ("hostile_replies",),
    ("scale",),
    # These two need a llama-server, which they find in the same way as the tests.
    ("constrain", "--engine"),
    ("reliability",),
)
"""The benchmarks, with the options that they get in a full run."""


def main() -> int:
    """Run the benchmarks one after the other, with the options of the command line."""
    commands = [[sys.executable, "-m", f"benchmarks.{name}", *own, *sys.argv[1:]] for name, *own in BENCHMARKS]
    return max(abs(subprocess.run(command, check=False).returncode) for command in commands)


if __name__ == "__main__":
    sys.exit(main())
