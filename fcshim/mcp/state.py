"""The states of a connection, and the transitions between them.

Rule: the table is complete; any other transition is a bug.

    configured -> connecting -> initialising -> ready
                      ^              |            |
                      +--- waiting <-+------------+     after a failure or a loss, with a delay that grows
    closed: from every state, final
"""

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
