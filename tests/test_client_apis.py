"""The client with upstreams of every API: native tools, tools in the prompt, and the choice between them."""

import json

import pytest

from fcshim import Client
from fcshim.codecs.anthropic.options import AnthropicClientOptions
from fcshim.codecs.gemini.options import GeminiClientOptions
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.config import Secret
from fcshim.errors import ConfigError, UpstreamError
from fcshim.events import Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request
from fcshim.upstream import api_url, key_header
from tests.scripted import Script, model_list, scripted_upstream
from tests.server.test_api_pairs import IDENTITY, reply_script

CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</function_call>'
TOOLS = [{"name": "add", "parameters": {"type": "object", "properties": {"a": {}, "b": {}}}}]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def native_call(*before):
    arguments = '{"a":1,"b":2}'
    called = [
        ToolCallStart("call_1", "add", 0),
        ToolCallChunk("call_1", arguments, 0),
        ToolCallEnd("call_1", "add", arguments, 0),
    ]
    return [*before, *called, Usage(7, 5), Stop("tool_use")]


@pytest.mark.parametrize("kind", UPSTREAMS.values(), ids=lambda kind: kind.name)
async def test_the_loop_runs_on_native_tools(kind):
    scripts = [
        reply_script(kind.codec, native_call(), 9),
        reply_script(kind.codec, [Text("3"), Usage(9, 1), Stop("complete")], 9),
    ]
    async with (
        scripted_upstream(*scripts) as upstream,
        # The scripted counts are not those of the prompt, which llama-server would be asked to count.
        Client(upstream.url, api=kind.name, tools="native", model="m", api_key="secret", cut_prompt="off") as client,
    ):
        reply = await client.run("1 + 2?", [add])

    name, value = key_header(kind, b"secret")

    assert "3" == reply.text
    assert (16, 6) == (reply.usage.input_tokens, reply.usage.output_tokens)
    assert [value.decode()] * 2 == [received.headers[name.decode()] for received in upstream.requests]
    assert "add" in json.dumps(upstream.requests[0].body["tools"])
    assert "3" in json.dumps(upstream.requests[1].body)


@pytest.mark.parametrize("kind", UPSTREAMS.values(), ids=lambda kind: kind.name)
async def test_with_tools_in_the_prompt_no_api_gets_tools(kind):
    script = reply_script(kind.codec, [Text(CALL), Usage(7, 5), Stop("complete")], 9)
    async with (
        scripted_upstream(script) as upstream,
        Client(upstream.url, api=kind.name, tools="prompt", model="m") as client,
    ):
        reply = await client.complete("1 + 2?", TOOLS)

    assert [{"a": 1, "b": 2}] == [json.loads(call.tool_call_arguments_complete) for call in reply.tool_calls]
    assert not upstream.requests[0].body.get("tools")


@pytest.mark.parametrize(("kind", "word"), [("anthropic", "signature"), ("gemini", "thoughtSignature")])
async def test_signatures_are_sent_back_to_the_provider(kind, word):
    codec = UPSTREAMS[kind].codec
    signed = native_call(Reasoning("hm", "c2ln"))
    scripts = [Script((thinking(codec, signed),)), reply_script(codec, [Text("3"), Usage(9, 1), Stop("complete")], 9)]
    async with (
        scripted_upstream(*scripts) as upstream,
        Client(upstream.url, api=kind, tools="native", model="m") as client,
    ):
        await client.run("1 + 2?", [add])

    assert f'"{word}": "c2ln"' in json.dumps(upstream.requests[1].body)


def thinking(codec, events):
    """Write a stream with a codec, for a client that asked for reasoning."""
    options = {
        "anthropic": AnthropicClientOptions(thinking=True),
        "gemini": GeminiClientOptions(thoughts=True),
    }[codec.name]
    encoder = codec.encoder(Request(model="m", messages=(), stream=True, client_options=options), IDENTITY)
    return encoder.encode(0, events) + encoder.close()


async def test_auto_raises_other_errors_than_refused_tools():
    busy = Script((b'{"error":{"message":"slow down"}}',), status=429)
    async with (
        scripted_upstream(busy) as upstream,
        Client(upstream.url, api="anthropic", tools="auto", model="m") as client,
    ):
        with pytest.raises(UpstreamError, match="slow down"):
            await client.complete("1 + 2?", TOOLS)


async def test_the_first_model_is_the_default_in_every_api():
    listed = Script((b'{"models":[{"name":"models/g"}]}',))
    script = reply_script(UPSTREAMS["gemini"].codec, [Text("Hello"), Usage(1, 1), Stop("complete")], 9)
    async with scripted_upstream(listed, script) as upstream, Client(upstream.url, api="gemini") as client:
        assert "Hello" == (await client.complete("Hi")).text

    assert "/v1beta/models/g:streamGenerateContent?alt=sse" == upstream.requests[1].path


async def test_no_dialect_is_short_for_native_tools():
    script = reply_script(UPSTREAMS["openai"].codec, native_call(), 9)
    async with scripted_upstream(model_list("m"), script) as upstream, Client(upstream.url, dialect=None) as client:
        assert 1 == len((await client.complete("1 + 2?", TOOLS)).tool_calls)


def test_an_unknown_api_is_a_config_error():
    with pytest.raises(ConfigError, match="openai, llamacpp"):
        Client("http://127.0.0.1:9", api="smoke-signals")


@pytest.mark.parametrize(
    ("kind", "url", "expected"),
    [
        ("gemini", "https://g.example", "https://g.example/v1beta"),
        ("gemini", "https://g.example/v1", "https://g.example/v1"),
        ("ollama", "http://o.example:11434/", "http://o.example:11434"),
        ("anthropic", "https://a.example", "https://a.example/v1"),
    ],
)
def test_the_version_of_the_api_is_added_to_an_address(kind, url, expected):
    assert expected == api_url(url, UPSTREAMS[kind].version)


def test_a_key_is_sent_in_the_header_of_each_api():
    key = Secret("k").reveal().encode()

    assert (b"authorization", b"Bearer k") == key_header(UPSTREAMS["openai"], key)
    assert (b"x-goog-api-key", b"k") == key_header(UPSTREAMS["gemini"], key)
