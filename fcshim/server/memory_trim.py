"""Returns memory to the system after a load.

Rule: only while no request runs, and once after each load. A request leaves some 30 objects in cycles, which hold
memory until a full collection; glibc keeps what is freed, for the next load, which may never come.
"""

import ctypes
import gc
from collections.abc import Callable

_QUIET_CHECKS = 2
"""Checks in a row without a request before memory is returned: a pause between two requests does not end the load."""


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
            self._trimmed_at = total
            self._trim()


def freeze_start() -> None:
    """Exempt what exists after the start from later collections: 70,000 objects that stay, 40 ms each time."""
    gc.collect()
    gc.freeze()


def trim_memory() -> None:
    """Collect cycles, and let glibc return free pages; other C libraries do that by themselves or not at all."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return
