"""Limits on what one server makes this process do: messages in a time, and values in one message.

Rule: what a server sends costs the event loop time, which every other stream waits for. A message is refused by the
count of its values before it is parsed; of a flood of messages, what is too much is dropped or delayed.
"""

MAX_VALUES = 200_000
"""Marks of JSON's structure in one message; a value has one to five of them.

16 MB may hold millions of values, which take minutes to validate.
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


class ValueCounter:
    """Counts the values of one JSON text that comes in pieces, without parsing it: marks in strings do not count."""

    def __init__(self) -> None:
        self.count = 0
        self._in_string = False
        self._backslash = b""

    def feed(self, data: bytes) -> int:
        """Take a piece; return the count so far. A count beyond the limit may be too low."""
        if self.count > MAX_VALUES:
            return self.count
        if b"\\" in data or self._backslash:
            data = self._without_escapes(data)
        quotes = data.count(b'"')
        self.count += quotes
        if self.count <= MAX_VALUES:
            outside = b"".join(data.split(b'"')[self._in_string :: 2])
            self.count += sum(outside.count(mark) for mark in (b",", b":", b"[", b"{"))
        self._in_string ^= bool(quotes % 2)
        return self.count

    def _without_escapes(self, data: bytes) -> bytes:
        """Drop escaped quotes, and a backslash that escapes the next piece's first byte."""
        data = (self._backslash + data).replace(b"\\\\", b"")
        self._backslash = data[-1:] if data.endswith(b"\\") else b""
        return data.removesuffix(self._backslash).replace(b'\\"', b"")
