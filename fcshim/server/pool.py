"""Chooses which of several upstreams serves a request, and which one is tried next if it cannot.

Rule: the model decides. A row of `models` names its upstreams in order; else a prefix `upstream/`; else the lists of
models. The next one is tried only where the first cannot be reached or is at its limit, and only while the client has
no byte and no tool has run.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.codecs.routes import RouteMatch
from fcshim.config import Config, ScopedConfig
from fcshim.errors import UpstreamError, release_frames
from fcshim.server.client_connection import ClientConnection
from fcshim.server.model_directory import ModelDirectory
from fcshim.server.model_name import read_model_name
from fcshim.server.readiness import UNAVAILABLE, StoreReadiness
from fcshim.upstream.capabilities import Capabilities
from fcshim.upstream.health import FAILURE_STATUSES, Health, HealthReport, MeasuredUpstream
from fcshim.upstream.model_report import ModelReport, model_reports

logger = logging.getLogger("fcshim.server")

FALLBACK_STATUSES = FAILURE_STATUSES | {429}
"""Statuses of an upstream that is unavailable or at its limit."""
_BUSY_RETRY = 1
"""Seconds after which a client may try again where every upstream is at its limit."""


@dataclass(frozen=True, slots=True)
class PoolMember:
    """One upstream: its settings, its capabilities, and the function that serves a request."""

    name: str
    config: ScopedConfig
    capabilities: Capabilities
    upstream: MeasuredUpstream
    serve: Callable[[ClientConnection, RouteMatch], Awaitable[None]]

    @property
    def health(self) -> Health:
        """The health and load of the upstream."""
        return self.upstream.health


class PoolReadiness(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether any upstream may get requests, the health of each, and the store if there is one."""

    status: str
    upstreams: dict[str, HealthReport]
    store: StoreReadiness | None = None


class UpstreamPool:
    """Serves each request with one of `members`, which stand in the order of the settings."""

    def __init__(self, config: Config, members: Sequence[PoolMember]) -> None:
        self._config = config
        self.members = {member.name: member for member in members}
        self.directory = ModelDirectory(config, {member.name: member.upstream for member in members})

    async def serve(self, connection: ClientConnection, route: RouteMatch) -> None:
        """Serve one request. Raises `FcshimError`."""
        model = route.path_params.get("model", "")
        body = await connection.body(self._config.max_body)
        model = model or read_model_name(body, connection.header(b"content-type"))
        await self._serve_in_order(connection, route, await self._candidates(model, route))

    def readiness(self, store: StoreReadiness | None = None) -> PoolReadiness:
        """Return whether any upstream may get requests, and the health of each."""
        reports = {name: member.health.report() for name, member in self.members.items()}
        ready = any(report.state != "open" for report in reports.values())
        return PoolReadiness("ready" if ready else UNAVAILABLE, reports, store)

    async def reports(self) -> list[ModelReport]:
        """Return a report for every model of every upstream, and one for an upstream that cannot be asked."""
        try:
            await self.directory.list_models()
        except UpstreamError as error:
            logger.info("%s", error.message)
        reports: list[ModelReport] = []
        for member in self.members.values():
            reports += await self._reports_of(member)
        return reports

    async def _reports_of(self, member: PoolMember) -> list[ModelReport]:
        health = _describe(member.health.report())
        public = self.directory.public_names(member.name)
        try:
            found = await model_reports(member.config, member.capabilities)
        except UpstreamError as error:
            reason = f"{member.name}: {error.message}"
            return [ModelReport(f"{member.name}/*", "", "", "", reason, upstream=member.name, health=health)]
        return [
            msgspec.structs.replace(
                report, model=public.get(report.model, report.model), upstream=member.name, health=health
            )
            for report in found
            if report.model in public or self._is_alias_of(report.model, member.name, public)
        ]

    def _is_alias_of(self, model: str, upstream: str, listed: Container[str]) -> bool:
        """Return whether a name of the settings stands for a model of this upstream."""
        chosen = self._config.upstreams_of(model)
        return upstream in chosen if chosen else self._config.aliases.get(model) in listed

    async def _candidates(self, model: str, route: RouteMatch) -> list[PoolMember]:
        members = list(self.members.values())
        if not model:
            serving = [each for each in members if each.upstream.kind.full_openai_api]
            return (serving or members)[:1] if route.operation is None else members[:1]
        chosen = self._config.upstreams_of(model) or self.directory.prefixed(model)
        return [self.members[name] for name in chosen or (await self.directory.find(model),)]

    async def _serve_in_order(
        self, connection: ClientConnection, route: RouteMatch, candidates: Sequence[PoolMember]
    ) -> None:
        headers = list(connection.extra_headers)
        failed: UpstreamError | None = None
        for position, member in enumerate(candidates):
            if member.health.refusal:
                continue
            others = any(not other.health.refusal for other in candidates[position + 1 :])
            connection.fallback_statuses = FALLBACK_STATUSES if others else frozenset()
            connection.extra_headers = list(headers)
            connection.upstream = member.name
            try:
                with member.health.admit():
                    return await member.serve(connection, route)
            except UpstreamError as error:
                is_unavailable = error.lost or error.status in FALLBACK_STATUSES
                if not (others and connection.may_be_served_again and is_unavailable):
                    raise
                logger.warning("%s: the next upstream is tried: %s", member.name, error.message)
                release_frames(error)
                failed = error
        if failed is not None:
            raise failed
        wait = max(_BUSY_RETRY, math.ceil(min((member.health.retry_in for member in candidates), default=0)))
        connection.extra_headers.append((b"retry-after", str(wait).encode()))
        reasons = "; ".join(f"{member.name}: {member.health.refusal}" for member in candidates)
        raise UpstreamError(f"no upstream can take the request now: {reasons}", status=503, kind="unavailable")


def _describe(report: HealthReport) -> str:
    return "" if report.state == "ok" else f"{report.state}: {report.reason}"
