"""Tracks whether an upstream answers, by the outcomes of its requests, and limits its concurrent requests.

Rule: no request is sent only to learn an upstream's health. After some failures in a row no request is sent for a
while; then one request probes it, and its outcome decides. A refusal of one request (4xx, 500) says nothing about
health.
"""

import contextlib
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from typing import Literal

import msgspec

from fcshim.codecs.upstreams import UpstreamKind
from fcshim.config import Config, ScopedConfig, Secret
from fcshim.errors import UpstreamError
from fcshim.upstream.egress import Egress, egress_for
from fcshim.upstream.endpoint import Upstream, kind_of, timeouts_of, upstream_for
from fcshim.upstream.reply import Headers, Timeouts, UpstreamReply

FAILURE_STATUSES = frozenset({502, 503, 504, 529})
"""Statuses of a server that is loading, overloaded or unreachable, whatever the request."""

HealthState = Literal["ok", "failing", "open", "probing"]


class HealthReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The health of one upstream.

    `failing`: the last request failed; `open`: the last ones failed, and no request is sent for `retry_in` seconds.
    """

    state: HealthState
    running: int = 0
    reason: str = ""
    retry_in: float = 0.0


class Health:
    """The health and load of one upstream.

    `failures` in a row open it for `pause` seconds. `max_concurrent` requests may run at once, 0 for any number.
    `clock` gives seconds.
    """

    def __init__(
        self, *, failures: int, pause: float, max_concurrent: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._pause = pause
        self._max_concurrent = max_concurrent
        self._clock = clock
        self._failed = 0  # requests in a row
        self._reason = ""
        self._opened_at = 0.0
        self._probing = False
        self._running = 0

    @property
    def refusal(self) -> str:
        """Why no request may be sent now; empty if one may."""
        if self._max_concurrent and self._running >= self._max_concurrent:
            return f"it runs {self._running} requests, as many as it may"
        if self._failed >= self._limit and (self._probing or self.retry_in > 0):
            return f"it failed {self._failed} times in a row: {self._reason}"
        return ""

    @property
    def retry_in(self) -> float:
        """Seconds until an upstream that failed is probed."""
        return max(self._opened_at + self._pause - self._clock(), 0.0) if self._failed >= self._limit else 0.0

    @contextlib.contextmanager
    def admit(self) -> Iterator[None]:
        """Count one request while the block runs. The first one after the pause is the probe."""
        is_probe = self._failed >= self._limit
        self._probing = self._probing or is_probe
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if is_probe:
                self._probing = False

    def record_answer(self) -> None:
        """Record that a reply has begun.

        It may still break off: after an open period, the next failure opens it again.
        """
        self._failed = min(self._failed, self._limit - 1)

    def record_success(self) -> None:
        """Record that a reply did not break off."""
        self._failed = 0

    def record_failure(self, reason: str) -> None:
        """Record that the upstream did not answer, or broke off."""
        self._failed += 1
        self._reason = reason
        self._opened_at = self._clock()

    def report(self) -> HealthReport:
        """Return the current health."""
        if not self._failed:
            return HealthReport("ok", self._running)
        if self._failed < self._limit:
            return HealthReport("failing", self._running, self._reason)
        return HealthReport(
            "probing" if self._probing else "open", self._running, self._reason, round(self.retry_in, 1)
        )


class MeasuredUpstream(Upstream):
    """An upstream whose requests are recorded in its `health`."""

    def __init__(
        self,
        url: str,
        health: Health,
        *,
        key: Secret | None = None,
        timeouts: Timeouts,
        kind: UpstreamKind,
        egress: Egress,
    ) -> None:
        super().__init__(url, key=key, timeouts=timeouts, kind=kind, egress=egress)
        self.health = health

    @contextlib.asynccontextmanager
    async def send(
        self, method: str, path: str, *, headers: Headers = (), content: bytes | AsyncIterable[bytes] = b""
    ) -> AsyncIterator[UpstreamReply]:
        """Send a request as `Upstream.send` does, and record how it went."""
        answered, problem = False, ""
        sending = super().send(method, path, headers=headers, content=content)
        del content  # a reply may take minutes
        try:
            async with sending as reply:
                if reply.status in FAILURE_STATUSES:
                    problem = f"it answered with status {reply.status}"
                else:
                    answered = True
                    self.health.record_answer()
                yield reply
        except UpstreamError as error:
            if error.lost or error.kind == "timeout":
                problem = error.message
            raise
        finally:
            if problem:
                self.health.record_failure(problem)
            elif answered:
                self.health.record_success()


def measured_upstream_for(config: Config) -> Upstream:
    """Make the upstream of a configuration; a measured one for a section of several. Raises `ConfigError`."""
    if not isinstance(config, ScopedConfig):
        return upstream_for(config)
    section = config.upstreams[config.scope]
    health = Health(failures=section.failures, pause=section.pause, max_concurrent=section.max_concurrent)
    egress = egress_for(section)
    egress.ssl_context()  # fails now if the file of certificates is missing
    return MeasuredUpstream(
        config.upstream,
        health,
        key=config.upstream_key,
        timeouts=timeouts_of(config),
        kind=kind_of(config),
        egress=egress,
    )


def endpoint_key(config: Config) -> object:
    """Return a key that is equal for two configurations with the same upstream, so that they share its capabilities."""
    section = config.upstreams[config.scope] if isinstance(config, ScopedConfig) else None
    return config.upstream, config.upstream_key, kind_of(config), timeouts_of(config), config.constrain, section
