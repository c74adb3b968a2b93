"""Guards a store against outages: a file on a disk that hangs or is full, a server that is restarted.

Rule: no operation waits longer than `timeout`. After a failure, further ones fail at once for `pause` seconds, then
one at a time finds out whether the store is back. Reading and writing fail apart: a full disk can be read. An
outage is logged once, and its end; clients get no details.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from fcshim.errors import StoreError, release_frames
from fcshim.server.store import Store, StoredDocument

logger = logging.getLogger("fcshim.server")

TIMEOUT = 2.0
"""Seconds for one operation: many times what a loaded server needs, and still short before the end of a reply."""
_PAUSE = 1.0
"""Seconds between two attempts at a store that is unavailable."""
_FRESH = 1.0
"""Seconds for which an answer counts for `problem`."""

_PROBE = StoredDocument("probe", b"1")
"""The document that is written and read to check whether the store answers; no client's key has its name as a hash."""

_Answer = TypeVar("_Answer")


class OutageGuard:
    """Passes operations on to `store`, called `name` in messages, while it answers."""

    def __init__(self, store: Store, name: str, *, timeout: float = TIMEOUT, pause: float = _PAUSE) -> None:
        self._store = store
        self._name = name
        self._reading = _Circuit(timeout, pause)
        self._writing = _Circuit(timeout, pause)
        self._was_away = False

    async def keep(self, owner: str, document: StoredDocument) -> bool:
        """Store a document; return whether the limits admit it. Raises `StoreError`."""
        return await self._attempt(self._writing, lambda: self._store.keep(owner, document))

    async def find(self, owner: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the documents of these names, as far as they exist. Raises `StoreError`."""
        return await self._attempt(self._reading, lambda: self._store.find(owner, names))

    async def resolve(self, owner: str, aliases: Sequence[str]) -> dict[str, str]:
        """Return the names of the documents that have these aliases, as far as they exist. Raises `StoreError`."""
        return await self._attempt(self._reading, lambda: self._store.resolve(owner, aliases))

    async def forget(self, owner: str, name: str) -> bool:
        """Delete a document; return whether it existed. Raises `StoreError`."""
        return await self._attempt(self._writing, lambda: self._store.forget(owner, name))

    async def problem(self) -> str:
        """Write and read, unless that worked just now; return what is wrong, empty if nothing is."""
        since = asyncio.get_running_loop().time() - _FRESH
        try:
            if self._writing.problem or self._writing.answered_at < since:
                await self.keep(_PROBE.name, _PROBE)
            if self._reading.problem or self._reading.answered_at < since:
                await self.find(_PROBE.name, [_PROBE.name])
        except StoreError:
            return self._writing.problem or self._reading.problem
        return ""

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    async def _attempt(self, circuit: "_Circuit", operate: Callable[[], Awaitable[_Answer]]) -> _Answer:
        try:
            return await circuit.attempt(operate)
        finally:
            self._log_change(circuit.problem)

    def _log_change(self, problem: str) -> None:
        is_away = bool(self._reading.problem or self._writing.problem)
        if is_away and not self._was_away:
            logger.warning("%s is unavailable; requests that need it get 503: %s", self._name, problem)
        elif self._was_away and not is_away:
            logger.warning("%s is back", self._name)
        self._was_away = is_away


class _Circuit:
    """Operations of one kind; `problem` says why they fail, and is empty while they do not."""

    def __init__(self, timeout: float, pause: float) -> None:
        self.problem = ""
        self.answered_at = float("-inf")
        self._timeout = timeout
        self._pause = pause
        self._next_attempt = float("-inf")

    async def attempt(self, operate: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Run an operation. Raises `StoreError`."""
        clock = asyncio.get_running_loop().time
        if self.problem:  # one operation tries while the store is unavailable; the others fail
            if clock() < self._next_attempt:
                raise self._error()
            self._next_attempt = clock() + self._timeout + self._pause
        try:
            async with asyncio.timeout(self._timeout):
                answer = await operate()
        except (StoreError, TimeoutError) as error:
            self.problem = error.message if isinstance(error, StoreError) else f"no answer within {self._timeout:g} s"
            self._next_attempt = clock() + self._pause
            release_frames(error)
            raise self._error() from None
        self.answered_at, self.problem = clock(), ""
        return answer

    def _error(self) -> StoreError:
        return StoreError(
            "the store of earlier replies is unavailable; try again later",
            retry_after=math.ceil(self._pause),
        )
