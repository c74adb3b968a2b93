"""Ids of requests in responses, errors and logs; logs as JSON; liveness and readiness."""

import io
import json
import logging

import pytest

from fcshim.config import Secret
from fcshim.sanitize import SanitizingFormatter
from fcshim.server.request_log import JsonFormatter, RequestFormatter
from tests.server.proxy import CHAT, chat_body, http_client, post_chat, running_inspector, running_proxy
from tests.server.raw_upstream import fixed_reply, raw_reply, raw_upstream, stream_texts

CHAT_PATHS = [CHAT, "/v1/messages", "/v1/responses", "/v1beta/models/m:generateContent", "/api/chat"]


@pytest.mark.parametrize("given", ["abc", "7e2f:1/2=@+a.b_c-d", "x" * 128])
async def test_the_clients_id_is_kept(given, caplog):
    caplog.set_level(logging.INFO)
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, headers={"X-Request-Id": given})

    assert given == response.headers["x-request-id"]
    assert {given} == {record.request_id for record in caplog.records if record.name == "fcshim.server"}


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "\u00e9".encode(), "a\tb", "{}", "<b>", "-", '"'])
async def test_another_id_is_replaced(given):
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, headers={"X-Request-Id": given})

    assert response.headers["x-request-id"].startswith("req_")


async def test_made_ids_differ():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        ids = {(await post_chat(url)).headers["x-request-id"] for _ in range(3)}

    assert 3 == len(ids)


@pytest.mark.parametrize("path", CHAT_PATHS)
async def test_each_error_has_the_id(path):
    async with (
        raw_upstream(raw_reply(b"")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.post(path, json={"model": 1}, headers={"x-request-id": "mine"})

    assert response.status_code >= 400
    assert ("mine", "mine") == (response.headers["x-request-id"], response.json()["request_id"])


async def test_a_relayed_reply_has_both_ids():
    async with (
        raw_upstream(fixed_reply(200, b"{}", "X-Request-Id: theirs")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.get("/v1/files", headers={"x-request-id": "mine"})

    assert ("mine", "theirs") == (response.headers["x-request-id"], response.headers["x-upstream-request-id"])


@pytest.fixture
def lines():
    """Attach a handler with a formatter; its lines."""
    root, level = logging.getLogger(), logging.getLogger().level
    attached = []

    def attach(formatter):
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        attached.append(handler)
        return stream

    yield attach
    for handler in attached:
        root.removeHandler(handler)
    root.setLevel(level)


async def test_a_log_as_json_names_the_request_in_each_line_of_it(lines):
    stream = lines(JsonFormatter())
    play = fixed_reply(500, b'{"error": "no \\u2028 \\u001b[2J"}')
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        await post_chat(url, headers={"x-request-id": "mine"})
    text = stream.getvalue()
    records = [json.loads(line) for line in text.splitlines()]
    last = next(each for each in records if each.get("status"))

    assert text.isascii()
    assert ("mine", "POST", CHAT, 502) == (last["request_id"], last["method"], last["path"], last["status"])
    assert {"time", "level", "logger", "message"} <= set(last)
    assert {"mine"} == {each["request_id"] for each in records if each["logger"].startswith("fcshim.")}


async def test_a_line_of_text_ends_with_the_id(lines):
    stream = lines(RequestFormatter("%(message)s"))
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        await post_chat(url, headers={"x-request-id": "mine"})

    assert [line for line in stream.getvalue().splitlines() if line.startswith("POST") and line.endswith(" [mine]")]


def test_an_exception_stays_in_one_line_of_json():
    error = ValueError("a\nb")
    info = (ValueError, error, None)
    record = logging.LogRecord("x", logging.ERROR, "", 0, "failed %s", ("a\nb",), info)
    line = JsonFormatter().format(record)

    assert isinstance(JsonFormatter(), SanitizingFormatter)
    assert "\n" not in line
    assert "failed a\nb" == json.loads(line)["message"]
    assert "ValueError: a\nb" in json.loads(line)["exception"]


SECRETS = {
    "headers": {"Authorization": "Bearer canary-one-1", "X-Custom-Token": "canary-two-2", "Cookie": "s=canary-three-3"},
    "query": "?key=canary-four-4&access_token=canary-five-5",
    "body": {"api_key": "canary-six-6", "metadata": {"clientSecret": "canary-seven-7", "password": "canary-eight-8"}},
}


async def test_no_credential_of_a_request_is_logged_where_the_upstream_quotes_all_of_it(caplog, lines):
    caplog.set_level(logging.DEBUG)
    stream = lines(JsonFormatter())
    quoted = json.dumps([*SECRETS["headers"].values(), SECRETS["query"], SECRETS["body"]])
    body = json.dumps({"error": {"message": quoted}}).encode()
    async with (
        raw_upstream(fixed_reply(400, body)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        for tools in (True, False):
            document = chat_body(tools=tools, **SECRETS["body"])
            answer = await client.post(CHAT + SECRETS["query"], json=document, headers=SECRETS["headers"])

    assert "canary-eight-8" in answer.text
    assert "fcshim.server" in stream.getvalue()
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert "canary" not in str([each for each in records if "request_id" in each])
    assert "canary" not in str([each.getMessage() for each in caplog.records if each.name.startswith("fcshim")])


async def test_health_reports_that_the_process_lives_under_any_host_name():
    async with running_proxy("http://127.0.0.1:9") as url, http_client(url) as client:
        response = await client.get("/health", headers={"Host": "10.1.2.3:8181"})

    assert 200 == response.status_code


@pytest.mark.parametrize(
    ("play", "status"),
    [
        (fixed_reply(200, b'{"data": []}'), 200),
        (fixed_reply(401, b"{}"), 200),
        (fixed_reply(404, b""), 200),
        (fixed_reply(503, b'{"error": {"message": "Loading model"}}'), 503),
        (raw_reply(b""), 503),
    ],
)
async def test_ready_while_the_upstream_answers(play, status):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url, http_client(url) as client:
        first = await client.get("/ready")
        asked = len(upstream.requests)
        second = await client.get("/ready")

    assert (status, status) == (first.status_code, second.status_code)
    assert 1 <= asked == len(upstream.requests)
    assert (status == 503) == ("reason" in first.json())


async def test_a_probe_without_a_key_gets_the_status_of_the_upstream_but_not_the_reason():
    key = {"authorization": "Bearer canary-proxy"}
    async with (
        raw_upstream(fixed_reply(503, b"{}")) as upstream,
        running_proxy(upstream.url, host="0.0.0.0", api_keys=(Secret("canary-proxy"),)) as url,
        http_client(url) as client,
    ):
        answers = [await client.get(path) for path in ("/ready", "/health", "/metrics")]
        others = [await client.request(method, "/ready") for method in ("HEAD", "POST", "DELETE")]
        wrong = await client.get("/ready", headers={"authorization": "Bearer wrong"})
        known = await client.get("/ready", headers=key)

    assert [503, 200, 401] == [answer.status_code for answer in answers]
    assert [503, 401, 401] == [answer.status_code for answer in others]
    assert {"status": "unavailable"} == answers[0].json() == wrong.json()
    assert "status 503" in known.json()["reason"]


async def test_what_the_inspectors_page_asks_for_is_logged_only_where_it_fails(caplog):
    caplog.set_level(logging.INFO, "fcshim.server")
    paths = ("/fcshim/", "/fcshim/main.js", "/fcshim/api/requests", "/fcshim/api/requests/9", "/fcshim/nothing")
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_inspector(upstream.url) as (_, url),
        http_client(url) as client,
    ):
        found = [(await client.get(path)).status_code for path in paths]
    lines = [record.getMessage() for record in caplog.records if record.name == "fcshim.server"]

    assert [200, 200, 200, 404, 404] == found
    logged = [line.split()[1] for line in lines if line.startswith("GET ")]
    assert ["/fcshim/api/requests/9", "/fcshim/nothing"] == logged


async def test_only_probes_that_fail_are_logged(caplog):
    caplog.set_level(logging.INFO, "fcshim.server")
    async with (
        raw_upstream(fixed_reply(200, b'{"data": []}')) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        healthy = [(await client.get(path)).status_code for path in ("/ready", "/health")]
    async with running_proxy("http://127.0.0.1:9") as url, http_client(url) as client:
        failed = (await client.get("/ready")).status_code
    lines = [record.getMessage() for record in caplog.records if record.name == "fcshim.server"]

    assert ([200, 200], 503) == (healthy, failed)
    assert ["GET /ready 503"] == [line[:14] for line in lines if line.startswith("GET ")]
