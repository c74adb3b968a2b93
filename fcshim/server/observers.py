"""The observers of requests that the settings and the environment ask for; without any, nothing is observed."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fcshim.config import Config
from fcshim.errors import MissingExtraError
from fcshim.server.observation import NO_OBSERVERS, Observers, RequestObserver
from fcshim.server.recording import KEPT_BYTES, Recorder

if TYPE_CHECKING:
    from fcshim.server.metrics import Metrics
    from fcshim.server.tracing import Tracing

logger = logging.getLogger("fcshim.server")

_EXPORTER_VARIABLES = (
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
    *("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"),
)


def _load_metrics(config: Config, env: Mapping[str, str]) -> "Metrics | None":
    """Make the figures for Prometheus, if they are on. Raises `ConfigError`."""
    if not config.metrics:
        return None
    from fcshim.server.metrics import Metrics, figures_folder  # noqa: PLC0415 - its extra may be missing

    return Metrics(config.upstream, figures_folder(env))


def load_observers(config: Config, env: Mapping[str, str]) -> Observers:
    """Make the observers of a server. Raises `ConfigError` for a folder that cannot be used."""
    metrics = _load_metrics(config, env)
    observers: list[RequestObserver] = [] if metrics is None else [metrics]
    on_close: list[Callable[[], None]] = []
    keep_bytes = 0
    if config.record:
        recorder = Recorder(config, Path(config.record))
        observers.append(recorder)
        on_close.append(recorder.close)
        keep_bytes = KEPT_BYTES
    tracing = _load_tracing(config, env)
    if tracing is not None:
        observers.append(tracing)
        on_close.append(tracing.close)
        keep_bytes = KEPT_BYTES if tracing.wants_content else keep_bytes
    if not observers:
        return NO_OBSERVERS
    return Observers(
        observers, keep_bytes=keep_bytes, on_close=on_close, serve_metrics=None if metrics is None else metrics.serve
    )


def _load_tracing(config: Config, env: Mapping[str, str]) -> "Tracing | None":
    """Make the tracing that OpenTelemetry's variables ask for.

    They may be meant for other programs on the machine, so a missing extra is no error.
    """
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true" or not any(env.get(name) for name in _EXPORTER_VARIABLES):
        return None
    try:
        from fcshim.server.tracing import load_tracing  # noqa: PLC0415 - its extra may be missing
    except MissingExtraError as error:
        logger.warning("no traces although OTEL_* variables are set: %s", error.message)
        return None
    return load_tracing(config, env)
