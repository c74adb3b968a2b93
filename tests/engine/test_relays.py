"""Responses of a real llama-server, relayed unchanged through the proxy, including errors."""

from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.engine.llama_server import LlamaServer
from tests.engine.proxy import proxying

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
JSON = {"content-type": "application/json"}
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def direct(trained_server: LlamaServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=trained_server.url, trust_env=False, timeout=60) as http:
        yield http


@pytest.fixture(scope="module")
def proxied(proxy: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxy, trust_env=False, timeout=60) as http:
        yield http


def test_the_list_of_models_is_the_servers_own(direct: httpx.Client, proxied: httpx.Client) -> None:
    there, here = direct.get("/v1/models"), proxied.get("/v1/models")

    assert there.json()["data"][0]["id"] == here.json()["data"][0]["id"]
    assert there.headers["content-type"] == here.headers["content-type"]


def test_text_completions_and_embeddings_pass_through(direct: httpx.Client, proxied: httpx.Client) -> None:
    completion = {"prompt": "hello", "max_tokens": 8, "temperature": 0}
    there, here = (http.post("/v1/completions", json=completion).json() for http in (direct, proxied))

    assert there["choices"] == here["choices"]

    there, here = (http.post("/v1/embeddings", json={"input": "hello"}).json() for http in (direct, proxied))

    assert len(there["data"][0]["embedding"]) == len(here["data"][0]["embedding"]) > 0


def test_relayed_requests_right_after_one_another_all_get_through(proxied: httpx.Client) -> None:
    body = {"prompt": "hello", "max_tokens": 2, "stream": True}
    replies = [proxied.post("/v1/completions", json=body) for _ in range(30)]

    assert {200} == {reply.status_code for reply in replies}
    assert all(reply.text.endswith("data: [DONE]\n\n") for reply in replies)


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.parametrize("tools", [[], TOOLS])
def test_an_image_does_not_end_a_session_with_a_model_that_takes_none(
    direct: httpx.Client, proxied: httpx.Client, tools: list[dict]
) -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}, image]}]
    body = {"messages": messages, "max_tokens": 4, **({"tools": tools} if tools else {})}
    refused, *answered = (http.post("/v1/chat/completions", json=body) for http in (direct, proxied, proxied))

    assert "image input is not supported" in refused.text
    assert [200, 200] == [reply.status_code for reply in answered]


def test_an_empty_turn_is_written_as_the_server_takes_it(direct: httpx.Client, proxied: httpx.Client) -> None:
    body = {"messages": [*HELLO, {"role": "assistant"}, *HELLO], "max_tokens": 4}
    replies = [http.post("/v1/chat/completions", json=body).status_code for http in (direct, proxied)]

    assert [400, 200] == replies


def test_a_chat_without_tools_keeps_what_only_llama_server_says(proxied: httpx.Client) -> None:
    body = {"messages": HELLO, "max_tokens": 4}

    assert "timings" in proxied.post("/v1/chat/completions", json=body).json()


def test_an_unknown_route_gives_the_servers_own_answer(direct: httpx.Client, proxied: httpx.Client) -> None:
    there, here = direct.post("/v1/nope", json={}), proxied.post("/v1/nope", json={})

    assert (404, there.json()) == (here.status_code, here.json())


def test_a_malformed_body_is_the_clients_fault(proxied: httpx.Client) -> None:
    reply = proxied.post("/v1/chat/completions", content=b'{"messages": [', headers=JSON)

    assert (400, "invalid_request_error") == (reply.status_code, reply.json()["error"]["type"])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_too_long_is_openais_error(proxy: str, stream: bool) -> None:
    async with openai.AsyncOpenAI(base_url=f"{proxy}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": "hello " * 5000}],
                tools=TOOLS,
                stream=stream,
            )

    assert "context_length_exceeded" == caught.value.code


def test_a_grammar_that_the_server_refuses_is_a_bad_request(proxied: httpx.Client) -> None:
    reply = proxied.post(
        "/v1/chat/completions", json={"messages": HELLO, "tools": TOOLS, "stream": True, "grammar": "root ::= ("}
    )

    assert 400 == reply.status_code
    assert "grammar" in reply.json()["error"]["message"]


def test_an_unreachable_upstream_is_a_bad_gateway(tmp_path_factory: pytest.TempPathFactory) -> None:
    with proxying("http://127.0.0.1:9", tmp_path_factory.mktemp("gone")) as url:
        reply = httpx.post(f"{url}/v1/chat/completions", json={"messages": HELLO, "tools": TOOLS}, trust_env=False)

    assert 502 == reply.status_code
    assert "cannot connect" in reply.json()["error"]["message"]
