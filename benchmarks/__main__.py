"""Run every benchmark: `python -m benchmarks [--quick]`.

Rule: each in a process of its own, so that none warms or burdens another; the status says whether a bar was missed.
Neighbours: each can be run by itself, with more options.
"""

import subprocess
import sys

BENCHMARKS = (
    ("import_time",),
    ("parser",),
    ("dialects",),
    ("proxy",),
    ("apis",),
    ("servers",),
    # These two want a llama-server, and find one as the tests do.
    ("constrain", "--engine"),
    ("reliability",),
)
"""Each with the options that it always gets here."""


def main() -> int:
    """Run them in turn with the options given."""
    commands = [[sys.executable, "-m", f"benchmarks.{name}", *own, *sys.argv[1:]] for name, *own in BENCHMARKS]
    return max(abs(subprocess.run(command, check=False).returncode) for command in commands)


if __name__ == "__main__":
    sys.exit(main())
