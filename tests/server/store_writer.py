"""A process whose children write documents until they are killed: `python -m tests.server.store_writer`.

Each document is a whole number of times its own name, with an alias, and is replaced again and again by others, so that
a half-written one would be seen. It reads `start ADDRESS OWNER` and `wait PID` on stdin, and writes `PID NAME NUMBER`
for each document that is kept, and `PID ended`.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fcshim.config import Config
from fcshim.server.store import StoredDocument, redis, sqlite
from fcshim.server.store.open import open_store

IMPORTED_BEFORE = (redis, sqlite)
"""Modules that every writer would import by itself, which takes longer than it lives."""
LIMITS = {"memory_entries": 40, "memory_bytes": 4_000_000, "memory_client_bytes": 2_000_000}
NAMES = 30


class Writers:
    """The process, for a test."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, address: str, owner: str) -> int:
        """Start a writer; return its process id when it has kept a document."""
        self._say(f"start {address} {owner}")
        while (words := self._read())[1][:-4] != owner:
            pass
        return int(words[0])

    def kill(self, writer: int) -> str:
        """Kill a writer; return the name of the last document that it had kept, if it had kept one since."""
        os.kill(writer, signal.SIGKILL)
        self._say(f"wait {writer}")
        last = ""
        while (words := self._read()) != [str(writer), "ended"]:
            last = words[1] if words[0] == str(writer) else last
        return last

    def _say(self, line: str) -> None:
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> list[str]:
        return self._process.stdout.readline().split()


@contextlib.contextmanager
def running_writers() -> Iterator[Writers]:
    command = [sys.executable, "-m", "tests.server.store_writer"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], text=True, **pipes) as process:
        yield Writers(process)


def value_of(name: str, repeats: int) -> bytes:
    return repeats.to_bytes(4) + name.encode() * repeats


async def write(address: str, owner: str) -> None:
    store = open_store(Config(store=address, **LIMITS))
    for number in itertools.count(os.getpid() % NAMES):
        name = f"{owner}{number % NAMES:04d}"
        await store.keep(owner, StoredDocument(name, value_of(name, number * 977 % 40_000), (f"alias of {name}",)))
        os.write(1, f"{os.getpid()} {name} {number}\n".encode())


def main() -> None:
    for line in sys.stdin:
        match line.split():
            case ["start", address, owner]:
                if os.fork() == 0:
                    asyncio.run(write(address, owner))
            case ["wait", writer]:
                os.waitpid(int(writer), 0)
                os.write(1, f"{writer} ended\n".encode())


if __name__ == "__main__":
    main()
