"""The chat endpoint with tools, in front of an upstream with every kind of failure."""

import asyncio
import json

import pytest

from tests.scripted import ROLE, end_chunks, event, text_chunk
from tests.server.proxy import (
    CALL,
    CHAT,
    chat_body,
    http_client,
    post_chat,
    post_request,
    running_proxy,
    send_raw,
    stream_documents,
    streamed_text,
)
from tests.server.raw_upstream import (
    SSE_HEAD,
    fixed_reply,
    half_close,
    hang,
    http_chunk,
    paused_stream,
    raw_reply,
    raw_upstream,
    reset,
    stream_chunks,
    stream_texts,
    stream_then,
)

HTML = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
SHORT = {"first_chunk_timeout": 0.2, "chunk_timeout": 0.2}


def problem(response):
    """Return the error of an error response in OpenAI's form."""
    error = response.json()["error"]

    assert {"message", "type", "param", "code"} == set(error)
    assert "application/json" == response.headers["content-type"]
    return error


def broken(response):
    """Return text and error of a broken stream: the error is last, without a clean end."""
    *before, last = stream_documents(response)

    assert 200 == response.status_code
    assert "DONE" not in before
    assert all("error" not in document for document in before)
    return streamed_text(before), last["error"]


@STREAMS
async def test_a_call_in_the_text_becomes_a_tool_call(stream):
    async with raw_upstream(stream_texts(CALL[:20], CALL[20:])) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, stream=stream)

    if stream:
        documents = stream_documents(response)
        deltas = [each for document in documents[:-1] for each in document["choices"]]
        calls = [call for each in deltas for call in each["delta"].get("tool_calls", ())]

        assert "DONE" == documents[-1]
        assert "tool_calls" == deltas[-1]["finish_reason"]
        assert '{"a": 1, "b": 2}' == "".join(call["function"].get("arguments", "") for call in calls)
    else:
        (choice,) = response.json()["choices"]

        assert "tool_calls" == choice["finish_reason"]
        assert {"name": "add", "arguments": '{"a": 1, "b": 2}'} == choice["message"]["tool_calls"][0]["function"]


@STREAMS
async def test_the_upstream_request_always_streams_and_has_no_tools(stream):
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        await post_chat(url, stream=stream, mirostat=2)
    (heard,) = upstream.requests

    assert "POST /v1/chat/completions HTTP/1.1" == heard.request_line
    assert heard.json_body["stream"] is True
    assert 2 == heard.json_body["mirostat"]
    assert "tools" not in heard.json_body


@STREAMS
@pytest.mark.parametrize(
    ("upstream_url", "message"),
    [("http://127.0.0.1:9", "cannot connect"), ("http://nowhere.invalid", "cannot connect")],
    ids=["refused", "unknown name"],
)
async def test_an_unreachable_upstream_is_a_bad_gateway(upstream_url, message, stream):
    async with running_proxy(upstream_url) as url:
        response = await post_chat(url, stream=stream)

    assert 502 == response.status_code
    assert message in problem(response)["message"]
    assert "upstream_error" == problem(response)["type"]


@STREAMS
@pytest.mark.parametrize(
    ("there", "here", "kind"),
    [
        (400, 400, "upstream_error"),
        (401, 502, "upstream_error"),
        (404, 404, "upstream_error"),
        (429, 429, "upstream_error"),
        (500, 502, "upstream_error"),
        (503, 503, "upstream_error"),
    ],
)
async def test_an_upstream_error_status_is_an_error_status_for_the_client(there, here, kind, stream):
    body = json.dumps({"error": {"code": there, "message": "slots are out", "type": "server_error"}}).encode()
    async with raw_upstream(fixed_reply(there, body)) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, stream=stream)

    assert (here, kind) == (response.status_code, problem(response)["type"])
    assert ("slots are out" in problem(response)["message"]) == (there != 401)


async def test_a_rate_limit_error_keeps_its_retry_headers():
    play = fixed_reply(429, b'{"error":{"message":"slow down"}}', "Retry-After: 7", "Set-Cookie: a=b")
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url)

    assert (429, "7") == (response.status_code, response.headers["retry-after"])
    assert "set-cookie" not in response.headers


async def test_a_too_long_prompt_has_openais_error_code():
    body = b'{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context"}}'
    async with raw_upstream(fixed_reply(400, body)) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url)

    assert ("invalid_request_error", "context_length_exceeded") == (
        problem(response)["type"],
        problem(response)["code"],
    )


@STREAMS
@pytest.mark.parametrize(
    ("play", "message"),
    [
        (fixed_reply(200, b'{"error":{"message":"no model is loaded"}}'), "no model is loaded"),
        (fixed_reply(200, b'{"error":"no model is loaded"}'), "no model is loaded"),
        (fixed_reply(200, HTML, kind="text/html"), "502 Bad Gateway"),
        (fixed_reply(200, HTML), "502 Bad Gateway"),
        (fixed_reply(200, b""), "empty"),
        (fixed_reply(200, b"null"), "null"),
        (fixed_reply(200, b"[" * 100_000), "malformed JSON"),
        (fixed_reply(502, HTML, kind="text/html"), "502 Bad Gateway"),
        (fixed_reply(500, b""), "HTTP 500"),
        (fixed_reply(302, b"", "Location: http://127.0.0.1:9/"), "redirects"),
        (fixed_reply(200, b"\x1f\x8b", "Content-Encoding: gzip"), "compressed"),
        (raw_reply(b""), "closed the connection"),
        (raw_reply(b"SSH-2.0-OpenSSH_9.9\r\n"), "not HTTP"),
        (raw_reply(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"), "broke off"),
        (raw_reply(SSE_HEAD), "broke off"),
        (raw_reply(SSE_HEAD + b"zz\r\n"), "not HTTP"),
        (raw_reply(SSE_HEAD + http_chunk(b"data: \xff\xfe{\n\n") + b"0\r\n\r\n"), "malformed JSON"),
        (reset, "closed the connection"),
        (stream_chunks(b"data: [DONE]\n\n"), "holds no answer"),
        (stream_chunks(ROLE, event(error={"code": 500, "message": "slot lost", "type": "server_error"})), "slot lost"),
        (stream_chunks(b": ping\n\n" * 10), "holds no answer"),
    ],
    ids=[
        *("error JSON", "error text", "web page", "web page called JSON", "nothing", "null", "brackets"),
        *("502 web page", "500 empty", "redirect", "gzip", "closed at once", "not HTTP", "short body", "no chunk"),
        *("bad chunk length", "invalid UTF-8", "reset", "only DONE", "error event", "only comments"),
    ],
)
async def test_a_failure_before_the_first_text_is_an_http_error(play, message, stream):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, stream=stream)

    assert 502 == response.status_code
    assert message in problem(response)["message"]


FAULTS = pytest.mark.parametrize(
    ("play", "message"),
    [
        (stream_then(ROLE, text_chunk("Once"), then=raw_reply(b"")), "broke off"),
        (stream_then(ROLE, text_chunk("Once"), then=raw_reply(b"0\r\n\r\n")), "without a finish_reason"),
        (stream_then(ROLE, text_chunk("Once"), then=reset), "broke off"),
        (stream_then(ROLE, text_chunk("Once"), then=half_close), "broke off"),
        (stream_then(ROLE, text_chunk("Once"), then=raw_reply(b"zz\r\n")), "broke off"),
        (stream_then(ROLE, text_chunk("Once"), then=raw_reply(b"-5\r\nhello\r\n")), "broke off"),
        (stream_then(ROLE, text_chunk("Once"), then=raw_reply(http_chunk(b"data: {nope}\n\n"))), "malformed JSON"),
        (stream_then(ROLE, text_chunk("Once"), then=raw_reply(http_chunk(b"data: \xff\xfe\n\n"))), "malformed JSON"),
        (stream_chunks(ROLE, text_chunk("Once"), event(error={"message": "slot lost"}), end_chunks()), "slot lost"),
        (stream_chunks(ROLE, text_chunk("Once"), b"data: [DONE]\n\n"), "without a finish_reason"),
        (stream_chunks(ROLE, text_chunk("Once"), b"data: " + b"x" * 17 * 2**20), "more than 16777216 bytes"),
    ],
    ids=[
        *("FIN", "end of body", "RST", "half-close", "bad chunk length", "negative chunk length", "malformed JSON"),
        *("invalid UTF-8", "error event", "DONE without a finish_reason", "endless line"),
    ],
)


@FAULTS
async def test_a_broken_stream_has_an_error_event_and_no_clean_end(play, message):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        text, error = broken(await post_chat(url))

    assert "Once" == text
    assert message in error["message"]


@FAULTS
async def test_a_broken_reply_that_is_not_streamed_is_a_bad_gateway(play, message):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, stream=False)

    assert 502 == response.status_code
    assert message in problem(response)["message"]


async def test_a_stream_that_breaks_inside_a_call_leaves_no_executable_call():
    play = stream_then(ROLE, text_chunk(CALL[:60]), then=raw_reply(b""))
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        *before, last = stream_documents(await post_chat(url))
    arguments = "".join(
        call["function"].get("arguments", "")
        for document in before
        for each in document["choices"]
        for call in each["delta"].get("tool_calls", ())
    )

    assert "error" in last
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments)


@STREAMS
@pytest.mark.parametrize(
    "play", [hang, stream_then(then=hang), stream_then(ROLE, then=hang)], ids=["nothing", "headers", "role"]
)
async def test_silence_before_the_first_text_is_a_timeout(play, stream):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url, **SHORT) as url:
        response = await post_chat(url, stream=stream)
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert (504, "timeout") == (response.status_code, problem(response)["type"])
    assert "sent nothing for 0.2 s" in problem(response)["message"]


async def test_a_stream_that_falls_silent_ends_with_a_timeout_event():
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("Once"), then=hang)) as upstream,
        running_proxy(upstream.url, chunk_timeout=0.2) as url,
    ):
        text, error = broken(await post_chat(url))
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert ("Once", "timeout") == (text, error["type"])


async def test_a_reply_that_is_not_streamed_and_falls_silent_is_a_timeout():
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("Once"), then=hang)) as upstream,
        running_proxy(upstream.url, **SHORT) as url,
    ):
        response = await post_chat(url, stream=False)

    assert (504, "timeout") == (response.status_code, problem(response)["type"])


LONG = "x" * 4_000_000


@STREAMS
@pytest.mark.parametrize(
    ("play", "expected"),
    [
        (stream_chunks(ROLE + text_chunk("Hel") + text_chunk("lo") + end_chunks()), "Hello"),
        (stream_chunks(*[bytes([byte]) for byte in ROLE + text_chunk("H") + text_chunk("i") + end_chunks()]), "Hi"),
        (
            stream_chunks(
                ROLE, text_chunk("Hello"), event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
            ),
            "Hello",
        ),
        (stream_chunks(ROLE, text_chunk("Hello"), end_chunks(), text_chunk("more"), b"junk"), "Hello"),
        (
            stream_chunks(
                ROLE, event(choices=[]), event(choices=[{"index": 0, "delta": {}}]), text_chunk("Hello"), end_chunks()
            ),
            "Hello",
        ),
        (
            stream_chunks(ROLE, event(choices=[{"delta": {"content": None}}]), text_chunk("Hello"), end_chunks()),
            "Hello",
        ),
        (
            stream_chunks(
                b"\xef\xbb\xbf: hi\r\n\r\n" + (ROLE + text_chunk("Hello") + end_chunks()).replace(b"\n", b"\r\n")
            ),
            "Hello",
        ),
        (stream_chunks(ROLE, text_chunk("a\u2028b\u0085c"), end_chunks()), "a\u2028b\u0085c"),
        (stream_chunks(ROLE, text_chunk(LONG), end_chunks()), LONG),
        (stream_chunks(ROLE, event(choices=[{"index": 0, "delta": {"content": "\udcff!"}}]), end_chunks()), "\ufffd!"),
        (fixed_reply(200, ROLE + text_chunk("Hello") + end_chunks(), kind="application/octet-stream"), "Hello"),
        (fixed_reply(200, b'{"choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}]}'), "Hello"),
        (
            raw_reply(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + ROLE + text_chunk("Hello") + end_chunks()),
            "Hello",
        ),
        (raw_reply(b"HTTP/1.0 200 OK\r\n\r\n" + ROLE + text_chunk("Hello") + end_chunks()), "Hello"),
    ],
    ids=[
        *("all events in one read", "one byte per read", "no DONE", "bytes after DONE", "no choices", "content null"),
        *("mark, comment and CRLF", "other line ends", "a line of 4 MB", "half a surrogate", "wrong content type"),
        *("JSON instead of a stream", "no length", "HTTP 1.0"),
    ],
)
async def test_unusual_forms_of_replies_are_accepted(play, expected, stream):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, stream=stream)

    assert 200 == response.status_code
    if stream:
        assert "DONE" == stream_documents(response)[-1]
        assert expected == streamed_text(stream_documents(response))
    else:
        assert expected == response.json()["choices"][0]["message"]["content"]


async def test_usage_is_estimated_if_the_upstream_sends_none():
    play = stream_chunks(ROLE, text_chunk("Hello"), event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]))
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        reply = (await post_chat(url, stream=False)).json()
        *_, last, done = stream_documents(await post_chat(url, stream_options={"include_usage": True}))

    assert "DONE" == done
    assert [] == last["choices"]
    assert last["usage"] == reply["usage"]
    assert 2 == reply["usage"]["completion_tokens"]
    assert reply["usage"]["prompt_tokens"] > 50


@STREAMS
async def test_every_choice_has_its_own_parser(stream):
    def piece(index, text):
        return event(choices=[{"index": index, "delta": {"content": text}}])

    ends = event(choices=[{"index": index, "delta": {}, "finish_reason": "stop"} for index in (0, 1)])
    pieces = [piece(1, CALL[:25]), piece(0, "no "), piece(1, CALL[25:]), piece(0, "call"), ends, b"data: [DONE]\n\n"]
    async with raw_upstream(stream_chunks(*pieces)) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, stream=stream, n=2)

    assert 2 == upstream.requests[0].json_body["n"]
    if stream:
        documents = [document for document in stream_documents(response) if document != "DONE"]
        reasons = {
            each["index"]: each["finish_reason"]
            for document in documents
            for each in document["choices"]
            if each["finish_reason"]
        }

        assert {0: "stop", 1: "tool_calls"} == reasons
        assert ("no call", "") == (streamed_text(documents, 0), streamed_text(documents, 1))
    else:
        first, second = response.json()["choices"]

        assert ("no call", "stop") == (first["message"]["content"], first["finish_reason"])
        assert ("tool_calls", 1) == (second["finish_reason"], second["index"])


async def test_a_model_that_invents_a_tool_result_is_cancelled_and_the_call_kept():
    invented = text_chunk('\n<function_result name="add">\n4\n</function_result>')
    async with (
        raw_upstream(stream_then(ROLE, text_chunk(CALL), invented, then=hang)) as upstream,
        running_proxy(upstream.url) as url,
    ):
        reply = (await post_chat(url, stream=False)).json()
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert "tool_calls" == reply["choices"][0]["finish_reason"]


async def test_a_silent_stream_is_kept_alive_with_comments():
    go_on = asyncio.Event()
    async with (
        raw_upstream(paused_stream(go_on)) as upstream,
        running_proxy(upstream.url, ping=0.1) as url,
        http_client(url) as client,
        client.stream("POST", CHAT, json=chat_body()) as response,
    ):
        text = ""
        async for part in response.aiter_text():
            text += part
            if text.count(": ping\n\n") >= 2:
                go_on.set()

    assert text.endswith("data: [DONE]\n\n")


async def test_after_a_ping_an_error_is_an_event_in_the_stream():
    async def late(peer):
        await asyncio.sleep(0.15)
        await fixed_reply(503, b'{"error":{"message":"still loading"}}')(peer)

    async with raw_upstream(late) as upstream, running_proxy(upstream.url, first_ping=0.05) as url:
        response = await post_chat(url)

    assert 200 == response.status_code
    assert "still loading" in stream_documents(response)[-1]["error"]["message"]
    assert "DONE" not in stream_documents(response)


async def test_a_reply_above_the_limit_is_an_error_and_cancels_the_upstream():
    async def endless(peer):
        await peer.send(SSE_HEAD)
        while True:
            await peer.chunk(text_chunk("x" * 1000))

    async with raw_upstream(endless) as upstream, running_proxy(upstream.url, max_reply=100_000) as url:
        response = await post_chat(url, stream=False)
        await asyncio.wait_for(upstream.client_left.wait(), 60)

    assert 502 == response.status_code
    assert "longer than the limit" in problem(response)["message"]


FINE = b'{"messages": [{"role": "user", "content": "Hi"}]'


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b'{"messages": [', None),
        (b"[]", None),
        (b"null", None),
        (FINE + b', "model": "\xff"}', None),
        (b"[" * 100_000, None),
        (FINE + b', "max_tokens": ' + b"9" * 20_000 + b"}", None),
        (b'{"model": "m"}', "messages"),
        (b'{"messages": "hi"}', "messages"),
        (b'{"messages": [5]}', "messages[0]"),
        (b'{"messages": [{"role": "king", "content": "hi"}]}', "messages[0].role"),
        (b'{"messages": [{"role": "user", "content": 5}]}', "messages[0].content"),
        (FINE + b', "model": 5}', "model"),
        (FINE + b', "stream": "yes"}', "stream"),
        (FINE + b', "n": 1000}', "n"),
        (FINE + b', "stop": {}}', "stop"),
        (FINE + b', "tools": {}}', "tools"),
        (FINE + b', "tools": [{"type": "function"}]}', "tools[0].function"),
        (FINE + b', "temperature": "hot"}', "temperature"),
    ],
)
async def test_an_invalid_request_is_rejected_before_anything_is_sent_upstream(body, param):
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        head, _, content = (await send_raw(url, post_request(url, body, CHAT, "Connection: close"))).partition(
            b"\r\n\r\n"
        )
    error = json.loads(content)["error"]

    assert b" 400 " in head.partition(b"\r\n")[0]
    assert "invalid_request_error" == error["type"]
    if param is not None:
        assert param == error["param"]
    assert not upstream.requests


async def test_two_hundred_streams_at_once_all_complete():
    pieces = [text_chunk(f"{number} ") for number in range(10)]
    async with raw_upstream(stream_chunks(ROLE, *pieces, end_chunks())) as upstream, running_proxy(upstream.url) as url:
        request = post_request(url, chat_body(), CHAT, "Connection: close")
        responses = await asyncio.gather(*(send_raw(url, request) for _ in range(200)))

    assert 200 == len(upstream.requests)
    assert all(response.count(b'"content":"7 "') == 1 and b"[DONE]" in response for response in responses)


@pytest.mark.parametrize(
    ("settings", "status"),
    [({}, 400), ({"max_tools": 5}, 200), ({"tool_limit": 200}, 200), ({"max_tools": 140, "tool_limit": 139}, 400)],
    ids=str,
)
async def test_tools_are_counted_after_they_were_selected(settings, status):
    tools = [{"type": "function", "function": {"name": f"tool_{number}"}} for number in range(150)]
    async with (
        raw_upstream(stream_texts("Hello")) as upstream,
        running_proxy(upstream.url, **settings) as url,
        http_client(url) as client,
    ):
        fields = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": tools}
        response = await client.post("/v1/chat/completions", json=fields)

    assert status == response.status_code
    assert (status == 200) == bool(upstream.requests)
