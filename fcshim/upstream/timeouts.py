"""Timeouts of requests to the endpoint.

Rule: every wait has a limit, and each kind of wait its own.
"""

import msgspec


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts in seconds: to connect, until the first byte of the body, and between two reads of it.

    `page` is for the whole of a small reply, such as the list of models, which needs no inference.
    """

    connect: float = 10.0
    first_chunk: float = 600.0
    chunk: float = 300.0
    page: float = 30.0
