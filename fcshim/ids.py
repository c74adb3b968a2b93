"""Ids for calls and replies.

Rule: an id is unique in a conversation that lasts days and crosses processes. An id that grants access to something
stored must not be guessable from other ids.
"""

import itertools
import secrets
from collections.abc import Callable


def id_source(prefix: str = "call_") -> Callable[[], str]:
    """Return a function that makes a new id at each call: the prefix, 80 random bits in hex, a counter in hex."""
    seed = secrets.token_hex(10)
    return map(f"{prefix}{seed}{{:04x}}".format, itertools.count()).__next__


def secret_source(prefix: str) -> Callable[[], str]:
    """Return a function that makes unguessable ids: the prefix, 128 random bits in hex."""
    return lambda: prefix + secrets.token_hex(16)
