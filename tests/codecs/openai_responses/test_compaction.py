"""A conversation that is compacted, and goes on from there."""

import json

import pytest

from fcshim.codecs.openai_responses import OPENAI_RESPONSES
from fcshim.messages import text_of
from tests.scripted import scripted_upstream, text_reply
from tests.server.proxy import http_client, running_proxy

PATH = "/v1/responses/compact"
SUMMARY = "Launch on Tuesday; support knows. Open: the invoice."
CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "2"}
INPUT = [
    {"role": "user", "content": "We launch on Tuesday."},
    CALL,
    RESULT,
    {"role": "assistant", "content": "Understood."},
    {"role": "user", "content": [{"type": "input_text", "text": "And the invoice?"}]},
]
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object"}}


async def post(upstream, *bodies, path=PATH, **settings):
    async with running_proxy(upstream.url, **settings) as url, http_client(url) as client:
        return [await client.post(path, json=body) for body in bodies]


async def test_a_compaction_has_the_users_messages_and_one_opaque_item():
    async with scripted_upstream(text_reply(SUMMARY)) as upstream:
        body = {"model": "m", "input": INPUT, "instructions": "Be brief.", "tools": [TOOL], "stream": True}
        (reply,) = await post(upstream, body)

    found = reply.json()
    *kept, item = found["output"]
    sent = upstream.requests[0].body["messages"]

    assert ("response.compaction", True, 15) == (
        found["object"],
        found["created_at"] > 0,
        found["usage"]["total_tokens"],
    )
    assert [
        ("user", [{"type": "input_text", "text": "We launch on Tuesday."}]),
        ("user", [{"type": "input_text", "text": "And the invoice?"}]),
    ] == [(each["role"], each["content"]) for each in kept]
    assert "compaction" == item["type"]
    assert "invoice" not in item["encrypted_content"]
    assert "tools" not in upstream.requests[0].body
    assert "Be brief." in sent[0]["content"]
    assert "Sum up the conversation" in sent[-1]["content"]


async def test_the_conversation_goes_on_from_its_compaction():
    async with (
        scripted_upstream(text_reply(SUMMARY), text_reply("On Monday.")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        compacted = (await client.post(PATH, json={"model": "m", "input": INPUT})).json()["output"]
        items = [*compacted, {"role": "user", "content": "When?"}]
        reply = await client.post("/v1/responses", json={"model": "m", "input": items})

    assert "On Monday." == reply.json()["output"][0]["content"][0]["text"]
    assert SUMMARY in json.dumps(upstream.requests[1].body["messages"])
    assert "When?" == upstream.requests[1].body["messages"][-1]["content"]


async def test_a_second_compaction_contains_the_first_once():
    async with (
        scripted_upstream(text_reply(SUMMARY), text_reply("All of it.")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        first = (await client.post(PATH, json={"model": "m", "input": INPUT})).json()["output"]
        second = (await client.post(PATH, json={"model": "m", "input": first})).json()["output"]

    assert ["message", "message", "compaction"] == [item["type"] for item in second]


async def test_a_stored_conversation_is_compacted_by_its_id():
    async with (
        scripted_upstream(text_reply("Fine."), text_reply(SUMMARY)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        first = (await client.post("/v1/responses", json={"model": "m", "input": "Launch!"})).json()
        reply = await client.post(PATH, json={"model": "m", "previous_response_id": first["id"]})

    assert "Launch!" == reply.json()["output"][0]["content"][0]["text"]
    assert "Fine." in json.dumps(upstream.requests[1].body["messages"])


async def test_without_a_model_or_a_summary_there_is_an_error():
    async with scripted_upstream(text_reply("")) as upstream:
        bodies = ({"input": "Hi"}, {"model": "m", "input": "Hi"})
        first, second = await post(upstream, *bodies, max_retries=0)

    assert (400, "model") == (first.status_code, first.json()["error"]["param"])
    assert (502, True) == (second.status_code, "no summary" in second.text)


@pytest.mark.parametrize("content", ["gAAAAA-of-another-server", "fcshim_1.???", "fcshim_1._w==", 5, None])
def test_items_of_other_servers_are_skipped(content):
    items = [{"type": "compaction", "encrypted_content": content}, {"role": "user", "content": "Hi"}]
    request = OPENAI_RESPONSES.decode_request(json.dumps({"model": "m", "input": items}).encode())

    assert ["Hi"] == [text_of(message.content) for message in request.messages]
