"""A running llama-server: a process of our own on a free loopback port, with its log in a file.

Rule: it ends with the `with` block, whatever happens inside, and nothing but this one process is ever signalled.
Neighbours: `program` says which program, `random_models` and the demo's model say with what.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

SLOTS = 2
CONTEXT_PER_SLOT = 2048
START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """One running server; `url` has no path."""

    url: str
    log: Path

    def busy_slots(self) -> int:
        slots: list[dict[str, Any]] = httpx.get(f"{self.url}/slots", trust_env=False).raise_for_status().json()
        return sum(slot["is_processing"] for slot in slots)

    def wait_idle(self, seconds: float) -> float:
        """Wait until no slot works; give the seconds that it took, more than `seconds` if it never came."""
        started = time.monotonic()
        while self.busy_slots() and time.monotonic() < started + seconds:
            time.sleep(0.005)
        return time.monotonic() - started


@contextmanager
def running(program: Path, model: Path, folder: Path, *options: str) -> Iterator[LlamaServer]:
    """Run `program` with `model`; `folder` receives the log."""
    port = _free_port()
    server = LlamaServer(f"http://127.0.0.1:{port}", folder / f"{model.stem}.{port}.log")
    sizes = ["--parallel", str(SLOTS), "--ctx-size", str(SLOTS * CONTEXT_PER_SLOT), "--threads", "1"]
    command = [program, "--model", model, "--host", "127.0.0.1", "--port", str(port), *sizes, "--slots", *options]
    with server.log.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_healthy(server, process)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_healthy(server: LlamaServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"{server.url}/health", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise RuntimeError(f"llama-server did not become healthy:\n{server.log.read_text(errors='replace')[-2000:]}")
