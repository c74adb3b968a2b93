"""Runs long work beside the event loop, so that streams of other requests go on.

Rule: one piece of work at a time. The interpreter's lock changes hands every few milliseconds, so that the loop waits
for one thread at most; the work must not hold the lock for long in one call of a C function.
"""

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

Result = TypeVar("Result")

MIN_SIZE = 16_384
"""Bytes of a request whose work leaves the loop: decoding and writing the prompt take some 3 ms for that many."""

_limiter: RunVar[CapacityLimiter] = RunVar("fcshim_off_loop")


async def run_off_loop(size: int, work: Callable[[], Result]) -> Result:
    """Return what `work` returns, or raises; it runs in a thread if the request has at least `MIN_SIZE` bytes."""
    if size < MIN_SIZE:
        return work()
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(1)
        _limiter.set(limiter)
    return await to_thread.run_sync(work, limiter=limiter)
