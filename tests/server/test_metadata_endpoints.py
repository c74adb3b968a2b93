"""Token counts: by the engine itself, by its template and tokenizer, or by an estimate. Models and their aliases."""

import json

import pytest

from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.config import ModelOverrides
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.server.metadata_endpoints import count_tokens
from fcshim.upstream import Upstream
from tests.scripted import Script, scripted_upstream
from tests.server.proxy import http_client, running_proxy

HELLO = Request(model="m", messages=(UserMessage((TextPart("x" * 40),)),))
NOTHING = Script((b"{}",), status=404)


def page(value, status=200):
    return Script((json.dumps(value).encode(),), status=status)


async def counted(*scripts, kind="openai"):
    async with scripted_upstream(*scripts) as upstream, Upstream(upstream.url, kind=UPSTREAMS[kind]) as asked:
        return await count_tokens(HELLO, asked), [each.path for each in upstream.requests]


async def test_the_engines_own_count_is_used():
    assert ((7, True), ["/v1/chat/completions/input_tokens"]) == await counted(page({"input_tokens": 7}))


async def test_an_older_engine_renders_and_tokenizes_the_prompt():
    found, paths = await counted(NOTHING, page({"prompt": "<|im_start|>..."}), page({"tokens": [1, 2, 3]}))

    assert (3, True) == found
    assert ["/apply-template", "/tokenize"] == paths[1:]


@pytest.mark.parametrize(
    "scripts",
    [
        (NOTHING, NOTHING),
        (page({"input_tokens": "many"}), page({"prompt": 5})),
        (page([]), page({"prompt": "p"}), page({"tokens": 3})),
        (Script((b"{",)), Script((b"[" * 5000,))),
    ],
)
async def test_without_any_count_it_is_an_estimate(scripts):
    found, _ = await counted(*scripts)

    assert (10, False) == found


async def test_an_unreachable_or_other_upstream_gives_an_estimate():
    async with Upstream("http://127.0.0.1:9") as away:
        assert (10, False) == await count_tokens(HELLO, away)
    assert ((10, False), []) == await counted(kind="gemini")


LISTED = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "x", "meta": {"n_ctx_train": 9000}}]}
ALIASES = {"gpt-9": ModelOverrides(upstream_model="m"), "gpt-*": ModelOverrides(upstream_model="m")}


async def fetched(path, pages=None, *, headers=None, body=None, **settings):
    """Ask a proxy in front of an upstream that serves these pages; return its answer."""
    pages = {"/v1/models": page(LISTED), **(pages or {})}
    async with (
        scripted_upstream(NOTHING, pages=pages) as upstream,
        running_proxy(upstream.url, **settings) as url,
        http_client(url) as client,
    ):
        return await client.request("POST" if body else "GET", path, headers=headers, json=body)


@pytest.mark.parametrize(
    ("path", "headers", "names"),
    [
        ("/v1/models", {}, lambda found: [each["id"] for each in found["data"]]),
        ("/v1/models", {"anthropic-version": "1"}, lambda found: [each["id"] for each in found["data"]]),
        ("/v1beta/models", {}, lambda found: [each["displayName"] for each in found["models"]]),
        ("/api/tags", {}, lambda found: [each["name"] for each in found["models"]]),
        ("/api/ps", {}, lambda found: [each["name"] for each in found["models"]]),
        ("/api/v0/models", {}, lambda found: [each["id"] for each in found["data"]]),
        ("/fcshim/models", {}, lambda found: [each["model"] for each in found]),
    ],
)
async def test_every_list_of_models_has_the_aliases_of_the_settings(path, headers, names):
    response = await fetched(path, headers=headers, models=ALIASES)

    assert ["m", "gpt-9"] == names(response.json())


async def test_an_alias_in_openais_list_is_a_copy_of_its_model():
    response = await fetched("/v1/models", models=ALIASES)
    alias = await fetched("/v1/models/gpt-9", models=ALIASES)

    assert [*LISTED["data"], LISTED["data"][0] | {"id": "gpt-9"}] == response.json()["data"]
    assert "gpt-9" == alias.json()["id"]


@pytest.mark.parametrize("model", ["m", "m:latest", "gpt-9"])
@pytest.mark.parametrize(
    ("pages", "length"),
    [
        ({}, 9000),
        ({"/props": page({"default_generation_settings": {"n_ctx": 512}})}, 512),
        ({"/api/v0/models/m": page({"id": "m", "loaded_context_length": 2048, "max_context_length": 9999})}, 2048),
        ({"/api/v0/models/m": page({"id": "m", "max_context_length": 9999})}, 9999),
        ({"/api/v0/models/m": page("x"), "/props": Script((b"<html>",))}, 9000),
    ],
)
async def test_the_context_length_is_that_of_the_upstream(model, pages, length):
    response = await fetched("/api/show", pages, body={"model": model}, models=ALIASES)

    assert length == response.json()["model_info"]["llama.context_length"]


async def test_the_properties_of_a_server_with_several_models_are_not_used():
    pages = {
        "/v1/models": page({"data": [{"id": "m"}, {"id": "n"}]}),
        "/props": page({"default_generation_settings": {"n_ctx": 512}}),
    }
    response = await fetched("/api/show", pages, body={"model": "m"})

    assert "llama.context_length" not in response.json()["model_info"]


async def test_the_context_length_of_an_ollama_is_in_its_own_page():
    shown = page({"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "vision"]})
    tags = page({"models": [{"name": "m:latest"}]})
    async with (
        scripted_upstream(respond=lambda asked: tags if asked.method == "GET" else shown) as upstream,
        running_proxy(upstream.url, upstream_api="ollama") as url,
        http_client(url) as client,
    ):
        response = await client.post("/api/show", json={"model": "m"})

    assert 40960 == response.json()["model_info"]["llama.context_length"]
    assert ["completion", "tools", "vision"] == response.json()["capabilities"]
    assert {"model": "m:latest"} == upstream.requests[-1].body


async def test_lm_studios_list_says_that_models_call_tools():
    response = await fetched("/api/v0/models")
    one = await fetched("/api/v0/models/m", {"/props": page({"default_generation_settings": {"n_ctx": 512}})})
    missing = await fetched("/api/v0/models/other")

    (model,) = response.json()["data"]
    assert ("m", "llm", "loaded", 9000, ["tool_use"]) == (
        *(model[name] for name in ("id", "type", "state", "max_context_length", "capabilities")),
    )
    assert 512 == one.json()["loaded_context_length"]
    assert (404, "model 'other' not found") == (missing.status_code, missing.json()["error"]["message"])


async def test_a_refused_method_is_answered_with_those_that_the_path_has():
    async with running_proxy("http://127.0.0.1:9") as url, http_client(url) as client:
        response = await client.get("/api/show")
        tags = await client.post("/api/tags", json={})

    assert (405, "POST") == (response.status_code, response.headers["allow"])
    assert (405, "GET, HEAD") == (tags.status_code, tags.headers["allow"])
    assert "GET is not allowed at '/api/show'; use POST" == response.json()["error"]
