"""Limits on how many messages in a time one server makes this process read.

Rule: what a server sends costs the event loop time, which every other stream waits for. Of a flood of messages, what is
too much is dropped or delayed; one with too many values is refused before it is parsed (`codecs/value_counter.py`).
"""


class RateLimit:
    """A token bucket: `burst` at once, then `per_second`."""

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = burst
        self._updated_at = 0.0

    def admits(self, now: float) -> bool:
        """Take one token, if there is one."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def delay(self, count: int, now: float) -> float:
        """Take tokens, also those that are not there yet; return the seconds until they are."""
        self._refill(now)
        self._tokens -= count
        return max(0.0, -self._tokens / self._per_second)

    def _refill(self, now: float) -> None:
        earned = (now - self._updated_at) * self._per_second
        self._tokens, self._updated_at = min(self._burst, self._tokens + earned), now
