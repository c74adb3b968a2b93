"""How long to wait before the next try.

Rule: doubling, with jitter, so that servers that fell together do not rise together; randomness is passed in.
Neighbours: `connection` waits.
"""

from collections.abc import Callable

FIRST_DELAY = 0.1
"""Seconds before the second try."""
MAX_DELAY_REMOTE = 1.5
"""A refused connection costs nothing, and who is back must be found within two seconds."""
MAX_DELAY_PROCESS = 30.0
"""A program that dies at once is started rarely; a call that needs it starts it sooner."""


class Backoff:
    """The delays of one server."""

    def __init__(self, max_delay: float, random: Callable[[], float]) -> None:
        self._max_delay = max_delay
        self._random = random
        self._failures = 0

    def next_delay(self) -> float:
        """Give the seconds to wait: between half and the whole of a delay that doubles."""
        delay = min(self._max_delay, FIRST_DELAY * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return delay * (0.5 + self._random() / 2)

    def reset(self) -> None:
        """Begin anew: the server has worked."""
        self._failures = 0
