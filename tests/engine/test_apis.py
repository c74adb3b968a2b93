"""Every client API in front of a real llama-server, which itself speaks three of the APIs."""

import json

import pytest

from fcshim.codecs.routes import CODECS
from fcshim.messages import AssistantMessage, Request, TextPart, Tool, ToolCall, ToolMessage, UserMessage
from fcshim.reply import fold
from tests.server.proxy import http_client, running_proxy

ADD = Tool("add_numbers", "Add.", {"type": "object", "properties": {"first": {}, "second": {}}})
ASKED = UserMessage((TextPart("call add_numbers with first=19, second=23"),))


async def ask(url, codec, *messages):
    """Request a stream as a client of this API and return the folded reply."""
    outgoing = codec.encode_request(Request(model="m", messages=messages, tools=(ADD,), temperature=0))
    path = outgoing.path[1:] if outgoing.path.startswith("//") else "/v1" + outgoing.path
    headers = {"content-type": "application/json", **dict(outgoing.headers)}
    async with http_client(url) as client:
        response = await client.post(path, content=outgoing.body, headers=headers)
    decoder = codec.decoder()
    return fold(event for _, event in decoder.feed(response.content) + decoder.close())


@pytest.mark.parametrize("upstream_api", ["llamacpp", "responses", "anthropic"])
@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
async def test_a_call_and_its_result(trained_server, codec, upstream_api):
    # Through an API that says nothing about models, only the settings know the words on which this one was trained.
    style = {"tools": "prompt", "prompt_style": "own"}
    async with running_proxy(trained_server.url, upstream_api=upstream_api, **style) as url:
        (call,) = (await ask(url, codec, ASKED)).tool_calls
        arguments = call.tool_call_arguments_complete
        said = AssistantMessage((), (ToolCall(call.tool_call_id, call.tool_call_name, arguments),))
        answer = await ask(url, codec, ASKED, said, ToolMessage(call.tool_call_id, (TextPart("42"),), ADD.name))

    assert {"first": 19, "second": 23} == json.loads(arguments)
    assert call.error is None
    assert "add_numbers returned 42" in answer.text
    assert answer.error is None


async def test_embeddings_and_the_context_length_in_ollamas_api(trained_server):
    async with running_proxy(trained_server.url) as url, http_client(url) as client:
        found = (await client.post("/api/embed", json={"model": "m", "input": ["add", "add", "two"]})).json()
        older = (await client.post("/api/embeddings", json={"model": "m", "prompt": "add"})).json()
        own = (await client.post("/v1/embeddings", json={"model": "m", "input": "add"})).json()
        (name,) = [each["name"] for each in (await client.get("/api/tags")).json()["models"]]
        shown = (await client.post("/api/show", json={"model": name})).json()

    first, second, other = found["embeddings"]
    assert first == pytest.approx(own["data"][0]["embedding"])
    assert first == pytest.approx(second)
    assert first == pytest.approx(older["embedding"])
    assert first != pytest.approx(other)
    assert found["prompt_eval_count"] > 0
    assert trained_server.latest_tokens()[1] == shown["model_info"]["llama.context_length"]
