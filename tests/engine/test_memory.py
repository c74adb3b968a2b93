"""What many streams at once took is returned when they have ended, and the next load needs no more than the first."""

import asyncio
import time

import pytest

from benchmarks.proxy.__main__ import measure_live_streams
from benchmarks.proxy.load import read_streams
from benchmarks.proxy.processes import Process, proxy, scripted_upstream
from benchmarks.proxy.upstream import TEXT

pytestmark = pytest.mark.security

_STREAMS = 1_000


def test_most_of_the_memory_of_a_load_is_returned(tmp_path):
    """Without `_clear_type_cache` and `_renew_free_lists`, four fifths of it stay; with both, about a third."""
    with scripted_upstream() as upstream, proxy("fcshim", upstream, tmp_path) as process:
        asyncio.run(read_streams(process.port, 20, f"{TEXT}:5:0.01"))
        base = process.memory()
        for _ in range(2):
            peak, _ = asyncio.run(measure_live_streams(process, upstream, _STREAMS))
            kept = base + (peak - base) * 0.5

            assert base + _STREAMS * 57_344 > peak
            assert _memory_once_below(process, kept) < kept


def _memory_once_below(process: Process, limit: float) -> int:
    """Return the resident bytes once they are below the limit, or after half a minute."""
    for _ in range(60):
        if process.memory() < limit:
            break
        time.sleep(0.5)
    return process.memory()
