"""The states of a connection, and how one follows another.

Rule: the table is complete; a step that is not in it is a mistake of ours.
Neighbours: `connection` takes the steps.

    configured -> connecting -> initialising -> ready
                      ^              |            |
                      +--- waiting <-+------------+     after a failure, or a loss; with a delay that grows
    closed: from everywhere, and for ever
"""

from enum import Enum


class ConnectionState(Enum):
    """Where a connection stands."""

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
