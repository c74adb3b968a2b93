"""The states of the connection to one server, and the delays between its attempts to connect.

The table of transitions is complete; any other transition is a bug.

configured -> connecting -> initialising -> ready
                  ^              |            |
                  +--- waiting <-+------------+     after a failure or a loss, with a delay that grows
closed: from every state, final
"""

import asyncio
from collections.abc import Callable
from enum import Enum


class ConnectionState(Enum):
    """The state of a connection."""

    CONFIGURED = "configured"
    CONNECTING = "connecting"
    INITIALISING = "initialising"
    READY = "ready"
    WAITING = "waiting"
    CLOSED = "closed"


TRANSITIONS = {
    ConnectionState.CONFIGURED: {ConnectionState.CONNECTING, ConnectionState.CLOSED},
    ConnectionState.CONNECTING: {ConnectionState.INITIALISING, ConnectionState.WAITING, ConnectionState.CLOSED},
    ConnectionState.INITIALISING: {ConnectionState.READY, ConnectionState.WAITING, ConnectionState.CLOSED},
    ConnectionState.READY: {ConnectionState.WAITING, ConnectionState.CLOSED},
    ConnectionState.WAITING: {ConnectionState.CONNECTING, ConnectionState.CLOSED},
    ConnectionState.CLOSED: set(),
}


class StateTracker:
    """The state of one connection, and who waits for a change of it."""

    def __init__(self) -> None:
        self.current = ConnectionState.CONFIGURED
        self._changed = asyncio.Event()

    def move_to(self, state: ConnectionState) -> None:
        """Enter a state, which the table must allow."""
        if state not in TRANSITIONS[self.current]:
            raise AssertionError(f"there is no transition from {self.current} to {state}")
        self.current = state
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked again at each change of the state."""
        while not condition():
            await self._changed.wait()


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
