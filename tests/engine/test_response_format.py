"""Response formats with a random model on a real server: the text satisfies the client's schema, in every API."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fcshim import Client
from fcshim.schema.validate import first_violation
from tests.engine.llama_server import LlamaServer
from tests.engine.proxy import proxying
from tests.engine.test_constrained import in_turns
from tests.server.proxy import http_client

JSON = Any
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "size": {"enum": ["small", "large"]},
        "near": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 99}, "maxItems": 3},
    },
    "required": ["city", "size"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "strict": True,
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    },
}
HI = [{"role": "user", "content": "Hi"}]


async def test_text_is_the_requested_document(random_server: LlamaServer) -> None:
    async with Client(random_server.url) as client:
        ask = lambda seed: client.complete(f"Hi {seed}", response_format=FORMAT, max_tokens=400, seed=seed)  # noqa: E731
        replies = await in_turns(ask, 20)

    for reply in replies:
        assert "complete" == reply.stop_reason
        assert [] == list(Draft202012Validator(CITY).iter_errors(json.loads(reply.text)))


async def test_a_truncated_document_is_not_an_error(random_server: LlamaServer) -> None:
    """With its own `response_format`, llama-server answers 500 if the reply does not parse."""
    async with Client(random_server.url) as client:
        ask = lambda seed: client.complete(f"Hi {seed}", response_format=FORMAT, max_tokens=9, seed=seed)  # noqa: E731
        replies = await in_turns(ask, 20)

    assert {"max_tokens"} == {reply.stop_reason for reply in replies}


async def test_with_tools_there_are_documents_or_calls(random_server: LlamaServer) -> None:
    async with Client(random_server.url) as client:
        ask = lambda seed: client.complete(f"{seed}", [ADD], response_format=FORMAT, max_tokens=400, seed=seed)  # noqa: E731
        replies = await in_turns(ask, 30)

    for reply in replies:
        if reply.tool_calls:
            assert "tool_use" == reply.stop_reason
        else:
            assert [] == list(Draft202012Validator(CITY).iter_errors(json.loads(reply.text)))
        for call in reply.tool_calls:
            assert first_violation(ADD["function"]["parameters"], json.loads(call.tool_call_arguments_complete)) is None
    assert {True, False} == {bool(reply.tool_calls) for reply in replies}


async def test_text_with_a_strict_tool_streams_and_no_call_in_it_is_invalid(random_server: LlamaServer) -> None:
    async with Client(random_server.url) as client:
        replies = await in_turns(lambda seed: client.complete(f"{seed}", [ADD], max_tokens=60, seed=seed), 10)

    assert all(call.error is None for reply in replies for call in reply.tool_calls if reply.stop_reason == "tool_use")
    assert any(reply.text for reply in replies)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HI, "max_tokens": 400, "response_format": FORMAT}),
        (
            "/v1/responses",
            {
                "input": "Hi",
                "max_output_tokens": 400,
                "text": {"format": {"type": "json_schema", "name": "city", "schema": CITY}},
            },
        ),
        (
            "/v1/messages",
            {"messages": HI, "max_tokens": 400, "output_config": {"format": {"type": "json_schema", "schema": CITY}}},
        ),
        (
            "/v1beta/models/m:generateContent",
            {
                "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
                "generationConfig": {
                    "maxOutputTokens": 400,
                    "responseMimeType": "application/json",
                    "responseJsonSchema": CITY,
                },
            },
        ),
        ("/api/chat", {"messages": HI, "stream": False, "format": CITY, "options": {"num_predict": 400}}),
    ],
    ids=["chat", "responses", "anthropic", "gemini", "ollama"],
)
async def test_every_client_gets_its_document(
    random_server: LlamaServer, tmp_path_factory: pytest.TempPathFactory, path: str, body: JSON
) -> None:
    with proxying(random_server.url, tmp_path_factory.mktemp("proxy")) as url:
        async with http_client(url) as client:
            response = await client.post(path, json={"model": "m", **body})

    assert 200 == response.status_code, response.text
    documents = [text for text in _strings(response.json()) if text.startswith("{")]
    assert [] == list(Draft202012Validator(CITY).iter_errors(json.loads(documents[0])))


def _strings(value: JSON) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _strings(each)]
