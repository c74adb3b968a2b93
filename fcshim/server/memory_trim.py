"""Returns memory to the system after a load.

Rule: only while no request runs, and in a few passes after each load. A request leaves some 30 objects in cycles, which
hold memory until a full collection; glibc keeps what is freed, for the next load, which may never come. Python returns
an arena of 1 MB only when nothing is left in it, so what outlives its request must not lie scattered over all arenas.
"""

import asyncio
import contextvars
import ctypes
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from aiohttp.http import RawResponseMessage
from multidict import CIMultiDict, CIMultiDictProxy

_QUIET_CHECKS = 2
"""Checks in a row without a request before memory is returned: a pause between two requests does not end the load."""
_PASSES = 4
"""Times that memory is returned after a load, a second apart: each pass moves what the last one has left together."""

_FREE_LIST_SIZE = 255
"""Freed objects of a class that are kept for reuse: 255 in asyncio, 250 in uvloop and aiohttp."""
_SHORT_FREE_LIST_SIZE = 40
"""The same for headers (32 in multidict) and for coroutines of uvloop (8)."""
_FILLER_SIZES = (48, 80, 96, 112, 128, 144)
_FILLER_COUNT = 1_000
"""Blocks of each size of those objects that fill the gaps between what is scattered, so that new objects lie apart."""
_BYTES_OVERHEAD = sys.getsizeof(b"")


class MemoryTrimmer:
    """Decides when to return memory; `trim` does it."""

    def __init__(self, trim: Callable[[], None]) -> None:
        self._trim = trim
        self._trimmed_at = 0
        self._last_total = 0
        self._quiet_checks = 0

    def check(self, *, total: int, running: int) -> None:
        """Look at the requests so far, and at those that run; call this about once a second."""
        is_quiet = not running and total == self._last_total
        self._quiet_checks = self._quiet_checks + 1 if is_quiet else 0
        self._last_total = total
        if self._quiet_checks >= _QUIET_CHECKS and total != self._trimmed_at:
            self._trim()
        if self._quiet_checks == _QUIET_CHECKS + _PASSES - 1:
            self._trimmed_at = total


_FULL_COLLECTION_INTERVAL = 50
"""Collections of the middle generation between two full ones, some 350,000 new objects. A request of 1 MB makes 50,000;
with the default (10) a full collection visits them while it is read, which stops all streams for up to 15 ms."""


def freeze_start() -> None:
    """Exempt what exists after the start from later collections, and make full ones rarer.

    The start leaves 70,000 objects that stay: 40 ms each time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTION_INTERVAL)


def trim_memory() -> None:
    """Free unused objects and return their memory; the event loop must be running, and does the last step."""
    gc.collect()
    # The interpreter's table of looked-up attributes: after 1,000 streams, it holds 300 names in 45 arenas.
    clear_type_cache = getattr(sys, "_clear_internal_caches", None) or getattr(sys, "_clear_type_cache", None)
    if clear_type_cache is not None:
        clear_type_cache()
    _renew_free_lists(asyncio.get_running_loop())


def _renew_free_lists(loop: asyncio.AbstractEventLoop) -> None:
    """Replace the freed objects that libraries keep for reuse, which lie scattered, by ones that lie close together."""
    old_objects = _take_free_objects(loop)
    fillers = [bytes(size - _BYTES_OVERHEAD) for size in _FILLER_SIZES for _ in range(_FILLER_COUNT)]
    new_objects = _take_free_objects(loop)
    fillers.clear()
    loop.call_soon(
        _return_memory, new_objects, old_objects
    )  # behind the handles among them, which the loop still holds


class _FreeObjects(NamedTuple):
    """Objects that go where they are kept for reuse when they are freed."""

    coroutines: list[Coroutine[Any, Any, Any]]
    others: list[object]

    def free(self) -> None:
        """Free the objects."""
        for coroutine in self.coroutines:
            coroutine.close()
        self.coroutines.clear()
        self.others.clear()


def _take_free_objects(loop: asyncio.AbstractEventLoop) -> _FreeObjects:
    """Make as many objects as are kept of each class: first those that were kept, then new ones."""
    future, context = loop.create_future(), contextvars.Context()
    timers = [loop.call_later(1, _ignore, context=context) for _ in range(_FREE_LIST_SIZE)]
    for timer in timers:
        timer.cancel()
    handles = [loop.call_soon(_ignore, context=context) for _ in range(_FREE_LIST_SIZE)]
    waiters = [iter(future) for _ in range(_FREE_LIST_SIZE)]
    messages = [_empty_message() for _ in range(_FREE_LIST_SIZE)]
    headers = [CIMultiDictProxy(CIMultiDict(name="")) for _ in range(_SHORT_FREE_LIST_SIZE)]
    # Each connection to the upstream runs such coroutines; these are never started.
    unset: Any = None
    coroutines: list[Coroutine[Any, Any, Any]] = []
    coroutines += [loop.sock_connect(unset, unset) for _ in range(_SHORT_FREE_LIST_SIZE)]
    coroutines += [loop.getaddrinfo(unset, unset) for _ in range(_SHORT_FREE_LIST_SIZE)]
    return _FreeObjects(coroutines, [timers, handles, waiters, messages, headers])


def _empty_message() -> RawResponseMessage:
    unset: Any = None
    return RawResponseMessage(
        version=unset,
        code=200,
        reason="",
        headers=unset,
        raw_headers=(),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
    )


def _return_memory(close: _FreeObjects, scattered: _FreeObjects) -> None:
    """Free the objects, then let glibc return free pages; other C libraries do that by themselves or not at all."""
    close.free()  # fills the places for reuse, so that the others are really freed
    scattered.free()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return


def _ignore() -> None:
    """Do nothing."""
