"""Checks for `/ready` whether requests would be served now.

Rule: ready means that the upstream answered lately, and that the answer is not a failure of the server: one that asks
for a key is up, one that loads its model (503) is not. An answer is kept for a moment: many probes cause one request.
An unavailable store is reported but does not change the status: most requests do not need it.
"""

import asyncio

import msgspec

from fcshim.config import Config, parse_store_address
from fcshim.errors import UpstreamError
from fcshim.server.store import Store
from fcshim.server.store.outage import OutageGuard
from fcshim.upstream import Upstream

_LIFETIME = 5.0
"""Seconds for which an answer counts: half the interval at which orchestrators ask by default."""
UNAVAILABLE = "unavailable"
"""The status where no request would be answered."""


class StoreReadiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the store can be read and written now."""

    kind: str
    status: str
    reason: str = ""


class UpstreamReadiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether the only upstream answers; `store` is None for one in memory."""

    status: str
    reason: str = ""
    store: StoreReadiness | None = None


async def check_store(config: Config, store: Store) -> StoreReadiness | None:
    """Return whether the store answers; None for memory, which always does."""
    if not isinstance(store, OutageGuard):
        return None
    problem = await store.problem()
    return StoreReadiness(parse_store_address(config.store).kind, UNAVAILABLE if problem else "ok", problem)


class Readiness:
    """Asks one upstream for its models, at most once in `lifetime` seconds."""

    def __init__(self, upstream: Upstream, *, lifetime: float = _LIFETIME) -> None:
        self._upstream = upstream
        self._lifetime = lifetime
        self._lock = asyncio.Lock()
        self._checked_at = float("-inf")
        self._problem = ""

    async def check(self, store: StoreReadiness | None) -> UpstreamReadiness:
        """Return whether the upstream is ready, and if not, the reason."""
        problem = await self.problem()
        return UpstreamReadiness(UNAVAILABLE if problem else "ok", problem, store)

    async def problem(self) -> str:
        """Return why requests would not be answered; empty if they would."""
        clock = asyncio.get_running_loop().time
        async with self._lock:
            if clock() - self._checked_at >= self._lifetime:
                self._problem = await self._ask()
                self._checked_at = clock()
        return self._problem

    async def _ask(self) -> str:
        try:
            status, _ = await self._upstream.fetch("GET", self._upstream.kind.codec.models_path)
        except UpstreamError as error:
            return error.message
        return f"the upstream answered with status {status}" if status >= 500 else ""
