"""The first contact: whatever is wrong with an address is said with what to do about it."""

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


async def test_the_kind_of_server_says_which_api_is_spoken_with_it():
    async with scripted_upstream(pages={"/v1/models": LLAMA}) as upstream:
        contact = await connect_to(f"{upstream.url}/v1")

    assert ("llama-server", "llamacpp", "m") == (contact.detection.backend.name, contact.kind.name, contact.model)
    assert f"{upstream.url}/v1" == contact.url


async def test_where_the_api_has_another_path_the_address_is_put_right_and_no_embedding_model_is_examined():
    async with scripted_upstream(pages={"/v1/models": OLLAMA, "/api/version": VERSION}) as upstream:
        contact = await connect_to(f"{upstream.url}/v1")

    assert ("ollama", upstream.url, "qwen3") == (contact.kind.name, contact.url, contact.model)


async def test_an_api_that_is_named_is_kept():
    async with scripted_upstream(pages={"/v1/models": OLLAMA, "/api/version": VERSION}) as upstream:
        contact = await connect_to(f"{upstream.url}/v1", api="openai", model="other")

    assert ("openai", f"{upstream.url}/v1", "other") == (contact.kind.name, contact.url, contact.model)


async def test_a_model_that_is_named_needs_no_list():
    async with scripted_upstream(pages={}) as upstream:
        contact = await connect_to(upstream.url, model="m")

    assert ("generic", "m", ()) == (contact.detection.backend.name, contact.model, contact.model_names)


async def test_a_provider_is_taken_at_its_word():
    listed = Script((b'{"data":[{"id":"claude","type":"model"}],"has_more":false}',))
    async with scripted_upstream(pages={"/v1/models": listed}) as upstream:
        contact = await connect_to(upstream.url, api="anthropic")

    assert ("generic", "claude") == (contact.detection.backend.name, contact.model)


@pytest.mark.parametrize(
    ("pages", "path", "expected"),
    [
        (
            {"/v1/models": PAGE},
            "",
            "URL/v1/models should list models, but answers a web page, 'Welcome to nginx!' (HTTP 200)",
        ),
        ({}, "", "answers a web page (HTTP 404). Is this the address of the API?"),
        ({"/v1/models": model_list("m")}, "/chat", "URL does list models: give that address"),
        ({"/v1/models": model_list("m")}, "/v1/chat/completions", "URL does list models: give that address"),
        ({"/v1/models": Script((b'{"error":"Unexpected endpoint"}',))}, "", "answers Unexpected endpoint (HTTP 200)"),
        ({"/v1/models": Script((b'{"error":{"message":"Loading model"}}',), 503)}, "", "not ready: try again later"),
        ({"/v1/models": model_list()}, "", "lists no models: load one there, or name one with --model"),
        (
            {"/v1/models": Script((b'{"error":"no"}',), 401)},
            "",
            "wants another key (HTTP 401): give it with --upstream-key",
        ),
        ({"/v1/models": Script((b'{"data":',))}, "", 'answers {"data": (HTTP 200)'),
    ],
)
async def test_what_is_wrong_is_said_with_what_to_do(pages, path, expected):
    assert expected in await error_message(pages, path)


@pytest.mark.parametrize("status", [400, 403])
async def test_a_key_that_is_refused_is_not_repeated(status):
    refused = {"/v1/models": Script((b'{"error":"wrong key secret-secret"}',), status)}

    assert "secret-secret" not in await error_message(refused, key=Secret("secret-secret"))


async def test_nobody_there_is_said_so():
    with pytest.raises(UpstreamError, match=r"127.0.0.1:9.*cannot connect.*Is the server running"):
        await connect_to("http://127.0.0.1:9")
