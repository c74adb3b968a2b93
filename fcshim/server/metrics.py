"""`/metrics`: metrics of requests, calls and tools for Prometheus.

Rule: the number of time series is bounded. Names that come from clients (models) or from configuration (servers) count
as `other` beyond a limit; nothing of a request's content is a label. Where several processes serve, each answers with
the sum of all: the library keeps their metrics in files of one folder.
"""

import asyncio
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from fcshim.codecs.routes import CODECS
from fcshim.errors import ConfigError
from fcshim.events import Usage
from fcshim.extras import naming_extra
from fcshim.server.client_connection import ClientConnection
from fcshim.server.observation import RequestObserver
from fcshim.server.observed_request import NO_DIALECT, ObservedRequest

with naming_extra("metrics"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, values
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.multiprocess import MultiProcessCollector
    from prometheus_client.process_collector import ProcessCollector

_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The library's variable for the folder in which several processes keep their metrics."""
_MAX_NAMES = 64
"""Different names in one label: enough for the models of a gateway, too few to fill a database of time series."""
_MAX_LENGTH = 100
OTHER = "other"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_OWN_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
"""Bounds of histograms: of replies, and of the proxy's own work."""


def share_figures(folder: Path, worker: int) -> None:
    """Keep the metrics of this process in `folder`. Call this before there are any.

    Files belong to the number of the worker, not to its process: its successor continues the counts, and crashes
    leave no files behind.
    """
    os.environ[_FOLDER_VARIABLE] = str(folder)
    values.ValueClass = values.MultiProcessValue(lambda: worker)  # type: ignore[no-untyped-call]


def figures_folder(env: Mapping[str, str]) -> Path | None:
    """Return the folder in which several processes keep their metrics, if they do. Raises `ConfigError`."""
    folder = env.get(_FOLDER_VARIABLE)
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise ConfigError(f"{_FOLDER_VARIABLE}: expected a folder, got {folder!r:.200}")
    return Path(folder)


class BoundedNames:
    """The names that may be labels: the first that came, up to a limit."""

    def __init__(self, limit: int = _MAX_NAMES) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """Return `name` if it may be a label, else `other`; an empty one stays empty."""
        if name in self._known or not name:
            return name
        if len(self._known) >= self._limit or len(name) > _MAX_LENGTH or not name.isprintable():
            return OTHER
        self._known.add(name)
        return name


_REQUEST = ("api", "model", "upstream")


class _MetricSet:
    """The metrics that are served, each with its labels, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = functools.partial(Counter, registry=registry)
        histogram = functools.partial(Histogram, registry=registry)
        self.requests = counter("fcshim_requests", "requests", (*_REQUEST, "status"))
        self.calls = counter("fcshim_calls", "tool calls of models", ("dialect", "outcome"))
        self.no_calls = counter(
            "fcshim_no_calls", "replies without a call although tools were offered", ("dialect", "kind")
        )
        self.tokens = counter("fcshim_tokens", "tokens", ("model", "upstream", "kind"))
        self.retries = counter("fcshim_retries", "further requests upstream for one request", ("model", "upstream"))
        self.upstream_errors = counter("fcshim_upstream_errors", "failed requests upstream", ("upstream",))
        self.cut_prompts = counter(
            "fcshim_cut_prompts", "prompts of which the upstream has read only a part", ("model", "upstream")
        )
        self.tool_runs = counter("fcshim_mcp_calls", "tool calls that ran in the proxy", ("server", "outcome"))
        self.first_token_seconds = histogram(
            "fcshim_time_to_first_token_seconds", "time until the first event of the reply", _REQUEST, buckets=_SECONDS
        )
        self.seconds = histogram("fcshim_request_duration_seconds", "time until the end", _REQUEST, buckets=_SECONDS)
        self.own_seconds = histogram(
            "fcshim_overhead_seconds",
            "time that fcshim itself took for a request and its reply",
            ("api",),
            buckets=_OWN_SECONDS,
        )
        self.live_requests = Gauge(
            "fcshim_live_requests",
            "requests that are being served",
            ("api",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        for api in CODECS:
            self.live_requests.labels(api)  # 0 from the start: an autoscaler takes a missing metric for an unknown load


class Metrics:
    """The metrics of one server, and of other processes in `folder`. Implements `observers.ServerObserver`."""

    def __init__(self, upstream: str, folder: Path | None = None) -> None:
        self._folder = folder
        self._upstream = urlsplit(upstream).netloc
        self._model_label, self._server_label, self._dialect_label = BoundedNames(), BoundedNames(), BoundedNames()
        self._registry = CollectorRegistry()
        if folder is None:  # memory and CPU of one process of several would say nothing
            ProcessCollector(registry=self._registry)
        self._metrics = _MetricSet(self._registry)

    def begin(self, observed: ObservedRequest) -> RequestObserver:
        """Count a request that runs, and the rest at its end."""
        self._metrics.live_requests.labels(observed.api).inc()
        return _CountedRequest(self, observed)

    def close(self) -> None:
        """Do nothing, since Prometheus fetches the metrics."""

    def count(self, observed: ObservedRequest) -> None:
        """Count a request that has ended."""
        self._metrics.live_requests.labels(observed.api).dec()
        upstream = observed.upstream or self._upstream
        labels = (observed.api, self._model_label(observed.model), upstream)
        self._metrics.requests.labels(*labels, str(observed.status or "none")).inc()
        self._metrics.seconds.labels(*labels).observe(observed.ended_at - observed.started_at)
        if observed.first_event_at:
            self._metrics.first_token_seconds.labels(*labels).observe(observed.first_event_at - observed.started_at)
        if observed.attempts:
            self._metrics.own_seconds.labels(observed.api).observe(observed.own_seconds)
        for call in observed.calls:
            self._metrics.calls.labels(self._dialect_label(call.dialect), call.outcome).inc()
        if observed.no_call is not None:
            dialect = self._dialect_label(observed.no_call.dialect or NO_DIALECT)
            self._metrics.no_calls.labels(dialect, observed.no_call.kind).inc()
        if len(observed.attempts) > 1:
            self._metrics.retries.labels(labels[1], upstream).inc(len(observed.attempts) - 1)
        if observed.usage is not None:
            self._count_tokens(observed.usage, labels[1], upstream)
        if observed.upstream_errors:
            self._metrics.upstream_errors.labels(upstream).inc(observed.upstream_errors)
        if observed.cut_prompts:
            self._metrics.cut_prompts.labels(labels[1], upstream).inc(observed.cut_prompts)
        for run in observed.runs:
            self._metrics.tool_runs.labels(self._server_label(run.source), "failed" if run.failed else "done").inc()

    async def serve(self, connection: ClientConnection) -> None:
        """Answer with the metrics, in the format that the client asks for."""
        encode: Callable[[CollectorRegistry], bytes]
        encode, content_type = choose_encoder(connection.header(b"accept").decode("latin-1"))
        registry = self._registry
        if self._folder is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, str(self._folder))  # type: ignore[no-untyped-call]
        connection.prepare(200, [(b"content-type", content_type.encode())])
        await connection.end(await asyncio.to_thread(encode, registry))  # files of several processes take a while

    def _count_tokens(self, usage: Usage, model: str, upstream: str) -> None:
        for kind, count in (
            ("input", usage.input_tokens),
            ("output", usage.output_tokens),
            ("cached", usage.cached_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            self._metrics.tokens.labels(model, upstream, kind).inc(count)


class _CountedRequest(RequestObserver):
    """Counts a request when it has ended."""

    wants_seconds = True

    def __init__(self, metrics: Metrics, observed: ObservedRequest) -> None:
        self._metrics, self._observed = metrics, observed

    def end(self, status: int, error: str) -> None:  # noqa: ARG002 - `observed` has both
        """Count it."""
        self._metrics.count(self._observed)
