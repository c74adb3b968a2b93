"""Limits on waiting, and a timer that cancels its task if one wait takes too long.

Rule: every wait has a limit, and each kind of wait its own. One timer serves a whole reply instead of one per read: a
read only moves the expiry, which the timer checks when it fires.
"""

import asyncio

import msgspec

from fcshim.errors import UpstreamError


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds: to connect, until the first byte of the body, and between two reads of it.

    `page` is for the whole of a small reply, such as the list of models, which needs no inference.
    """

    connect: float = 10.0
    first_chunk: float = 600.0
    chunk: float = 300.0
    page: float = 30.0


class Deadline:
    """Cancels the task that created it when the time is up; whoever catches the cancellation calls `raise_if_expired`.

    Time counts from the start to the first `pause`, and after that only between `resume` and `pause`: time in which the
    client reads slowly is not the upstream's. Code with many waits in a row may move `expires_at` directly.
    """

    __slots__ = ("_expired", "_loop", "_task", "_timer", "expires_at", "limit")

    def __init__(self, limit: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.limit = limit
        self._task = task
        self._loop = asyncio.get_running_loop()
        self.expires_at: float | None = self._loop.time() + limit
        self._expired = False
        self._timer = self._loop.call_at(self.expires_at, self._on_timer)

    def pause(self, limit: float) -> None:
        """The wait has ended; the next one may take `limit` seconds."""
        self.expires_at = None
        if limit != self.limit:
            self.limit = limit
            self._timer.cancel()
            self._timer = self._loop.call_at(self._loop.time() + limit, self._on_timer)

    def resume(self) -> None:
        """A wait starts, unless one is running."""
        if self.expires_at is None:
            self.expires_at = self._loop.time() + self.limit

    def raise_if_expired(self) -> None:
        """Turn the cancellation into an `UpstreamError` if this deadline caused it."""
        if self._expired and self._task.uncancel() == 0:
            raise UpstreamError(f"the upstream sent nothing for {self.limit:g} s", status=504, kind="timeout")

    def close(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _on_timer(self) -> None:
        now = self._loop.time()
        if self.expires_at is not None and self.expires_at <= now:
            self._expired = True
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(self.expires_at or now + self.limit, self._on_timer)
