"""A running llama-server, and the state of its slots.

Rule: two slots and one thread on every machine; the tests need no more.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.engine.process import free_port, serving

SLOTS = 2
CONTEXT_PER_SLOT = 2048


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """One running server; `url` has no path."""

    url: str

    def busy_slots(self) -> int:
        """Return how many slots are processing a request."""
        slots: list[dict[str, Any]] = httpx.get(f"{self.url}/slots", trust_env=False).raise_for_status().json()
        return sum(slot["is_processing"] for slot in slots)

    def latest_tokens(self) -> tuple[int, int]:
        """Return the tokens in the context of the slot that worked last, and the size of its context."""
        slots: list[dict[str, Any]] = httpx.get(f"{self.url}/slots", trust_env=False).raise_for_status().json()
        latest = max(slots, key=lambda slot: slot.get("id_task", -1))
        return latest["n_prompt_tokens"], latest["n_ctx"]

    def wait_until(self, *, busy: int, seconds: float) -> None:
        """Wait until so many slots are busy. Raises `TimeoutError`."""
        started = time.monotonic()
        while self.busy_slots() != busy:
            if time.monotonic() > started + seconds:
                raise TimeoutError(f"after {seconds} s not {busy} but {self.busy_slots()} slots are busy")
            time.sleep(0.002)


@contextmanager
def running(
    program: Path, model: Path, folder: Path, *options: str, context: int = CONTEXT_PER_SLOT
) -> Iterator[LlamaServer]:
    """Run `program` with `model` and `context` tokens for each slot; the log is written to `folder`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    sizes = ["--parallel", str(SLOTS), "--ctx-size", str(SLOTS * context), "--threads", "1"]
    command = [program, "--model", model, "--host", "127.0.0.1", "--port", str(port), *sizes, "--slots", *options]
    with serving(command, url, folder / f"{model.stem}.{port}.log"):
        yield LlamaServer(url)
