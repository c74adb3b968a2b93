import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from fcshim.demo.endpoint import ChatEndpoint
from fcshim.demo.generation import Engine, GenerationStatus
from fcshim.demo.serving import serve_app

SAY = {"model": "any", "messages": [{"role": "user", "content": "say hello world"}]}


class CountingEngine(Engine):
    """An engine that counts the generated tokens, and whose text has no end token."""

    generated = 0

    def generate(self, prompt: list[int], status: GenerationStatus, **options: Any) -> Iterator[str]:
        self._end_tokens = frozenset()
        for piece in super().generate(prompt, status, **options):
            self.generated += 1
            yield piece


@pytest.fixture
async def client(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(ChatEndpoint(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://tiny") as client:
        yield client


def chunks(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]

    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


async def test_an_unstreamed_reply_has_text_reason_and_usage(client: httpx.AsyncClient) -> None:
    reply = (await client.post("/v1/chat/completions", json=SAY)).json()
    choice, usage = reply["choices"][0], reply["usage"]

    assert choice["message"] == {"role": "assistant", "content": "hello world"}
    assert (choice["finish_reason"], reply["model"]) == ("stop", "fcshim-tiny")
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


async def test_a_streamed_reply_has_the_same_text(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/chat/completions", json=SAY | {"stream": True})
    first, *rest, last = chunks(response.text)

    assert response.headers["content-type"] == "text/event-stream"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in rest) == "hello world"
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")


async def test_usage_is_streamed_on_request(client: httpx.AsyncClient) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 1}
    response = await client.post("/v1/chat/completions", json=SAY | options)
    *_, last, usage = chunks(response.text)

    assert last["choices"][0]["finish_reason"] == "length"
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 1)


async def test_tools_change_nothing(client: httpx.AsyncClient) -> None:
    tools = [{"type": "function", "function": {"name": "say", "parameters": {}}}]
    plain = (await client.post("/v1/chat/completions", json=SAY)).json()
    offered = (await client.post("/v1/chat/completions", json=SAY | {"tools": tools, "tool_choice": "required"})).json()

    assert offered["choices"] == plain["choices"]
    assert offered["usage"] == plain["usage"]


@pytest.mark.parametrize("path", ["/health", "/v1/health"])
async def test_the_health_endpoint_reports_ok(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).json() == {"status": "ok"}


async def test_the_model_is_listed(client: httpx.AsyncClient) -> None:
    assert [model["id"] for model in (await client.get("/v1/models")).json()["data"]] == ["fcshim-tiny"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("GET", "/v1/chat/completions"), ("POST", "/v1/embeddings")]
)
async def test_other_paths_are_not_found(client: httpx.AsyncClient, method: str, path: str) -> None:
    response = await client.request(method, path)

    assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")


async def test_a_bad_request_has_the_error_format_of_llama_server(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/chat/completions", content=b"{")

    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_a_prompt_beyond_the_context_is_rejected(client: httpx.AsyncClient) -> None:
    long = {"messages": [{"role": "user", "content": "7 " * 5000}]}
    response = await client.post("/v1/chat/completions", json=long)
    error = response.json()["error"]

    assert (response.status_code, error["type"], error["n_ctx"]) == (400, "exceed_context_size_error", 4096)
    assert error["n_prompt_tokens"] > 4096


async def test_generation_stops_when_the_client_disconnects(engine: Engine) -> None:
    counting = CountingEngine.__new__(CountingEngine)
    counting.__dict__.update(engine.__dict__)
    async with serve_app(ChatEndpoint(counting)) as url, httpx.AsyncClient(trust_env=False) as client:
        async with client.stream("POST", f"{url}/v1/chat/completions", json=SAY | {"stream": True}) as response:
            async for _ in response.aiter_bytes():
                break
        before = 0
        async with asyncio.timeout(60):
            while before != counting.generated or not before:
                before = counting.generated
                await asyncio.sleep(0.3)

        assert before < 3000


async def test_concurrent_requests_do_not_mix(client: httpx.AsyncClient) -> None:
    words = ["rain", "snow", "tree", "house"]
    bodies = [{"messages": [{"role": "user", "content": f"say {word}"}]} for word in words]
    replies = await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for body in bodies))

    assert [reply.json()["choices"][0]["message"]["content"] for reply in replies] == words
