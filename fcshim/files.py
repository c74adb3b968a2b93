"""Reads files that people name, up to a limit.

Rule: reading never waits: a file may be a FIFO, or become one, and the proxy reads its settings again while it serves.
"""

import errno
from pathlib import Path


def read_limited(path: Path, limit: int) -> bytes:
    """Read a file, or the first `limit` bytes of a longer one. Raises `OSError`, for a FIFO or a socket, too."""
    if path.is_fifo() or path.is_socket():
        raise OSError(errno.EINVAL, "expected a regular file, not a FIFO or a socket", str(path))
    with path.open("rb") as file:
        return file.read(limit)
