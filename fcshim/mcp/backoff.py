"""The delays between attempts to connect.

Rule: they double, with jitter, so that servers that failed together do not return together; randomness is passed in.
"""

from collections.abc import Callable

FIRST_DELAY = 0.1
"""Seconds before the second attempt."""
MAX_DELAY_REMOTE = 1.5
"""Seconds; short, because a refused connection costs nothing and a server's return must show within two seconds."""
MAX_DELAY_PROCESS = 30.0
"""Seconds; long, so that a program that dies at once is rarely started. A call that needs it ends the delay."""


class Backoff:
    """The delays of one server."""

    def __init__(self, max_delay: float, random: Callable[[], float]) -> None:
        self._max_delay = max_delay
        self._random = random
        self._failures = 0

    def next_delay(self) -> float:
        """Return the seconds to wait: between half and the whole of a delay that doubles."""
        delay = min(self._max_delay, FIRST_DELAY * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return delay * (0.5 + self._random() / 2)

    def reset(self) -> None:
        """Begin with the first delay again, after a stable connection."""
        self._failures = 0
