"""`fcshim` whose processes tell how many tasks run in them: SIGUSR2 makes one write that to a file."""

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

from fcshim.cli import main


def count_file(pid: int) -> Path:
    """Return the file of a process."""
    return Path(tempfile.gettempdir()) / f"fcshim-tasks-{pid}"


def _write_count(*_: object) -> None:
    """Write the number of tasks of the running event loop, which a worker has, and its supervisor has not."""
    part = count_file(os.getpid()).with_suffix(".part")
    part.write_text(str(len(asyncio.all_tasks())), "utf-8")
    part.replace(count_file(os.getpid()))


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _write_count)
    sys.exit(main())
