"""`/api/generate` with a suffix: every upstream that can fill in the middle is asked in its own way."""

import json

import pytest

from tests.scripted import Script, event, scripted_upstream
from tests.server.proxy import http_client, running_proxy

BODY = {
    "model": "m",
    "prompt": "def add(",
    "suffix": "    return a + b",
    "system": "Be kind.",
    "options": {"num_predict": 9, "temperature": 0, "stop": ["\n\n"], "top_k": 1},
}
INFILL = Script(
    (
        event(content="a, "),
        event(content="b):\n"),
        event(content="", stop=True, stop_type="limit", tokens_evaluated=7, tokens_predicted=5),
    )
)
COMPLETION = Script(
    (
        event(object="text_completion", choices=[{"index": 0, "text": "a, ", "finish_reason": None}]),
        event(object="text_completion", choices=[{"index": 0, "text": "b):\n", "finish_reason": "length"}]),
        event(object="text_completion", choices=[], usage={"prompt_tokens": 7, "completion_tokens": 5}),
        b"data: [DONE]\n\n",
    )
)
SAMPLING = {"temperature": 0, "stop": ["\n\n"], "top_k": 1, "stream": True, "model": "m"}


def owned(owner):
    return {"/v1/models": Script((json.dumps({"data": [{"id": "m", "owned_by": owner}]}).encode(),))}


async def generate(upstream, *, stream=False, body=BODY, **settings):
    async with running_proxy(upstream.url, **settings) as url, http_client(url) as client:
        return await client.post("/api/generate", json={**body, "stream": stream})


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("owner", "script"), [("llamacpp", INFILL), ("openai", COMPLETION), ("me", COMPLETION)])
async def test_the_text_between_prompt_and_suffix_comes_back(owner, script, stream):
    async with scripted_upstream(script, pages=owned(owner)) as upstream:
        reply = await generate(upstream, stream=stream)

    lines = [json.loads(line) for line in reply.text.splitlines()]

    assert 200 == reply.status_code
    assert "a, b):\n" == "".join(line["response"] for line in lines)
    assert (True, "length", 7, 5) == tuple(
        lines[-1][name] for name in ("done", "done_reason", "prompt_eval_count", "eval_count")
    )


async def test_llama_server_gets_an_infill_request():
    async with scripted_upstream(INFILL, pages=owned("llamacpp")) as upstream:
        await generate(upstream)

    (request,) = upstream.requests

    assert "/infill" == request.path
    assert {
        **SAMPLING,
        "input_prefix": "def add(",
        "input_suffix": "    return a + b",
        "prompt": "",
        "n_predict": 9,
    } == request.body


async def test_others_get_a_completion_request_with_a_suffix():
    async with scripted_upstream(COMPLETION, pages=owned("openai")) as upstream:
        await generate(upstream)

    (request,) = upstream.requests
    usage = {"stream_options": {"include_usage": True}}

    assert "/v1/completions" == request.path
    assert {**SAMPLING, **usage, "prompt": "def add(", "suffix": "    return a + b", "max_tokens": 9} == request.body


async def test_ollama_gets_the_request_itself():
    script = Script((b'{"response":"a, b):\\n","done":true}\n',))
    async with scripted_upstream(script) as upstream:
        reply = await generate(upstream, upstream_api="ollama")

    (request,) = upstream.requests

    assert script.pieces[0] == reply.content
    assert ("/api/generate", {**BODY, "stream": False}) == (request.path, request.body)


@pytest.mark.parametrize(
    ("settings", "owner", "said"),
    [
        ({}, "organization_owner", "the upstream (lmstudio)"),
        ({}, "sglang", "the upstream (sglang)"),
        ({"upstream_api": "anthropic"}, "", "the upstream's API (anthropic)"),
        ({"upstream_api": "gemini"}, "", "the upstream's API (gemini)"),
    ],
)
async def test_an_upstream_that_cannot_is_a_clear_error(settings, owner, said):
    async with scripted_upstream(pages=owned(owner)) as upstream:
        reply = await generate(upstream, **settings)

    assert 400 == reply.status_code
    assert f"suffix: {said} cannot fill in the middle of a text" in reply.json()["error"]
    assert [] == upstream.requests


async def test_a_refused_suffix_is_the_servers_own_error():
    error = Script((b'{"error":{"message":"suffix is not currently supported"}}',), status=400)
    async with scripted_upstream(error, pages=owned("vllm")) as upstream:
        reply = await generate(upstream)

    assert (400, True) == (reply.status_code, "suffix is not currently supported" in reply.json()["error"])


@pytest.mark.parametrize(("field", "value"), [("images", ["iVBORw0KAAAA"]), ("format", "json")])
async def test_a_text_has_no_images_and_no_format(field, value):
    async with scripted_upstream(pages=owned("llamacpp")) as upstream:
        reply = await generate(upstream, body={**BODY, field: value})

    assert (400, True) == (reply.status_code, reply.json()["error"].startswith(f"{field}: "))
