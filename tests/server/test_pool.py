"""Several upstreams in one proxy: which one serves a request, what happens when one fails, what clients can see."""

import asyncio
import contextlib
import json
import re

import pytest

from fcshim.config import Config, ModelOverrides, Secret, UpstreamConfig
from fcshim.server.app import create_app
from tests.scripted import ROLE, text_chunk
from tests.server.proxy import http_client, post_chat, running_proxy, stream_documents, streamed_text
from tests.server.raw_upstream import (
    fixed_reply,
    hang,
    raw_upstream,
    reset,
    stream_texts,
    stream_then,
)

DEAD = "http://127.0.0.1:9"
"""The port of `discard`, on which nothing listens."""


class Engine:
    """The handler of an upstream that lists `models` and answers every other request with `reply`."""

    def __init__(self, text: str, *models: str, reply=None) -> None:
        self._models = fixed_reply(
            200, json.dumps({"object": "list", "data": [{"id": name} for name in models]}).encode()
        )
        self._reply = reply or stream_texts(text)
        self.upstream = None

    async def __call__(self, peer) -> None:
        latest = self.upstream.requests[-1]
        await (self._models if latest.request_line.startswith("GET") else self._reply)(peer)

    @property
    def posts(self) -> list:
        return [each for each in self.upstream.requests if each.request_line.startswith("POST")]


@contextlib.asynccontextmanager
async def running_pool(*, models=None, sections=None, general=None, **engines):
    """Serve fcshim in front of these engines, or addresses, by the names of their sections."""
    async with contextlib.AsyncExitStack() as stack:
        upstreams = {}
        for name, engine in engines.items():
            url = engine
            if isinstance(engine, Engine):
                engine.upstream = await stack.enter_async_context(raw_upstream(engine))
                url = engine.upstream.url
            upstreams[name] = UpstreamConfig(url=url, **(sections or {}).get(name, {}))
        rows = {
            pattern: ModelOverrides(upstream=row) if isinstance(row, str | list) else row
            for pattern, row in (models or {}).items()
        }
        yield await stack.enter_async_context(
            running_proxy("http://unused", upstreams=upstreams, models=rows, **(general or {}))
        )


async def ask(url: str, model: str, **fields) -> str:
    response = await post_chat(url, model=model, **fields)

    assert 200 == response.status_code, response.text

    return streamed_text(stream_documents(response))


async def test_the_row_of_a_model_the_prefix_and_the_lists_choose_the_upstream():
    a, b = Engine("from a", "llama", "shared"), Engine("from b", "qwen", "shared")
    rows = {"claude-*": "b", "fast": ModelOverrides(upstream="b", upstream_model="qwen")}
    async with running_pool(a=a, b=b, models=rows) as url:
        answers = [
            await ask(url, name) for name in ("claude-x", "fast", "b/llama", "a/qwen", "qwen", "llama", "shared", "new")
        ]

    assert ["from b", "from b", "from b", "from a", "from b", "from a", "from a", "from a"] == answers
    assert ["claude-x", "qwen", "llama", "qwen"] == [each.json_body["model"] for each in b.posts]
    assert ["qwen", "llama", "shared", "new"] == [each.json_body["model"] for each in a.posts]


async def test_a_relayed_request_goes_to_the_same_upstream_under_its_own_name():
    a, b = Engine("a"), Engine("b", reply=fixed_reply(200, b'{"object":"list"}'))
    async with running_pool(a=a, b=b) as url, http_client(url) as client:
        await client.post("/v1/embeddings", json={"model": "b/e5", "input": "x"})
        await client.post("/v1/audio/transcriptions", data={"model": "b/whisper"}, files={"file": b"sound"})

    assert not a.posts
    assert {"model": "e5", "input": "x"} == b.posts[0].json_body
    assert b"b/whisper" in b.posts[1].body


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"model": "b/x", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
        ("/v1/responses", {"model": "b/x", "input": "Hi"}),
        ("/v1beta/models/b/x:generateContent", {"contents": [{"parts": [{"text": "Hi"}]}]}),
        ("/api/chat", {"model": "b/x", "messages": [{"role": "user", "content": "Hi"}], "stream": False}),
    ],
)
async def test_every_client_api_names_an_upstream_by_the_prefix(path, body):
    a, b = Engine("from a"), Engine("from b")
    async with running_pool(a=a, b=b, models={"*": "a"}) as url, http_client(url) as client:
        response = await client.post(path, json=body)

    assert "from b" in response.text
    assert "x" == b.posts[0].json_body["model"]
    assert not a.posts


async def test_descriptions_and_counts_come_from_the_upstream_that_has_the_model():
    a = Engine("a", "llama", "shared")
    b = Engine("b", "shared", "qwen", reply=fixed_reply(200, b'{"input_tokens":7}'))
    async with running_pool(a=a, b=b) as url, http_client(url) as client:
        shown = [await client.post("/api/show", json={"model": name}) for name in ("b/shared", "qwen", "nothing")]
        body = {"model": "b/shared", "messages": [{"role": "user", "content": "Hi"}]}
        counted = await client.post("/v1/messages/count_tokens", json=body)
        one = await client.get("/v1/models/b/shared")

    assert [200, 200, 404] == [each.status_code for each in shown]
    assert {"input_tokens": 7} == counted.json()
    assert "b/shared" == one.json()["id"]
    assert not a.posts


async def test_a_list_that_hangs_does_not_hold_up_a_known_model(monkeypatch):
    monkeypatch.setattr("fcshim.server.model_directory._LIST_TIMEOUT", 2.0)
    monkeypatch.setattr("fcshim.server.model_directory._FRESH", 0.0)
    async with raw_upstream(hang) as hanging, running_pool(slow=hanging.url, b=Engine("from b", "qwen")) as url:
        await ask(url, "qwen")
        monkeypatch.setattr("fcshim.server.model_directory._LIST_TIMEOUT", 600.0)
        answers = [await ask(url, "qwen") for _ in range(2)]

    assert ["from b"] * 2 == answers


async def test_a_prefix_that_is_part_of_a_models_name_stays_where_a_row_chose_the_upstream():
    nvidia = Engine("n")
    async with running_pool(other=Engine("o"), nvidia=nvidia, models={"nvidia/*": "nvidia"}) as url:
        await ask(url, "nvidia/nemotron")

    assert "nvidia/nemotron" == nvidia.posts[0].json_body["model"]


@pytest.mark.parametrize(
    ("path", "headers", "names"),
    [
        ("/v1/models", {}, lambda page: [each["id"] for each in page["data"]]),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, lambda page: [each["id"] for each in page["data"]]),
        ("/v1beta/models", {}, lambda page: [each["name"].removeprefix("models/") for each in page["models"]]),
        ("/api/tags", {}, lambda page: [each["model"].removesuffix(":latest") for each in page["models"]]),
    ],
)
async def test_every_client_gets_one_list_with_prefixes_only_where_they_are_needed(path, headers, names):
    a, b = Engine("a", "llama", "shared"), Engine("b", "qwen", "shared", "a/llama")
    async with running_pool(a=a, b=b, away=DEAD, models={"fast": "b"}) as url, http_client(url) as client:
        page = (await client.get(path, headers=headers)).json()

    assert {"fast", "llama", "a/shared", "qwen", "b/shared", "b/a/llama"} == set(names(page))


@pytest.mark.parametrize("tools", [True, False])  # through the shim, relayed
@pytest.mark.parametrize("fault", [reset, fixed_reply(503, b"{}"), fixed_reply(429, b"{}"), DEAD])
async def test_the_next_upstream_takes_over_where_the_first_is_unavailable_or_at_its_limit(fault, tools):
    first = fault if isinstance(fault, str) else Engine("", reply=fault)
    async with running_pool(first=first, second=Engine("from second"), models={"m": ["first", "second"]}) as url:
        assert "from second" == await ask(url, "m", tools=tools)


@pytest.mark.parametrize("tools", [True, False])
async def test_an_error_of_the_request_itself_is_not_tried_elsewhere(tools):
    second = Engine("from second")
    first = Engine("", reply=fixed_reply(400, b'{"error":{"message":"too long"}}'))
    async with running_pool(first=first, second=second, models={"m": ["first", "second"]}) as url:
        response = await post_chat(url, model="m", tools=tools)

    assert 400 == response.status_code
    assert not second.posts


@pytest.mark.parametrize("tools", [True, False])
async def test_nothing_is_tried_elsewhere_once_the_client_has_a_byte(tools):
    second = Engine("from second")
    first = Engine("", reply=stream_then(ROLE, text_chunk("Here is half of it. "), then=reset))
    async with running_pool(first=first, second=second, models={"m": ["first", "second"]}) as url:
        response = await post_chat(url, model="m", tools=tools)

    assert "Here is" in response.text
    assert "from second" not in response.text
    assert "DONE" not in response.text
    assert not second.posts


async def test_the_last_upstream_has_the_last_word_in_the_clients_own_form():
    away = Engine("", reply=fixed_reply(503, b'{"error":{"message":"loading"}}', "retry-after: 7"))
    async with running_pool(first=DEAD, second=away, models={"m": ["first", "second"]}) as url:
        response = await post_chat(url, model="m")

    assert (503, "7") == (response.status_code, response.headers["retry-after"])
    assert "loading" in response.json()["error"]["message"]


async def test_a_full_upstream_hands_over_and_a_client_gets_503_when_all_are_full():
    first = Engine("", reply=hang)
    limits = {"first": {"max_concurrent": 1}, "second": {"max_concurrent": 1}}
    second = Engine("from second")
    async with running_pool(
        first=first, second=second, models={"m": ["first", "second"], "n": "first"}, sections=limits
    ) as url:
        waiting = asyncio.create_task(post_chat(url, model="m"))
        await first.upstream.request_received.wait()
        over = await ask(url, "m")
        full = await post_chat(url, model="n")
        waiting.cancel()
        await asyncio.wait([waiting])

    assert "from second" == over
    assert (503, "1") == (full.status_code, full.headers["retry-after"])
    assert "as many as it may" in full.json()["error"]["message"]


async def test_health_is_learned_from_requests_and_seen_by_ready_and_the_report():
    rows = {"m": ["first", "second"], "n": "first"}
    async with running_pool(
        first=DEAD, second=Engine("from second", "s"), models=rows, sections={"first": {"failures": 2}}
    ) as url:
        async with http_client(url) as client:
            before = (await client.get("/ready")).json()
            for _ in range(3):
                await ask(url, "m")
            after = await client.get("/ready")
            report = (await client.get("/fcshim/models")).json()
        refused = await post_chat(url, model="n")

    assert {"state": "ok"} == before["upstreams"]["first"]
    assert (200, "open") == (after.status_code, after.json()["upstreams"]["first"]["state"])
    assert ["first", "second"] == sorted({row["upstream"] for row in report})
    assert "open" in next(row["health"] for row in report if row["upstream"] == "first")
    assert 503 == refused.status_code
    assert 1 <= int(refused.headers["retry-after"]) <= 10


async def test_an_upstream_whose_streams_break_off_gets_no_more_requests():
    """Each of them has begun, which says little."""
    first = Engine("", reply=stream_then(ROLE, text_chunk("Half. "), then=reset))
    rows, sections = {"m": ["first", "second"]}, {"first": {"failures": 2}}
    async with running_pool(first=first, second=Engine("from second"), models=rows, sections=sections) as url:
        for _ in range(2):
            assert "Half" in (await post_chat(url, model="m")).text
        assert "from second" == await ask(url, "m")


async def test_a_credential_in_the_headers_of_an_upstream_is_masked_in_what_it_answers():
    reply = stream_texts("You sent sk-team-5f2b77 and blue-team-one.")
    headers = {"X-Team-Key": Secret("Key sk-team-5f2b77"), "X-Team": Secret("blue-team-one")}
    async with running_pool(only=Engine("", reply=reply), sections={"only": {"headers": headers}}) as url:
        assert f"You sent {14 * '*'} and blue-team-one." == await ask(url, "m")


async def test_ready_is_503_when_no_upstream_can_take_a_request():
    async with running_pool(only=DEAD, models={"m": "only"}, sections={"only": {"failures": 1}}) as url:
        await post_chat(url, model="m")
        async with http_client(url) as client:
            response = await client.get("/ready")

    assert (503, "unavailable") == (response.status_code, response.json()["status"])


async def test_a_probe_without_a_key_does_not_get_the_names_of_upstreams():
    general = {"host": "0.0.0.0", "api_keys": (Secret("k"),)}
    async with running_pool(hidden=DEAD, general=general) as url, http_client(url) as client:
        probed = await client.get("/ready")
        known = await client.get("/ready", headers={"authorization": "Bearer k"})

    assert (200, {"status": "ready"}) == (probed.status_code, probed.json())
    assert ["hidden"] == list(known.json()["upstreams"])


async def test_an_unlisted_model_is_never_sent_to_another_upstream_than_the_one_that_may_have_it():
    a = Engine("from a", "llama")
    async with running_pool(a=a, away=DEAD) as url:
        response = await post_chat(url, model="private")

    assert 503 == response.status_code
    assert "away" in response.json()["error"]["message"]
    assert not a.posts


async def test_each_upstream_gets_its_own_key_and_headers_and_never_the_clients():
    a, b = Engine("a"), Engine("b")
    sections = {"a": {"key": Secret("key-of-upstream-a")}, "b": {"headers": {"X-Team": Secret("blue")}}}
    async with running_pool(a=a, b=b, sections=sections, general={"api_keys": (Secret("proxy-key"),)}) as url:
        for name in ("a/m", "b/m"):
            await post_chat(
                url, model=name, tools=False, headers={"authorization": "Bearer proxy-key", "x-team": "red"}
            )

    assert "Bearer key-of-upstream-a" == a.posts[0].headers["authorization"]
    assert "red" == a.posts[0].headers["x-team"]
    assert "authorization" not in b.posts[0].headers
    assert "blue" == b.posts[0].headers["x-team"]


async def test_a_response_can_be_continued_with_another_upstream():
    a, b = Engine("from a"), Engine("from b")
    async with running_pool(a=a, b=b, general={"tools": "auto"}) as url, http_client(url) as client:
        first = (await client.post("/v1/responses", json={"model": "a/m", "input": "one"})).json()
        second = await client.post(
            "/v1/responses", json={"model": "b/m", "input": "two", "previous_response_id": first["id"]}
        )
        stored = await client.get(f"/v1/responses/{first['id']}")

    assert (200, 200) == (second.status_code, stored.status_code)
    assert "from a" in json.dumps(b.posts[-1].json_body)


async def test_one_upstream_stays_as_it_is():
    app = create_app(Config(upstream="http://127.0.0.1:9"))

    assert app.pool is None
    async with raw_upstream(stream_texts("hi")) as upstream, running_proxy(upstream.url) as url:
        assert "hi" == await ask(url, "a/b")
        async with http_client(url) as client:
            assert 200 == (await client.get("/ready")).status_code
    assert "a/b" == upstream.requests[0].json_body["model"]


async def test_the_status_page_and_the_metrics_name_the_upstreams_that_serve():
    a, b = Engine("from a", "qwen"), Engine("from b", "gemma")
    async with running_pool(a=a, b=b, general={"metrics": True}) as url, http_client(url) as client:
        await post_chat(url, model="gemma", tools=False)
        page = (await client.get("/", headers={"accept": "text/html"})).text
        figures = (await client.get("/metrics")).text

    assert "several upstreams at <code>a, b</code>" in page
    assert all(name in page for name in ("qwen", "gemma"))
    assert re.search(r'fcshim_requests_total\{[^}]*upstream="b"', figures)
