"""Remembers what was written for a content: a client sends the whole conversation again with each turn.

Rule: a key holds all that the result depends on, texts included, so that it does not matter whose content it was; a
result is immutable. The size of all texts is limited.
"""

import sys
from collections.abc import Hashable, Iterable
from typing import Any

import msgspec

MAX_BYTES = 16 * 1024 * 1024
"""The conversations of some 40 coding agents at 200 KB, each text as the client sent it and as the model gets it; a
fifth of the memory that the proxy may take in all."""


class ContentCache:
    """Results by their keys: those of the last `max_bytes`, at most.

    Two generations: a result that is used stays in the newer one, and the older one is dropped when that is full.
    It needs no lock: two threads at once may at worst count one result less, or drop a generation too early.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._limit = max_bytes // 2
        self._size = 0  # of the newer generation
        self._newer: dict[Hashable, tuple[Any, int]] = {}
        self._older: dict[Hashable, tuple[Any, int]] = {}

    def get(self, key: Hashable) -> Any:
        """Return the result with this key, or None."""
        found = self._newer.get(key)
        if found is None:
            found = self._older.get(key)
            if found is None:
                return None
            self._put(key, *found)
        return found[0]

    def put(self, key: Hashable, result: Any, texts: Iterable[str | bytes]) -> None:
        """Remember a result; `texts` are those in the key and the result, of which its size is counted."""
        self._put(key, result, _OVERHEAD + sum(map(sys.getsizeof, texts)))

    def _put(self, key: Hashable, result: Any, size: int) -> None:
        if size > self._limit:
            return
        if self._size + size > self._limit:
            self._older, self._newer, self._size = self._newer, {}, 0
        if key not in self._newer:
            self._size += size
        self._newer[key] = result, size


def json_key(value: object) -> bytes | None:
    """Return a JSON value as bytes, for a key; None if it cannot be written."""
    try:
        return msgspec.json.encode(value)
    except (RecursionError, TypeError, ValueError):
        return None


_OVERHEAD = 1_000
"""Bytes of an entry and its objects without their texts."""

WRITTEN = ContentCache()
"""What was written of messages and tools, for all requests."""
