"""The states of the connection to one server. The table of transitions is complete; any other transition is a bug.

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
