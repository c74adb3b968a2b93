"""Traces and metrics as an OpenTelemetry collector gets them: real exporters, a receiver on loopback."""

import contextlib
import http.server
import json
import logging
import sys
import threading

import pytest

from tests.server.mcp_proxy import ADD, proxy_with_servers, stdio_server
from tests.server.proxy import CALL, CHAT, chat_body, http_client, post_chat, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_upstream, stream_texts

trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
metrics_service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CANARY = "canary-0123456789"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what exporters send."""

    def do_POST(self):
        data = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, data))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Collected:
    def __init__(self):
        self.received = []

    @property
    def spans(self):
        found = []
        for path, data in self.received:
            if path == "/v1/traces":
                message = trace_service.ExportTraceServiceRequest.FromString(data)
                found += [each for one in message.resource_spans for scope in one.scope_spans for each in scope.spans]
        return found

    @property
    def bounds(self):
        """The bounds of each histogram, by its name."""
        found = {}
        for path, data in self.received:
            if path == "/v1/metrics":
                message = metrics_service.ExportMetricsServiceRequest.FromString(data)
                scopes = [scope for one in message.resource_metrics for scope in one.scope_metrics]
                metrics = [metric for scope in scopes for metric in scope.metrics]
                found |= {each.name: list(each.histogram.data_points[0].explicit_bounds) for each in metrics}
        return found


@pytest.fixture
def collected(monkeypatch):
    """Receive what is exported while the test runs."""
    result = Collected()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.received = result.received
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    yield result
    server.shutdown()
    thread.join()
    server.server_close()


def attributes(span):
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in span.attributes
        if each.HasField("value")
    }


async def test_a_reply_is_a_span_in_the_clients_trace(collected):
    async with raw_upstream(stream_texts(CALL)) as upstream, running_proxy(upstream.url) as url:
        await post_chat(url, headers={"traceparent": PARENT, "tracestate": "a=b"})
        sent = upstream.requests[0].headers
    (span,) = collected.spans
    found = attributes(span)

    assert ("chat m", "0af7651916cd43dd8448eb211c80319c") == (span.name, span.trace_id.hex())
    assert "b7ad6b7169203331" == span.parent_span_id.hex()
    assert f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" == sent["traceparent"]
    assert "a=b" == sent["tracestate"]
    assert ("chat", "openai", "m") == tuple(
        found[f"gen_ai.{name}"] for name in ("operation.name", "provider.name", "request.model")
    )
    assert ["tool_use"] == [each.string_value for each in found["gen_ai.response.finish_reasons"].values]
    assert 0 < found["gen_ai.usage.output_tokens"]
    assert 0 < found["gen_ai.response.time_to_first_chunk"]
    assert span.end_time_unix_nano > span.start_time_unix_nano
    assert [0.01, 0.02, 0.04] == collected.bounds["gen_ai.client.operation.duration"][:3]
    assert [1, 4, 16] == collected.bounds["gen_ai.client.token.usage"][:3]
    assert 81.92 == collected.bounds["gen_ai.client.operation.time_to_first_chunk"][-1]


async def test_the_time_to_the_first_chunk_is_reported_of_streams_only(collected):
    async with raw_upstream(stream_texts("Hi")) as upstream, running_proxy(upstream.url) as url:
        await post_chat(url, stream=False)
    (span,) = collected.spans

    assert "gen_ai.response.time_to_first_chunk" not in attributes(span)
    assert {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"} == set(collected.bounds)


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
async def test_the_trace_goes_on_upstream_whatever_api_the_client_speaks(path, collected):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.post(path, json=chat_body(max_tokens=9, tools=False), headers={"traceparent": PARENT})
        sent = upstream.requests[-1].headers

    assert sent["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert sent["traceparent"] != PARENT


async def test_an_error_is_marked(collected):
    async with raw_upstream(fixed_reply(500, b"{}")) as upstream, running_proxy(upstream.url) as url:
        await post_chat(url)
    (span,) = collected.spans

    assert (2, "502") == (span.status.code, attributes(span)["error.type"])


@pytest.mark.parametrize("content", ["", "SPAN_ONLY"])
async def test_content_is_exported_only_where_the_operator_opted_in_and_never_a_credential(
    content, collected, monkeypatch
):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", content)
    headers = {"Authorization": f"Bearer {CANARY}", "X-Session-Token": "canary-header-1"}
    said = [{"role": "user", "content": f"apples {CANARY} canary-body-12"}]
    play = stream_texts("pears ", *f"{CANARY}.")
    refusal = fixed_reply(400, json.dumps({"error": CANARY}).encode())
    async with (
        raw_upstream(play, refusal) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        for _ in range(2):
            body = chat_body(messages=said, api_key="canary-body-12", model=f"m-{CANARY}")
            await client.post(f"{CHAT}?token=canary-query-1", json=body, headers=headers)
    exported = b"".join(data for _, data in collected.received)

    assert 2 == len(collected.spans)
    assert bool(content) == (b"apples" in exported) == (b"pears" in exported)
    assert b"canary" not in exported


@pytest.mark.engine
async def test_a_tool_that_runs_here_is_a_span_of_its_own(collected, tmp_path):
    servers = {"f": stdio_server("friendly")}
    async with proxy_with_servers(tmp_path, servers, ADD, "It is 3.", metrics=True, allow=("*",)) as (url, _):
        await post_chat(url, tools=False)
        async with http_client(url) as client:
            figures = (await client.get("/metrics")).text
    tools = [span for span in collected.spans if span.name.startswith("execute_tool")]
    (chat,) = [span for span in collected.spans if span.name.startswith("chat")]

    assert [chat.span_id] == [span.parent_span_id for span in tools]
    assert "execute_tool" == attributes(tools[0])["gen_ai.operation.name"]
    assert 'fcshim_mcp_calls_total{outcome="done",server="f"} 1.0' in figures


async def test_without_variables_nothing_is_imported_and_the_clients_trace_passes(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        await post_chat(url, headers={"traceparent": PARENT})

    assert PARENT == upstream.requests[0].headers["traceparent"]


async def test_a_missing_extra_is_a_warning_since_the_variables_may_be_meant_for_others(monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.delitem(sys.modules, "fcshim.server.tracing", raising=False)
    with contextlib.suppress(ImportError):
        async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
            assert 200 == (await post_chat(url)).status_code

    assert "pip install 'fcshim[otel]'" in caplog.text
