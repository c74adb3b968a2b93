"""Bodies with very many JSON values: what is known is limited, what is not is forwarded as it came."""

import json
import logging

import pytest

from fcshim.codecs.body_fields import DENSE
from fcshim.codecs.routes import CODECS
from fcshim.config import ModelOverrides, UpstreamConfig
from tests.codecs.test_pairs import REQUEST
from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.proxy import CHAT, http_client, running_proxy
from tests.server.raw_upstream import raw_upstream, stream_chunks

pytestmark = pytest.mark.security

REPLY = stream_chunks(ROLE, text_chunk("Hi."), end_chunks())
NESTED = b"[ " + b",".join([b"[[[[]]]]"] * 30_000) + b" ]"
"""As dense as the body of 1 MB that took msgspec half a second; the blanks show whether it was written again."""
CONVERSATIONS = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
    "ollama": "messages",
}


async def post(codec, change, **settings):
    """Send a request of this API, changed by `change`; return the response and what the upstream got."""
    outgoing = codec.encode_request(REQUEST)
    path = outgoing.path[1:] if outgoing.path.startswith("//") else "/v1" + outgoing.path
    headers = {"content-type": "application/json", **dict(outgoing.headers)}
    async with (
        raw_upstream(REPLY) as upstream,
        running_proxy(upstream.url, tools="prompt", **settings) as url,
        http_client(url) as client,
    ):
        response = await client.post(path, content=change(outgoing.body), headers=headers)
    return response, [each.body for each in upstream.requests if each.request_line.startswith("POST /v1/chat")]


def with_field(name, value):
    """Return the function that adds a field to an object; `value` is JSON."""
    return lambda body: b'{"' + name.encode() + b'":' + value + b"," + body[1:]


def replaced(name, value):
    """Return the function that replaces a field."""
    return lambda body: with_field(name, value)(
        json.dumps({key: kept for key, kept in json.loads(body).items() if key != name}).encode()
    )


@pytest.mark.parametrize("value", [NESTED, b'{ "a" : 1.0e2 }'], ids=["dense", "small"])
async def test_an_unknown_field_reaches_the_upstream_as_it_came(value):
    response, sent = await post(CODECS["openai_chat"], with_field("metadata", value))

    assert 200 == response.status_code
    assert [True] == [b'"metadata":' + value in body for body in sent]


@pytest.mark.parametrize("name", CODECS)
async def test_an_unknown_field_with_very_many_values_is_no_reason_to_refuse_a_request(name):
    response, sent = await post(CODECS[name], with_field("x_unknown", NESTED))

    assert 200 == response.status_code
    assert 1 == len(sent)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    "value", [b"[" + b",".join([b"{}"] * 100_001) + b"]", b"[" + NESTED + b"]"], ids=["items", "an item"]
)
async def test_a_conversation_with_very_many_values_is_refused_in_the_form_of_its_api(name, value):
    codec, field = CODECS[name], CONVERSATIONS[name]
    response, sent = await post(codec, replaced(field, value))
    error = codec.decode_error(response.status_code, {}, response.content)

    assert 400 == response.status_code
    assert f"{field}:" in error.message
    assert "JSON values" in error.message
    assert [] == sent


@pytest.mark.parametrize("name", CODECS)
async def test_tools_with_very_many_values_are_refused(name):
    schema = b"[" + b",".join([b"[[[[]]]]"] * 8_000) + b"]"
    response, sent = await post(CODECS[name], replaced("tools", b'[{"parameters":' + schema + b"}]"))

    assert 400 == response.status_code
    assert "tools: item 0 has more than 30000 JSON values" in response.text
    assert [] == sent


@pytest.mark.parametrize("name", CODECS)
async def test_a_known_field_that_is_nested_very_deeply_is_refused(name):
    field = CONVERSATIONS[name]
    response, sent = await post(CODECS[name], replaced(field, b"[" * 200 + b"]" * 200))

    assert 400 == response.status_code
    assert f"{field}: nested deeper than 100 levels" in response.text
    assert [] == sent


@pytest.mark.parametrize("count", [2_000, DENSE + 1])
async def test_a_request_with_very_many_fields_is_refused(count):
    fields = b"".join(b'"x%d":0,' % at for at in range(count))
    response, sent = await post(CODECS["openai_chat"], lambda body: b"{" + fields + body[1:])

    assert 400 == response.status_code
    assert "the request body has more than 1000 fields" in response.text
    assert [] == sent


async def test_brackets_and_commas_in_strings_are_no_values():
    text = '[{,\\"\\\\' * 100_000
    response, sent = await post(
        CODECS["openai_chat"], replaced("messages", json.dumps([{"role": "user", "content": text}]).encode())
    )

    assert 200 == response.status_code
    assert text == json.loads(sent[0])["messages"][-1]["content"]


async def test_a_dense_body_that_is_no_json_is_refused():
    response, sent = await post(CODECS["openai_chat"], with_field("metadata", NESTED[:-1]))

    assert 400 == response.status_code
    assert "the request body is not valid JSON" in response.text
    assert [] == sent


async def test_a_body_that_is_relayed_to_one_of_several_upstreams_may_not_have_very_many_fields():
    fields = b"".join(b'"x%d":0,' % at for at in range(2_000))
    async with raw_upstream(REPLY, lists_models=False) as upstream:
        several = {
            "upstreams": {"a": UpstreamConfig(url=upstream.url)},
            "models": {"m": ModelOverrides(upstream="a", upstream_model="n")},
        }
        async with running_proxy("http://unused", **several) as url, http_client(url) as client:
            response = await client.post(
                "/v1/embeddings", content=b"{" + fields + b'"model":"m"}', headers={"content-type": "application/json"}
            )

    assert 400 == response.status_code
    assert "more than 1000 fields" in response.text


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "ollama"])
async def test_the_arguments_of_a_past_call_with_very_many_values_are_refused(name):
    arguments = json.dumps('{"a":' + "[]," * 40_000 + '"b":1}')
    call = b'"function":{"name":"f","arguments":' + arguments.encode() + b"}"
    message = b'[{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",' + call + b"}]}]"
    item = b'[{"type":"function_call","call_id":"1","name":"f","arguments":' + arguments.encode() + b"}]"
    field = CONVERSATIONS[name]
    response, sent = await post(CODECS[name], replaced(field, item if field == "input" else message))

    assert 400 == response.status_code
    assert "arguments: more than 30000 JSON values" in response.text
    assert [] == sent


@pytest.mark.parametrize("inner", [True, False], ids=["in a string", "in the body"])
async def test_a_line_of_the_log_about_a_dense_body_with_credentials_quotes_nothing_of_it(caplog, inner):
    dense = NESTED
    if inner:  # the brackets of the text are escaped
        dense = b'"' + b"\\u005b\\u002c" * 20_000 + b'token"'
    secret = b'{"api_key":"sk-unmasked-1","x":' + dense + b"}"
    with caplog.at_level(logging.INFO):
        response, _ = await post(
            CODECS["openai_chat"],
            lambda body: with_field("metadata", secret)(replaced("messages", b'[{"role":"sk-unmasked-1"}]')(body)),
        )
    (line,) = [record.getMessage() for record in caplog.records if record.name == "fcshim.server"]

    assert 400 == response.status_code
    assert line.startswith(f"POST {CHAT} 400 in ")
    assert "not shown: the request has too many values" in line
    assert "sk-unmasked-1" not in caplog.text
