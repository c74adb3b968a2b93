"""Connecting to an endpoint: detection of the API, the address and the model; errors that say what to do."""

import json

import pytest

from fcshim.config import Secret
from fcshim.errors import UpstreamError
from fcshim.evaluate.connect import connect
from fcshim.upstream import Timeouts
from tests.scripted import Script, model_list, scripted_upstream

PAGE = Script((b"<!doctype html><html><head><title>Welcome to nginx!</title></head></html>",))
LLAMA = Script((json.dumps({"data": [{"id": "m", "owned_by": "llamacpp"}]}).encode(),))
OLLAMA = Script((json.dumps({"data": [{"id": "nomic-embed-text"}, {"id": "qwen3"}]}).encode(),))
VERSION = Script((b'{"version":"0.12.6"}',))


async def connect_to(url, api=None, model="", key=None):
    return await connect(url, api, model, key, Timeouts(connect=2))


async def error_message(pages, path="", **options) -> str:
    async with scripted_upstream(pages=pages) as upstream:
        with pytest.raises(UpstreamError) as raised:
            await connect_to(upstream.url + path, **options)

    return raised.value.message.replace(upstream.url, "URL")


async def test_the_backend_decides_the_api():
    async with scripted_upstream(pages={"/v1/models": LLAMA}) as upstream:
        endpoint = await connect_to(f"{upstream.url}/v1")

    assert ("llama-server", "llamacpp", "m") == (endpoint.detection.backend.name, endpoint.kind.name, endpoint.model)
    assert f"{upstream.url}/v1" == endpoint.url


async def test_the_address_is_adapted_to_the_api_and_an_embedding_model_is_not_chosen():
    async with scripted_upstream(pages={"/v1/models": OLLAMA, "/api/version": VERSION}) as upstream:
        endpoint = await connect_to(f"{upstream.url}/v1")

    assert ("ollama", upstream.url, "qwen3") == (endpoint.kind.name, endpoint.url, endpoint.model)


async def test_a_given_api_is_kept():
    async with scripted_upstream(pages={"/v1/models": OLLAMA, "/api/version": VERSION}) as upstream:
        endpoint = await connect_to(f"{upstream.url}/v1", api="openai", model="other")

    assert ("openai", f"{upstream.url}/v1", "other") == (endpoint.kind.name, endpoint.url, endpoint.model)


async def test_a_given_model_needs_no_list_of_models():
    async with scripted_upstream(pages={}) as upstream:
        endpoint = await connect_to(upstream.url, model="m")

    assert ("generic", "m", ()) == (endpoint.detection.backend.name, endpoint.model, endpoint.model_names)


async def test_no_backend_is_detected_for_the_api_of_a_provider():
    listed = Script((b'{"data":[{"id":"claude","type":"model"}],"has_more":false}',))
    async with scripted_upstream(pages={"/v1/models": listed}) as upstream:
        endpoint = await connect_to(upstream.url, api="anthropic")

    assert ("generic", "claude") == (endpoint.detection.backend.name, endpoint.model)


@pytest.mark.parametrize(
    ("pages", "path", "expected"),
    [
        (
            {"/v1/models": PAGE},
            "",
            "URL/v1/models should list models, but answers a web page, 'Welcome to nginx!' (HTTP 200)",
        ),
        ({}, "", "answers a web page (HTTP 404). Is this the address of the API?"),
        ({"/v1/models": model_list("m")}, "/chat", "URL does list models: use that address"),
        ({"/v1/models": model_list("m")}, "/v1/chat/completions", "URL does list models: use that address"),
        ({"/v1/models": Script((b'{"error":"Unexpected endpoint"}',))}, "", "answers Unexpected endpoint (HTTP 200)"),
        ({"/v1/models": Script((b'{"error":{"message":"Loading model"}}',), 503)}, "", "not ready: try again later"),
        ({"/v1/models": model_list()}, "", "lists no models: load one there, or name one with --model"),
        (
            {"/v1/models": Script((b'{"error":"no"}',), 401)},
            "",
            "rejects the key (HTTP 401): set it with --upstream-key",
        ),
        ({"/v1/models": Script((b'{"data":',))}, "", 'answers {"data": (HTTP 200)'),
    ],
)
async def test_an_error_says_what_to_do(pages, path, expected):
    assert expected in await error_message(pages, path)


@pytest.mark.parametrize("status", [400, 403])
async def test_a_rejected_key_is_not_in_the_message(status):
    refused = {"/v1/models": Script((b'{"error":"wrong key secret-secret"}',), status)}

    assert "secret-secret" not in await error_message(refused, key=Secret("secret-secret"))


async def test_an_unreachable_endpoint_is_reported():
    with pytest.raises(UpstreamError, match=r"127.0.0.1:9.*cannot connect.*Is the server running"):
        await connect_to("http://127.0.0.1:9")
