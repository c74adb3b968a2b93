"""Figures for Prometheus: what is counted, under which bounded labels, and never what a request contains."""

import json
import re
from pathlib import Path

import pytest

from fcshim.codecs.routes import CODECS
from fcshim.config import Secret
from fcshim.events import CallError, Coercion, ToolCallEnd
from fcshim.parse.dialects import DIALECTS
from fcshim.pipeline.call_outcome import ParseRecord, outcome_of, outcomes_of_defects
from tests.scripted import ROLE, text_chunk
from tests.server.proxy import CALL, CHAT, chat_body, http_client, post_chat, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_reply, raw_upstream, stream_chunks, stream_texts, stream_then

parser = pytest.importorskip("prometheus_client.parser")
Metrics = pytest.importorskip("fcshim.server.metrics").Metrics


async def figures(url, **headers):
    """Read the figures: (name, labels) to value, without those of the process and without buckets."""
    async with http_client(url) as client:
        response = await client.get("/metrics", headers=headers)
    assert 200 == response.status_code
    return response.text, {
        (sample.name, *sample.labels.values()): sample.value
        for family in parser.text_string_to_metric_families(response.text)
        for sample in family.samples
        if sample.name.startswith("fcshim_") and not sample.name.endswith(("_bucket", "_created"))
    }


def netloc(upstream):
    return upstream.url.removeprefix("http://").partition("/")[0]


async def test_requests_calls_tokens_and_times_are_counted():
    async with raw_upstream(stream_texts(CALL)) as upstream, running_proxy(upstream.url, metrics=True) as url:
        for stream in (True, False):
            await post_chat(url, stream=stream)
        _, found = await figures(url)
    api = next(key[1] for key in found if key[0] == "fcshim_requests_total")
    labels = api, "m", netloc(upstream)

    assert 2 == found["fcshim_requests_total", api, "m", "200", netloc(upstream)]
    assert 2 == found["fcshim_calls_total", "function_call", "clean"]
    assert 2 == found["fcshim_time_to_first_token_seconds_count", *labels]
    assert 2 == found["fcshim_request_duration_seconds_count", *labels]
    assert 2 == found["fcshim_overhead_seconds_count", api]
    assert 0 < found["fcshim_overhead_seconds_sum", api] < found["fcshim_request_duration_seconds_sum", *labels]
    assert 0 < found["fcshim_tokens_total", "output", *labels[1:]]
    assert 0 == found["fcshim_live_requests", api]


OUTCOMES = {
    "clean": [CALL],
    "repaired": [CALL.replace('"b": 2', "b: 2")],
    "rescued": [CALL.replace("function_call", "tool_call")],
    "mended": [CALL.replace("add", "subtract"), CALL],
    "not_offered": [CALL.replace("add", "subtract"), "Never mind."],
    "invalid": [CALL.replace("1,", '"one",'), "Never mind."],
    "malformed": [CALL.replace(': 1, "b": 2}', "1:::2,,{[")] * 2,
    "coerced": [CALL.replace("1", '"1"')],
}
NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_each_outcome_of_a_call_is_distinguished(outcome):
    tools = [{"type": "function", "function": {"name": "add", "parameters": NUMBERS}}]
    plays = [stream_texts(text) for text in OUTCOMES[outcome]]
    async with raw_upstream(*plays) as upstream, running_proxy(upstream.url, metrics=True) as url:
        async with http_client(url) as client:
            await client.post(CHAT, json=chat_body(stream=False) | {"tools": tools})
        _, found = await figures(url)
    counted = {key[2] for key in found if key[0] == "fcshim_calls_total"}

    assert outcome in counted
    assert len(OUTCOMES[outcome]) - 1 == sum(value for key, value in found.items() if key[0] == "fcshim_retries_total")


async def test_a_long_call_of_which_the_text_is_not_kept_is_not_counted_as_repaired():
    call = CALL.replace('"b": 2', f'"note": "{"x" * 70_000}"')
    pieces = [call[at : at + 1_000] for at in range(0, len(call), 1_000)]
    async with raw_upstream(stream_texts(*pieces)) as upstream, running_proxy(upstream.url, metrics=True) as url:
        await post_chat(url)
        _, found = await figures(url)

    assert {"clean"} == {key[2] for key in found if key[0] == "fcshim_calls_total"}


END = ToolCallEnd("1", "add", '{"a": 1}', 0)


def ended(**fields):
    return ToolCallEnd("1", "add", '{"a": 1}', 0, **fields)


@pytest.mark.parametrize(
    ("call", "dialect", "text", "expected"),
    [
        (END, "hermes", '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', "clean"),
        (END, "hermes", "<tool_call>{'name': 'add', 'arguments': {'a': 1}}</tool_call>", "repaired"),
        (END, "hermes", '[TOOL_CALLS]add{"a": 1}', "rescued"),
        (END, "kimi_k3", '<|open|>call tool="add"<|sep|>', "clean"),
        (END, "hermes", "", "clean"),
        (ended(coerced=[Coercion("/a", "1", 1)]), "hermes", "<tool_call>", "coerced"),
        (ended(error=CallError("truncated", "cut", "")), "hermes", "<tool_call>", "truncated"),
        (ended(error=CallError("limit", "long", "")), "hermes", "", "limit"),
    ],
)
def test_an_outcome_follows_from_the_text_and_the_event(call, dialect, text, expected):
    assert expected == outcome_of(call, ParseRecord(DIALECTS[dialect], text), is_retry=False)


def test_calls_of_an_upstream_with_tools_of_its_own_and_mended_ones():
    assert "clean" == outcome_of(END, ParseRecord(), is_retry=False)
    assert "mended" == outcome_of(END, ParseRecord(DIALECTS["hermes"], "x"), is_retry=True)
    assert ["not_offered", "malformed"] == outcomes_of_defects(ParseRecord(defects=("unoffered", "unreadable", "bad")))


async def test_names_from_clients_are_bounded():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url, metrics=True) as url:
        async with http_client(url) as client:
            for number in range(80):
                await client.post(CHAT, json=chat_body(model=f"model-{number}"))
            await client.post(CHAT, json=chat_body(model="x" * 5_000))
            await client.post(CHAT, json=chat_body(model='a"b\n\u202e{}'))
        text, found = await figures(url)
    models = {key[2]: value for key, value in found.items() if key[0] == "fcshim_requests_total"}

    assert 65 == len(models)
    assert 82 - 64 == models["other"]
    assert "xxxx" not in text


async def test_live_requests_are_0_before_there_are_any():
    async with running_proxy("http://127.0.0.1:9", metrics=True) as url:
        _, found = await figures(url)

    assert {("fcshim_live_requests", api): 0 for api in CODECS} == found


async def test_only_requests_to_a_clients_api_are_counted():
    about_proxy = ("/", "/health", "/metrics", "/fcshim/", "/fcshim/api/requests")
    async with (
        raw_upstream(stream_texts("hi")) as upstream,
        running_proxy(upstream.url, metrics=True, inspect=True) as url,
        http_client(url) as client,
    ):
        answers = [(await client.get(path)).status_code for path in about_proxy]
        await post_chat(url)
        _, found = await figures(url)

    assert [200] * 5 == answers
    assert {("m", "200"): 1} == {key[2:4]: count for key, count in found.items() if key[0] == "fcshim_requests_total"}


async def test_failures_of_the_upstream_are_counted():
    play = stream_then(ROLE, text_chunk("Once"), then=raw_reply(b""))
    async with (
        raw_upstream(fixed_reply(500, b"{}"), play) as upstream,
        running_proxy(upstream.url, metrics=True) as url,
    ):
        for _ in range(2):
            await post_chat(url)
        _, found = await figures(url)

    assert 2 == found["fcshim_upstream_errors_total", netloc(upstream)]
    assert ["200", "502"] == sorted(key[3] for key in found if key[0] == "fcshim_requests_total")


async def test_relayed_requests_are_counted_too():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url, metrics=True) as url:
        await post_chat(url, tools=False)
        _, found = await figures(url)

    assert 1 == sum(value for key, value in found.items() if key[0] == "fcshim_requests_total")
    assert 1 == sum(value for key, value in found.items() if key[0] == "fcshim_time_to_first_token_seconds_count")


async def test_figures_are_served_only_where_the_operator_asks_for_them_and_to_those_with_a_key():
    async with raw_upstream(stream_texts("ok")) as upstream:
        async with running_proxy(upstream.url) as url, http_client(url) as client:
            off = await client.get("/metrics")
        settings = {"metrics": True, "host": "0.0.0.0", "api_keys": (Secret("canary-proxy"),)}
        async with running_proxy(upstream.url, **settings) as url, http_client(url) as client:
            refused = await client.get("/metrics")
            served = await client.get("/metrics", headers={"Authorization": "Bearer canary-proxy"})

    assert [404, 401, 200] == [off.status_code, refused.status_code, served.status_code]


async def test_no_credential_is_a_label():
    key = "canary-key-1234"
    async with raw_upstream(stream_texts(CALL)) as upstream, running_proxy(upstream.url, metrics=True) as url:
        async with http_client(url) as client:
            body = chat_body(metadata={"api_key": key})
            await client.post(f"{CHAT}?key={key}", json=body, headers={"X-Api-Key": key})
        text, _ = await figures(url)

    assert "canary" not in text


async def test_the_dashboard_asks_for_figures_and_labels_that_exist():
    dashboard = json.loads((Path(__file__).parents[2] / "docs/deploy/grafana-dashboard.json").read_text("utf-8"))
    asked = {target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
    metrics = Metrics("http://127.0.0.1:1")
    exported = {
        name: set(collector._labelnames) | {"le"}
        for collector, names in metrics._registry._collector_to_names.items()
        for name in names
        if name.startswith("fcshim_")
    }
    names = {name for text in asked for name in re.findall(r"fcshim_\w+", text)}
    unknown_labels = [
        text
        for text in asked
        for found in re.findall(r"sum by \(([^)]*)\)", text)
        if not set(found.split(", ")) <= exported[re.search(r"fcshim_\w+", text)[0]]
    ]

    assert len(asked) >= 10
    assert names <= set(exported)
    assert not unknown_labels


async def test_figures_and_the_inspector_see_the_same_requests():
    async with (
        raw_upstream(stream_texts(CALL)) as upstream,
        running_proxy(upstream.url, metrics=True, inspect=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body())
        listed = (await client.get("/fcshim/api/requests")).json()["requests"]
        shown = (await client.get(f"/fcshim/api/requests/{listed[0]['id']}")).text
        _, found = await figures(url)

    assert 1 == found["fcshim_calls_total", "function_call", "clean"]
    assert 1 == len(listed)
    assert "function_call" in shown


@pytest.mark.parametrize("stream", [True, False])
async def test_the_tokens_of_a_relayed_reply_are_counted(stream):
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    whole = json.dumps({"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    texts = [ROLE, *(text_chunk("word ") for _ in range(500))]
    end = b"data: " + json.dumps({"id": "c", "choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"
    play = stream_chunks(*texts, end) if stream else fixed_reply(200, whole)
    async with raw_upstream(play) as upstream, running_proxy(upstream.url, metrics=True) as url:
        await post_chat(url, tools=False, stream=stream)
        _, found = await figures(url)

    assert 7 == found["fcshim_tokens_total", "input", "m", netloc(upstream)]
    assert 3 == found["fcshim_tokens_total", "output", "m", netloc(upstream)]
