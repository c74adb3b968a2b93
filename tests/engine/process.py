"""A server in a child process, on a free loopback port, with its output in a log file.

Rule: the process ends with the `with` block in any case, and no other process is ever signalled.
"""

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

START_SECONDS = 120.0
STOP_SECONDS = 30.0


@contextmanager
def serving(command: Sequence[str | Path], url: str, log: Path) -> Iterator[None]:
    """Run `command` until the block ends; the block starts when `url`/health answers."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            _wait_healthy(process, url, log)
            yield
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            process.kill()


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        time.sleep(0.02)
    raise RuntimeError(f"{process.args} did not become healthy:\n{log.read_text(errors='replace')[-2000:]}")
