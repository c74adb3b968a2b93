"""Starts the servers of these tests, each as a process of its own.

Rule: what is started here has ended at the end of the block.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fcshim.mcp import HttpTransport, Manager, McpServerConfig, StdioTransport
from fcshim.mcp.connection import ConnectionTimeouts
from tests.engine.process import free_port

SERVERS = Path(__file__).parent / "servers"
START_SECONDS = 120.0
TIMEOUTS = ConnectionTimeouts(start=60.0, connect=60.0, reconnect=60.0, ping=30.0)


def stdio_transport(name: str, *args: str) -> StdioTransport:
    """Return the transport of one of the servers, over stdio."""
    return StdioTransport(command=sys.executable, args=(str(SERVERS / f"{name}.py"), *args))


def server(name: str = "friendly", *args: str, called: str = "f", **settings) -> McpServerConfig:
    """Return the settings of one of the servers, over stdio."""
    return McpServerConfig(name=called, transport=stdio_transport(name, *args), **settings)


def manager(*servers: McpServerConfig, **settings) -> Manager:
    """Return a manager without random jitter."""
    return Manager(servers, **({"timeouts": TIMEOUTS, "random": lambda: 0.0} | settings))


@contextlib.contextmanager
def serve_over_http(way: str, port: int | None = None, name: str = "friendly") -> Iterator[HttpTransport]:
    """Run one of the servers over HTTP until the block ends."""
    port = port or free_port()
    path = "sse" if way == "sse" else "mcp"
    with subprocess.Popen([sys.executable, SERVERS / f"{name}.py", way, str(port)]) as process:
        try:
            wait_listening(process, port)
            yield HttpTransport(url=f"http://127.0.0.1:{port}/{path}", sse=way == "sse")
        finally:
            process.kill()


async def eventually(true: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until a condition is true. Raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what other processes do sets no event
            await asyncio.sleep(0.01)


def is_running(process: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_listening(process: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nothing listens on {port}")
