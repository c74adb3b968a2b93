"""How long an endpoint is waited for.

Rule: a wait has a limit, and each kind of wait its own.
Neighbours: `patience` counts, `reply` and `endpoint` wait.
"""

import msgspec


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait, in seconds: for a connection, for the first byte of the body, between two reads of it.

    `page` is for all of a small answer, such as the list of models: no model is waited for there.
    """

    connect: float = 10.0
    first_chunk: float = 600.0
    chunk: float = 300.0
    page: float = 30.0
