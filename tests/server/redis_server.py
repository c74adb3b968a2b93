"""Runs Debian's redis-server, or valkey-server, on a free port, with its files in a folder of the test.

Rule: where CI is true a missing server fails the test; elsewhere the test is skipped.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from fcshim.config import parse_store_address
from fcshim.server.store.redis import connect


class RedisServer:
    """One server process, which a test may kill, stop for a while and start again on the same port."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen | None = None

    def start(self, *options: str) -> None:
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        self._process = subprocess.Popen([*command, "--save", "", *options], stdout=subprocess.DEVNULL)
        with self._admin() as client:
            for _ in range(6_000):
                with contextlib.suppress(redis.ConnectionError):
                    client.ping()
                    return
                time.sleep(0.01)
        raise AssertionError(f"{self._program} does not answer")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let the server accept connections and answer nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def flush(self) -> None:
        with self._admin() as client:
            client.flushall()

    def delete(self, *keys: str) -> None:
        with self._admin() as client:
            client.delete(*keys)

    def close_connections(self) -> None:
        with self._admin() as client:
            client.client_kill_filter(_type="normal", skipme=True)

    def configure(self, name: str, value: str) -> None:
        with self._admin() as client:
            client.config_set(name, value)

    def keys(self) -> dict[str, int]:
        """Return all keys with the milliseconds that they still live."""
        with self._admin() as client:
            return {key.decode("utf-8", "replace"): client.pttl(key) for key in client.scan_iter()}

    def numbers(self, key: str) -> dict[str, int]:
        """Return a hash whose values are numbers."""
        with self._admin() as client:
            return {name.decode(): int(value) for name, value in client.hgetall(key).items()}

    def client(self):
        """Return a client as the proxy makes it."""
        return connect(parse_store_address(self.url), "")

    def _admin(self) -> redis.Redis:
        return redis.Redis(port=self.port)


@contextlib.contextmanager
def running_redis(folder: Path) -> Iterator[RedisServer]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        message = "there is no redis-server: apt-get install redis-server"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    server = RedisServer(program, folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
