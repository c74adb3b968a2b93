"""Traces and metrics for OpenTelemetry, by its conventions for generative AI (`gen_ai.*`).

Rule: off unless the standard variables (`OTEL_*`) name an exporter. The trace context of a client is taken and passed
on. What people and models write is exported only with the conventions' own opt-in, and without credentials.
"""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from fcshim.config import Config, Secret
from fcshim.config.credentials import CredentialMask
from fcshim.events import JSON, Event, Text, ToolCallEnd
from fcshim.extras import naming_extra
from fcshim.messages import AssistantMessage, Message, ToolMessage, text_of
from fcshim.server.client_connection import ClientConnection
from fcshim.server.kept_replies import KEPT_BYTES, KeptReplies
from fcshim.server.observation import ObservedRun
from fcshim.server.observed_request import ObservedRequest
from fcshim.server.request_log import config_secrets

with naming_extra("otel"):
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


_CONTEXT_HEADERS = (b"traceparent", b"tracestate")
_PROVIDERS = {"responses": "openai", "gemini": "gcp.gemini", "llamacpp": "llama.cpp"}
"""Names of providers in the conventions, where they differ from those of our upstream APIs."""
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT_VALUES = frozenset({"true", "span_only", "span_and_event"})
_SECONDS = [0.01 * 2**power for power in range(14)]
_TOKENS = [4**power for power in range(14)]
"""Bounds of the histograms, from the conventions; the SDK's own begin with 5 s."""
_MAX_CONTENT = 64 * 2**10
"""Characters of one attribute with content; collectors drop larger spans."""
_PROPAGATOR = TraceContextTextMapPropagator()


def captures_content(env: Mapping[str, str]) -> bool:
    """Return whether the operator opted in to content in spans."""
    return env.get(_CONTENT_VARIABLE, "").lower() in _CONTENT_VALUES


class Tracing:
    """One span for each reply, and one for each tool that ran for it. Implements `observers.ServerObserver`."""

    def __init__(
        self,
        config: Config,
        processors: Sequence[SpanProcessor],
        readers: Sequence[MetricReader] = (),
        *,
        content: bool = False,
    ) -> None:
        resource = Resource({"service.name": "fcshim"}).merge(Resource.create())
        self._tracers = TracerProvider(resource=resource)
        for processor in processors:
            self._tracers.add_span_processor(processor)
        self._meters = MeterProvider(readers, resource=resource)
        self._tracer = self._tracers.get_tracer("fcshim")
        meter = self._meters.get_meter("fcshim")
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._first_chunk = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk", "s", explicit_bucket_boundaries_advisory=_SECONDS
        )
        address = urlsplit(config.upstream)
        self._common: dict[str, str | int] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(config.upstream_api, config.upstream_api),
            "server.address": address.hostname or "",
            "server.port": address.port or (443 if address.scheme == "https" else 80),
        }
        self._secrets = config_secrets(config)
        self._content = content

    def begin(self, observed: ObservedRequest) -> "_TracedRequest | None":
        """Start the span of a reply, in the client's trace; requests upstream carry its context."""
        if observed.operation != "reply":
            return None
        connection = observed.connection
        carrier = {name.decode(): connection.header(name).decode("latin-1") for name in _CONTEXT_HEADERS}
        parent = _PROPAGATOR.extract(carrier)
        span = self._tracer.start_span(
            "chat",
            context=parent,
            kind=SpanKind.CLIENT,
            attributes=self._common,
            start_time=_nanoseconds(observed.began_at),
        )
        _pass_on(connection, span)
        return _TracedRequest(self, observed, span, KEPT_BYTES if self._content else 0)

    def end(self, traced: "_TracedRequest") -> None:
        """End the span of a reply."""
        observed, span = traced.observed, traced.span
        ended_at = observed.began_at + observed.ended_at - observed.started_at
        self._measure(observed)
        if span.is_recording():
            mask = _mask_of(observed, self._secrets)
            self._describe(traced, mask)
            for run in observed.runs:
                self._add_run(span, observed, run, mask)
        span.end(_nanoseconds(ended_at))

    def close(self) -> None:
        """Export what waits."""
        self._tracers.shutdown()
        self._meters.shutdown()

    def _describe(self, traced: "_TracedRequest", mask: CredentialMask) -> None:
        observed, span = traced.observed, traced.span
        if observed.model:
            span.update_name(f"chat {mask.mask_text(observed.model)[:200]}")
        attributes = {**_request_attributes(observed), **_reply_attributes(observed)}
        if self._content and not mask.overflowed:
            attributes |= _content_attributes(traced)
        span.set_attributes(
            {name: _masked(value, mask) for name, value in attributes.items() if value not in (None, "")}
        )
        for attempt in observed.attempts[1:]:
            span.add_event("fcshim.attempt", {"reason": mask.mask_text(attempt.reason)[:500]})
        if observed.error or observed.status >= 400:
            span.set_attribute("error.type", str(observed.status or "cancelled"))
            span.set_status(Status(StatusCode.ERROR, mask.mask_text(observed.error)[:500]))

    def _add_run(self, span: Span, observed: ObservedRequest, run: ObservedRun, mask: CredentialMask) -> None:
        offset = observed.began_at - observed.started_at
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": run.call.tool_call_name,
            "gen_ai.tool.call.id": run.call.tool_call_id,
            "gen_ai.tool.type": "function",
            "fcshim.server": run.source,
        }
        if self._content and not mask.overflowed:
            arguments = mask.body(run.call.tool_call_arguments_complete.encode()).decode("utf-8", "replace")
            attributes |= {
                "gen_ai.tool.call.arguments": arguments,
                "gen_ai.tool.call.result": run.result,
            }
        child = self._tracer.start_span(
            f"execute_tool {run.call.tool_call_name}",
            context=trace.set_span_in_context(span),
            attributes={name: _masked(value, mask) for name, value in attributes.items()},
            start_time=_nanoseconds(run.started_at + offset),
        )
        if run.failed:
            child.set_attribute("error.type", "tool_error")
            child.set_status(Status(StatusCode.ERROR))
        child.end(_nanoseconds(run.ended_at + offset))

    def _measure(self, observed: ObservedRequest) -> None:
        labels = {**self._common, **({"error.type": str(observed.status)} if observed.status >= 400 else {})}
        self._duration.record(observed.ended_at - observed.started_at, labels)
        if _first_chunk_is_reported(observed):
            self._first_chunk.record(observed.first_event_at - observed.started_at, self._common)
        if observed.usage is not None:
            self._tokens.record(observed.usage.input_tokens, {**self._common, "gen_ai.token.type": "input"})
            self._tokens.record(observed.usage.output_tokens, {**self._common, "gen_ai.token.type": "output"})


class _TracedRequest(KeptReplies):
    """One reply with its span. What was said is kept only with the opt-in."""

    def __init__(self, tracing: Tracing, observed: ObservedRequest, span: Span, limit: int) -> None:
        super().__init__(limit)
        self.observed, self.span = observed, span
        self._tracing = tracing

    def end(self, status: int, error: str) -> None:  # noqa: ARG002 - `observed` has both
        """End the span."""
        self._tracing.end(self)


def load_tracing(config: Config, env: Mapping[str, str]) -> Tracing | None:
    """Make the tracing that the variables ask for, with exporters that read the rest of them."""
    spans, readers = _exporters(env)
    return Tracing(config, spans, readers, content=captures_content(env)) if spans or readers else None


def _exporters(env: Mapping[str, str]) -> tuple[list[SpanProcessor], list[MetricReader]]:
    def is_asked(signal: str) -> bool:
        addressed = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        chosen = env.get(f"OTEL_{signal}_EXPORTER", "otlp" if addressed else "none")
        return chosen == "otlp"

    spans: list[SpanProcessor] = [BatchSpanProcessor(OTLPSpanExporter())] if is_asked("TRACES") else []
    readers: list[MetricReader] = [PeriodicExportingMetricReader(OTLPMetricExporter())] if is_asked("METRICS") else []
    return spans, readers


def _pass_on(connection: ClientConnection, span: Span) -> None:
    """Put the span's context in place of the client's."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span))
    if carrier:
        others = [pair for pair in connection.headers if pair[0] not in _CONTEXT_HEADERS]
        connection.headers = [*others, *((name.encode(), value.encode()) for name, value in carrier.items())]


def _mask_of(observed: ObservedRequest, secrets: Iterable[Secret]) -> CredentialMask:
    mask = CredentialMask(secrets)
    mask.headers(observed.connection.headers)
    mask.query(observed.connection.query)
    mask.body(observed.body)
    return mask


def _masked(value: JSON, mask: CredentialMask) -> JSON:
    return mask.mask_text(value)[:_MAX_CONTENT] if isinstance(value, str) else value


def _request_attributes(observed: ObservedRequest) -> dict[str, JSON]:
    request = observed.request
    found: dict[str, JSON] = {
        "fcshim.request_id": observed.id,
        "fcshim.api": observed.api,
        "fcshim.upstream": observed.upstream,
    }
    if request is not None:
        found |= {
            "gen_ai.request.model": request.model[:200],
            "gen_ai.request.stream": request.stream,
            "gen_ai.request.max_tokens": request.max_tokens,
            "gen_ai.request.choice.count": request.n if request.n > 1 else None,
        }
    return found


def _reply_attributes(observed: ObservedRequest) -> dict[str, JSON]:
    usage = observed.usage
    outcomes = [call.outcome for call in observed.calls]
    found: dict[str, JSON] = {
        "http.response.status_code": observed.status or None,
        "gen_ai.response.finish_reasons": [observed.stop_reason] if observed.stop_reason else None,
        "fcshim.attempts": len(observed.attempts),
        "fcshim.relayed": observed.is_relayed,
        "fcshim.dialect": observed.calls[0].dialect if observed.calls else None,
        "fcshim.call_outcomes": outcomes or None,
    }
    if usage is not None:
        found |= {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
    if _first_chunk_is_reported(observed):
        found["gen_ai.response.time_to_first_chunk"] = observed.first_event_at - observed.started_at
    return found


def _first_chunk_is_reported(observed: ObservedRequest) -> bool:
    """Return whether the time to the first chunk is known and reported: the conventions want it of streams only."""
    return bool(observed.first_event_at and observed.request is not None and observed.request.stream)


def _content_attributes(traced: _TracedRequest) -> dict[str, JSON]:
    """Return what was said, in the form of the conventions."""
    observed = traced.observed
    events = [event for log in traced.replies for event in log.first_choice()]
    output = [{"role": "assistant", "parts": _output_parts(events), "finish_reason": observed.stop_reason}]
    messages = () if observed.request is None else observed.request.messages
    masked = CredentialMask()
    sent = masked.body(msgspec.json.encode([_input_message(message) for message in messages]))
    return {
        "gen_ai.input.messages": sent.decode("utf-8", "replace"),
        "gen_ai.output.messages": masked.body(msgspec.json.encode(output)).decode("utf-8", "replace"),
    }


def _output_parts(events: Iterable[Event]) -> list[JSON]:
    events = list(events)
    text = "".join(event.text for event in events if isinstance(event, Text))
    parts: list[JSON] = [{"type": "text", "content": text}] if text else []
    calls = [event for event in events if isinstance(event, ToolCallEnd)]
    return parts + [
        _call_part(call.tool_call_id, call.tool_call_name, call.tool_call_arguments_complete) for call in calls
    ]


def _input_message(message: Message) -> JSON:
    text = text_of(message.content)
    if isinstance(message, ToolMessage):
        part = {"type": "tool_call_response", "id": message.tool_call_id, "response": text}
        return {"role": "tool", "parts": [part]}
    parts: list[JSON] = [{"type": "text", "content": text}] if text else []
    if isinstance(message, AssistantMessage):
        parts += [_call_part(call.id, call.name, call.arguments) for call in message.tool_calls]
    role = type(message).__name__.removesuffix("Message").lower()
    return {"role": role, "parts": parts}


def _call_part(call_id: str, name: str, arguments: str) -> JSON:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
