"""The observers of one server: metrics, records, traces and the inspector, as the settings and the environment ask."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fcshim.codecs.routes import RouteMatch
from fcshim.config import Config
from fcshim.errors import MissingExtraError
from fcshim.server.client_connection import ClientConnection
from fcshim.server.guard import is_about_proxy
from fcshim.server.inspector.capture import CaptureRing
from fcshim.server.observation import RequestObserver, RequestObservers
from fcshim.server.observed_request import ObservedRequest
from fcshim.server.recording import Recorder

if TYPE_CHECKING:
    from fcshim.server.metrics import Metrics
    from fcshim.server.tracing import Tracing

logger = logging.getLogger("fcshim.server")

_EXPORTER_VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER",
)  # fmt: skip


class ServerObserver(Protocol):
    """Observes the requests of a server."""

    def begin(self, observed: ObservedRequest) -> RequestObserver | None:
        """Return the observer of a request, which is notified after `observed`; None to skip the request."""
        ...

    def close(self) -> None:
        """Finish pending work, which may take long."""
        ...


class Observers:
    """The observers of one server."""

    def __init__(
        self,
        observers: Sequence[ServerObserver],
        *,
        captures: CaptureRing | None = None,
        serve_metrics: Callable[[ClientConnection], Awaitable[None]] | None = None,
    ) -> None:
        self.captures = captures
        """The inspector's observer; None without the inspector."""
        self.serve_metrics = serve_metrics
        """Answers `/metrics`; None without metrics."""
        self.listed = observers
        """Without any, no request is observed."""

    def begin(self, request_id: str, route: RouteMatch, connection: ClientConnection) -> None:
        """Observe a request from now on, if there is an observer for it; none about the proxy itself is observed."""
        if is_about_proxy(connection.path):
            return
        observed = ObservedRequest(request_id, route, connection)
        started = [found for each in self.listed if (found := _begin(each, observed)) is not None]
        if started:
            connection.observe(RequestObservers([observed, *started]))

    def close(self) -> None:
        """Let the observers finish pending work."""
        for observer in self.listed:
            observer.close()


def _begin(observer: ServerObserver, observed: ObservedRequest) -> RequestObserver | None:
    try:
        return observer.begin(observed)
    except Exception:
        logger.exception("%s failed; the request continues without it", type(observer).__name__)
        return None


def _load_metrics(config: Config, env: Mapping[str, str]) -> "Metrics | None":
    """Make the metrics for Prometheus, if they are on. Raises `ConfigError`."""
    if not config.metrics:
        return None
    from fcshim.server.metrics import Metrics, figures_folder  # noqa: PLC0415 - its extra may be missing

    return Metrics(config.upstream, figures_folder(env))


def load_observers(config: Config, env: Mapping[str, str]) -> Observers:
    """Make the observers of a server. Raises `ConfigError` for a folder that cannot be used."""
    metrics = _load_metrics(config, env)
    captures = CaptureRing(config) if config.inspect else None
    recorder = Recorder(config, Path(config.record)) if config.record else None
    found = (metrics, captures, recorder, _load_tracing(config, env))
    return Observers(
        [each for each in found if each is not None],
        captures=captures,
        serve_metrics=None if metrics is None else metrics.serve,
    )


def _load_tracing(config: Config, env: Mapping[str, str]) -> "Tracing | None":
    """Make the tracing that OpenTelemetry's variables ask for.

    They may be meant for other programs on the machine, so a missing extra is not an error.
    """
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(env.get(name) for name in _EXPORTER_VARIABLES):
        return None
    try:
        from fcshim.server.tracing import load_tracing  # noqa: PLC0415 - its extra may be missing
    except MissingExtraError as error:
        logger.warning("no traces although OTEL_* variables are set: %s", error.message)
        return None
    return load_tracing(config, env)
