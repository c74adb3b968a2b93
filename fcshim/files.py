"""Reads the files that settings name.

Rule: reading never waits: a file may have become a FIFO, and the proxy reads its settings again while it serves.
"""

import errno
from pathlib import Path


def read_limited(path: Path, limit: int) -> bytes:
    """Read a file, or the first `limit` bytes of a longer one. Raises `OSError`, for a FIFO or a socket, too."""
    if path.is_fifo() or path.is_socket():
        raise OSError(errno.EINVAL, "expected a regular file, not a FIFO or a socket", str(path))
    with path.open("rb") as file:
        return file.read(limit)
