"""A reply ends with its API's own last event, also where the upstream leaves the body open."""

import asyncio
import json

import msgspec
import pytest

from fcshim.codecs.framing import WholeReplyEnd
from fcshim.codecs.reply_end import EndDetector
from fcshim.codecs.routes import CODECS
from fcshim.codecs.upstreams import UPSTREAMS
from fcshim.events import Event, Stop, Text, Usage
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.reply import Reply
from tests.scripted import ROLE, event, text_chunk
from tests.server.proxy import http_client, running_proxy
from tests.server.raw_upstream import SSE_HEAD, raw_upstream
from tests.server.test_api_pairs import IDENTITY, TOOLS, address

pytestmark = pytest.mark.security

REQUEST = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), stream=True, include_usage=True)
KINDS = [kind for kind in UPSTREAMS.values() if kind.name != "llamacpp"]  # which is like openai
NDJSON_HEAD = SSE_HEAD.replace(b"text/event-stream", b"application/x-ndjson")


def body_of(kind, events: list[Event]) -> bytes:
    encoder = kind.codec.encoder(REQUEST, IDENTITY)
    return encoder.encode(0, events) + encoder.close()


def left_open(kind, body: bytes, size: int):
    """Send a body in pieces of `size` bytes, and leave it open."""

    async def play(peer):
        await peer.send(NDJSON_HEAD if kind.name == "ollama" else SSE_HEAD)
        for start in range(0, len(body), size):
            await peer.chunk(body[start : start + size])
            await asyncio.sleep(0)
        await peer.hang()

    return play


async def post(url, codec, request, *, stream=True):
    outgoing = codec.encode_request(request)
    path, content = address(codec, outgoing.path), outgoing.body
    if not stream:
        path = path.replace(":streamGenerateContent?alt=sse", ":generateContent")
        content = json.dumps({**json.loads(content), "stream": False}).encode()
    headers = [*outgoing.headers, (b"content-type", b"application/json")]
    async with http_client(url) as client:
        return await client.post(path, content=content, headers=headers)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
@pytest.mark.parametrize(("size", "usage"), [(40, [Usage(3, 2)]), (100_000, [])], ids=["pieces", "one read, no usage"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", ["openai_chat", "anthropic", "gemini", "ollama", "openai_responses"])
@pytest.mark.parametrize("tools", [TOOLS, ()], ids=["tools", "plain"])
async def test_the_last_event_ends_the_reply(kind, size, usage, stream, client, tools):
    body = body_of(kind, [Text("All "), Text("of it."), *usage, Stop("complete")])
    request = Request(model="m", messages=REQUEST.messages, stream=True, tools=tools, include_usage=True)
    async with (
        raw_upstream(left_open(kind, body, size)) as upstream,
        running_proxy(upstream.url, upstream_api=kind.name, chunk_timeout=15, limit=14) as url,
    ):
        answer = await post(url, CODECS[client], request, stream=stream)

    assert 200 == answer.status_code
    assert "of it." in answer.text


@pytest.mark.parametrize("last", ["data: [DONE]", "data: [DONE]\n", "data:  [DONE] \n\n"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("tools", [TOOLS, ()], ids=["tools", "plain"])
async def test_the_last_event_needs_no_line_end(last, stream, tools):
    kind = UPSTREAMS["openai"]
    done = b"data: [DONE]\n\n"
    body = body_of(kind, [Text("All of it."), Stop("complete")]).removesuffix(done) + last.encode()
    request = Request(model="m", messages=REQUEST.messages, stream=True, tools=tools)
    async with (
        raw_upstream(left_open(kind, body, 100_000)) as upstream,
        running_proxy(upstream.url, chunk_timeout=15, limit=14) as url,
    ):
        answer = await post(url, CODECS["openai_chat"], request, stream=stream)

    assert 200 == answer.status_code
    assert "of it." in answer.text


JSON_HEAD = SSE_HEAD.replace(b"text/event-stream", b"application/json")


def whole_body(kind) -> bytes:
    reply = Reply(text='All of \\ {[ "it."', usage=Usage(3, 2), stop_reason="complete")
    return kind.codec.encode_reply(msgspec.structs.replace(REQUEST, stream=False), IDENTITY, [reply])


def whole_left_open(kind, size: int):
    body = whole_body(kind)

    async def play(peer):
        await peer.send(JSON_HEAD)
        for start in range(0, len(body), size):
            await peer.chunk(body[start : start + size])
            await asyncio.sleep(0)
        await peer.hang()

    return play


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
@pytest.mark.parametrize(("tools", "size", "stream"), [(TOOLS, 100_000, True), (TOOLS, 7, False), ((), 7, True)])
async def test_the_end_of_the_json_ends_a_whole_reply(kind, tools, size, stream):
    request = Request(model="m", messages=REQUEST.messages, stream=True, tools=tools)
    async with (
        raw_upstream(whole_left_open(kind, size)) as upstream,
        running_proxy(upstream.url, upstream_api=kind.name, chunk_timeout=15, limit=14) as url,
    ):
        answer = await post(url, CODECS["openai_chat"], request, stream=stream)

    assert 200 == answer.status_code
    assert "it." in answer.text


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_whole_reply_ends_with_its_last_byte(kind):
    body = whole_body(kind)
    for size in range(1, 20):
        end = WholeReplyEnd()
        pieces = [body[start : start + size] for start in range(0, len(body), size)]

        assert [False] * (len(pieces) - 1) + [True] == [end.feed(piece) for piece in pieces]


@pytest.mark.parametrize(
    "line",
    [
        '{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}',
        '{"choices":[{"message":{"content":"\\"finish_reason\\":\\"stop\\""}}]}',
        '{"object":"list","data":[{"embedding":[0.5]}]}',
        '{"choices":[{"message":{"content":"}]}"},"finish_reason":"stop"}]',
        '{"choices":[],"finish_reason":"stop"} and more',
    ],
)
def test_a_body_without_a_finish_reason_is_not_a_whole_reply(line):
    assert not WholeReplyEnd().feed(line.encode())
    assert not EndDetector(CODECS["openai_chat"], "application/json").feed(line.encode())


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_done_ends_a_reply_of_several_choices(stream):
    choices = [event(choices=[{"index": at, "delta": {"content": "x"}, "finish_reason": "stop"}]) for at in range(2)]
    body = ROLE + b"".join(choices) + b"data: [DONE]\n\n"
    request = Request(model="m", messages=REQUEST.messages, stream=True, tools=TOOLS, n=2)
    async with (
        raw_upstream(left_open(UPSTREAMS["openai"], body, 100)) as upstream,
        running_proxy(upstream.url, chunk_timeout=15, limit=14) as url,
    ):
        assert 200 == (await post(url, CODECS["openai_chat"], request, stream=stream)).status_code


async def test_a_body_that_ends_before_the_last_event_is_still_an_error():
    body = ROLE + text_chunk("Hi")

    async def cut(peer):
        await peer.send(SSE_HEAD)
        await peer.chunk(body)
        await peer.send(b"0\r\n\r\n")

    async with raw_upstream(cut) as upstream, running_proxy(upstream.url) as url:
        request = Request(model="m", messages=REQUEST.messages, stream=True, tools=TOOLS)
        answer = await post(url, CODECS["openai_chat"], request)

    assert "broke off" in answer.text
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize(
    "text",
    [
        '"finishReason":"STOP"',
        '{"type":"message_stop"}',
        "[DONE]",
        "data: [DONE]\n\n",
        '{"type":"response.completed","response":{}}',
        '{"done":true}\n',
        '"error"',
    ],
)
def test_the_models_text_does_not_end_the_reply(codec, text):
    encoder = codec.encoder(REQUEST, IDENTITY)
    content_type = "application/x-ndjson" if codec.name == "ollama" else "text/event-stream; charset=utf-8"
    detector = EndDetector(codec, content_type)

    assert not detector.feed(encoder.encode(0, [Text(text), Text("more")]))
    assert detector.feed(encoder.encode(0, [Usage(1, 1), Stop("complete")]) + encoder.close())
