"""A store that may be away: a file on a disk that hangs, a server that is restarted.

Rule: no operation waits longer than `timeout`. After a failure, further ones fail at once for `pause` seconds, then one
at a time finds out whether the store is back. An outage is logged once, and its end; clients are told no details.
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
"""Seconds between two attempts at a store that is away."""
_FRESH = 1.0
"""Seconds for which an answer of the store counts for `check`."""

_Answer = TypeVar("_Answer")


class OutageGuard:
    """Passes operations on to `store`, called `name` in messages, while it answers."""

    def __init__(self, store: Store, name: str, *, timeout: float = TIMEOUT, pause: float = _PAUSE) -> None:
        self._store = store
        self._name = name
        self._timeout = timeout
        self._pause = pause
        self._problem = ""
        self._next_attempt = float("-inf")
        self._answered_at = float("-inf")

    async def keep(self, owner: str, document: StoredDocument) -> None:
        """Store a document. Raises `StoreError`."""
        await self._attempt(lambda: self._store.keep(owner, document))

    async def find(self, owner: str, names: Sequence[str]) -> dict[str, bytes]:
        """Return the documents of these names, as far as they exist. Raises `StoreError`."""
        return await self._attempt(lambda: self._store.find(owner, names))

    async def resolve(self, owner: str, aliases: Sequence[str]) -> dict[str, str]:
        """Return the names of the documents that have these aliases, as far as they exist. Raises `StoreError`."""
        return await self._attempt(lambda: self._store.resolve(owner, aliases))

    async def forget(self, owner: str, name: str) -> bool:
        """Delete a document; return whether it existed. Raises `StoreError`."""
        return await self._attempt(lambda: self._store.forget(owner, name))

    async def check(self) -> None:
        """Return if the store answers, or answered just now. Raises `StoreError`, which says what is wrong."""
        if not self._problem and asyncio.get_running_loop().time() - self._answered_at <= _FRESH:
            return
        try:
            await self._attempt(self._store.check)
        except StoreError as error:
            error.message = self._problem
            raise

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    async def _attempt(self, operate: Callable[[], Awaitable[_Answer]]) -> _Answer:
        clock = asyncio.get_running_loop().time
        if self._problem:
            self._begin_attempt(clock())
        try:
            async with asyncio.timeout(self._timeout):
                answer = await operate()
        except (StoreError, TimeoutError) as error:
            self._fail(error.message if isinstance(error, StoreError) else f"no answer within {self._timeout:g} s")
            self._next_attempt = clock() + self._pause
            release_frames(error)
            raise self._error() from None
        self._answered_at = clock()
        self._recover()
        return answer

    def _begin_attempt(self, now: float) -> None:
        """Let one operation try while the store is away; the others fail."""
        if now < self._next_attempt:
            raise self._error()
        self._next_attempt = now + self._timeout + self._pause

    def _error(self) -> StoreError:
        return StoreError(
            "what the proxy remembers of earlier replies cannot be read now; expected to work again soon",
            retry_after=math.ceil(self._pause),
        )

    def _fail(self, problem: str) -> None:
        if not self._problem:
            logger.warning("%s is away; requests that refer to earlier replies get 503: %s", self._name, problem)
        self._problem = problem

    def _recover(self) -> None:
        if self._problem:
            logger.warning("%s is back", self._name)
        self._problem = ""
