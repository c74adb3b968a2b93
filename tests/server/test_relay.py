"""Requests that need no shim: relayed byte for byte in both directions."""

import asyncio

import pytest

from fcshim.config import Secret
from tests.mcp.server_programs import eventually
from tests.scripted import ROLE, end_chunks, text_chunk
from tests.server.proxy import (
    CHAT,
    chat_body,
    http_client,
    post_chat,
    post_request,
    raw_connection,
    running_proxy,
    send_raw,
    stream_documents,
    streamed_text,
)
from tests.server.raw_upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    fixed_reply,
    half_close,
    hang,
    http_chunk,
    raw_reply,
    raw_upstream,
    reset,
    stream_texts,
    stream_then,
)

ODD = b'{ "model" :"m","messages":[{"role":"user","content":"\\u00e9"}] , "zzz": 1.0e0, "stream":true}\n'


async def test_a_request_without_tools_is_relayed_byte_for_byte():
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        await send_raw(url, post_request(url, ODD, CHAT + "?a=%2B%26&b", "Connection: close"))

    assert ODD == upstream.requests[0].body
    assert "POST /v1/chat/completions?a=%2B%26&b HTTP/1.1" == upstream.requests[0].request_line


async def test_a_stream_is_relayed_byte_for_byte_and_each_chunk_at_once():
    pieces = [
        ROLE,
        b": odd\r\n\r\n",
        text_chunk("Hel") + text_chunk("lo")[:10],
        text_chunk("lo")[10:],
        b"data:{}\n\n",
        end_chunks(),
        b"junk",
    ]
    seen = asyncio.Queue()

    async def in_step(peer):
        await peer.send(SSE_HEAD)
        for piece in pieces:
            await peer.chunk(piece)
            assert piece == await asyncio.wait_for(seen.get(), 60)
        await peer.send(LAST_CHUNK)

    async with raw_upstream(in_step) as upstream, running_proxy(upstream.url) as url, http_client(url) as client:
        async with client.stream("POST", CHAT, json=chat_body(tools=False)) as response:
            async for data in response.aiter_raw():
                seen.put_nowait(data)
        assert 1 == len(upstream.requests)

    assert response.extensions["http_version"] == b"HTTP/1.1"
    assert seen.empty()


async def test_request_headers_are_relayed_except_those_of_connection_key_and_browser():
    kept = ["X-Trace: 7", "Accept: text/event-stream", "User-Agent: odd/1", "OpenAI-Organization: org"]
    dropped = [
        *("Authorization: Bearer client-key", "X-Api-Key: client-key", "Api-Key: client-key", "Cookie: a=client-key"),
        *("X-Conversation-Id: 5", "Connection: close, X-Hop", "X-Hop: 1", "TE: trailers", "Referer: http://localhost/"),
        *("Accept-Encoding: gzip, br", "Expect: 100-continue"),
    ]
    for tools in (True, False):
        async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
            await send_raw(url, post_request(url, chat_body(tools=tools), CHAT, *kept, *dropped))
        headers = upstream.requests[0].headers

        assert ("7", "odd/1", "org") == (headers["x-trace"], headers["user-agent"], headers["openai-organization"])
        assert upstream.url.removeprefix("http://") == headers["host"]
        assert "identity" == headers["accept-encoding"]
        assert b"client-key" not in upstream.requests[0].head
        assert not {"x-conversation-id", "x-hop", "te", "referer", "cookie", "expect"} & set(headers)


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_the_clients_key_is_forwarded_only_if_configured(tools):
    headers = {"Authorization": "Bearer client-key"}
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url, forward_client_key=True) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=tools), headers=headers)

    assert "Bearer client-key" == upstream.requests[0].headers["authorization"]


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_the_upstreams_own_key_is_sent_and_always_wins(tools, forward):
    settings = {"upstream_key": Secret("upstream-key"), "forward_client_key": forward}
    headers = {"Authorization": "Bearer client-key", "X-Api-Key": "client-key"}
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url, **settings) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=tools), headers=headers)
    (heard,) = upstream.requests

    assert 1 == heard.head.lower().count(b"authorization:")
    assert "Bearer upstream-key" == heard.headers["authorization"]
    assert b"client-key" not in heard.head


async def test_response_headers_are_relayed_except_those_of_connection_and_cors():
    sent = ["X-Request-Id: 9", "Retry-After: 3", "Access-Control-Allow-Origin: *", "Keep-Alive: timeout=5"]
    async with (
        raw_upstream(fixed_reply(418, b'{"a":1}', *sent)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.post("/v1/embeddings", json={})

    assert (418, b'{"a":1}') == (response.status_code, response.content)
    assert ("9", "3") == (response.headers["x-upstream-request-id"], response.headers["retry-after"])
    assert not {"access-control-allow-origin", "keep-alive"} & set(response.headers)


@pytest.mark.security
async def test_a_page_of_an_upstream_has_no_power_in_the_proxys_origin():
    sent = [
        *("Content-Type: text/html", "Refresh: 0;url=/fcshim/", "Link: </fcshim/api/requests>; rel=preload", "NEL: {}"),
        *("Content-Security-Policy: default-src *", "X-Content-Type-Options: none", "Set-Cookie: a=b", "Alt-Svc: x"),
        *("Service-Worker-Allowed: /", 'Clear-Site-Data: "*"', "Strict-Transport-Security: max-age=9", "SourceMap: /x"),
    ]
    async with (
        raw_upstream(fixed_reply(200, b"<script>fetch('/fcshim/api/requests')</script>", *sent)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.get("/v1/files/a/content")
    names = {name for name in response.headers if name.lower() in {each.partition(":")[0].lower() for each in sent}}

    assert 200 == response.status_code
    assert ["sandbox"] == response.headers.get_list("content-security-policy")
    assert ["nosniff"] == response.headers.get_list("x-content-type-options")
    assert {"content-type", "content-security-policy", "x-content-type-options"} == names


@pytest.mark.security
@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
@pytest.mark.parametrize(
    "name",
    [
        *(
            "X-Auth-Token",
            "Ocp-Apim-Subscription-Key",
            "X-Amz-Security-Token",
            "CF-Access-Client-Secret",
            "Helicone-Auth",
        ),
        *("X-Functions-Key", "X-Session-Token", "X-Vault-Token", "PRIVATE-TOKEN", "X_Auth_Token", "X-Portkey-Api-Key"),
    ],
)
async def test_a_key_that_is_meant_for_another_service_is_not_forwarded(name, tools):
    headers = {name: "foreign-secret", "Idempotency-Key": "7"}
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.post(CHAT, json=chat_body(tools=tools), headers=headers)

    assert b"foreign-secret" not in upstream.requests[0].head
    assert "7" == upstream.requests[0].headers["idempotency-key"]


@pytest.mark.security
@pytest.mark.parametrize("name", ["api_key", "access_token", "token", "api%2Dkey", "password"])
async def test_a_key_in_a_query_is_not_forwarded(name):
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.get(f"/v1/files?{name}=foreign-secret&after=file-1&page_token=x")

    assert "GET /v1/files?after=file-1&page_token=x HTTP/1.1" == upstream.requests[0].request_line


@pytest.mark.security
@pytest.mark.parametrize("status", [101, 600, 999])
async def test_a_status_that_no_reply_has_is_a_bad_gateway(status):
    odd = raw_reply(b"HTTP/1.1 %d Odd\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n" % status)
    async with raw_upstream(odd) as upstream, running_proxy(upstream.url) as url, http_client(url) as client:
        response = await client.post("/v1/embeddings", json={})

    assert 502 == response.status_code
    assert "error" in response.json()


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_every_other_path_below_v1_is_relayed(method):
    async with (
        raw_upstream(fixed_reply(404, b'{"error":{"message":"File Not Found"}}')) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.request(method, "/v1/files/a%2Fb?x=1")

    assert (404, "File Not Found") == (response.status_code, response.json()["error"]["message"])
    assert f"{method} /v1/files/a%2Fb?x=1 HTTP/1.1" == upstream.requests[0].request_line


@pytest.mark.parametrize(
    "path", ["/files/a%2Fb?c=%2F&d=%252F&e=a%20b+c&f=%e2%82%ac", "/x?", "/a/b?a=b=c&&d", "/~a/~b?:@"]
)
async def test_a_normalised_request_target_is_relayed_unchanged(path):
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        await send_raw(url, f"GET /v1{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())

    assert f"GET /v1{path.removesuffix('?')} HTTP/1.1" == upstream.requests[0].request_line


@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_the_upstreams_key_is_masked_in_its_errors(status, tools):
    body = b'{"error":{"message":"no quota for the key sk-upstream-key"}}'
    async with (
        raw_upstream(fixed_reply(status, body)) as upstream,
        running_proxy(upstream.url, upstream_key=Secret("sk-upstream-key")) as url,
        http_client(url) as client,
    ):
        response = await client.post(CHAT, json=chat_body(tools=tools))

    assert "sk-upstream-key" not in response.text
    assert "no quota for the key ***************" in response.json()["error"]["message"]


async def test_a_long_error_body_is_relayed_completely():
    body = b"x" * 300_000
    async with (
        raw_upstream(fixed_reply(500, body)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.get("/v1/models")

    assert (500, body) == (response.status_code, response.content)


@pytest.mark.parametrize("path", ["/v1/../slots", "/v1/%2e%2e/slots", "/v1/a/..%2f..%2fslots", "/v1/..%5cslots"])
async def test_a_path_that_leads_out_of_v1_is_rejected(path):
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answer = await send_raw(url, head.encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert not upstream.requests


@pytest.mark.parametrize(
    "fault", [raw_reply(b""), reset, half_close, raw_reply(b"zz\r\n")], ids=["FIN", "RST", "half", "framing"]
)
async def test_a_stream_that_breaks_between_events_ends_with_an_error_event(fault):
    async with (
        raw_upstream(stream_then(ROLE, text_chunk("Once"), then=fault)) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.post(CHAT, json=chat_body(tools=False))

    assert (ROLE + text_chunk("Once")).decode() == response.text[: len(ROLE + text_chunk("Once"))]
    assert '"error"' in response.text.rstrip().rpartition("\n")[2]
    assert "[DONE]" not in response.text


@pytest.mark.parametrize(
    "play",
    [
        stream_then(ROLE, text_chunk("Once")[:-1], then=raw_reply(b"")),
        raw_reply(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
        raw_reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + http_chunk(b"{")),
    ],
    ids=["inside an event", "length", "chunks"],
)
async def test_a_reply_that_breaks_elsewhere_never_gets_a_clean_end(play):
    async with raw_upstream(play) as upstream, running_proxy(upstream.url) as url:
        answer = await send_raw(url, post_request(url, chat_body(tools=False)))

    assert b" 200 " in answer.partition(b"\r\n")[0]
    assert not answer.endswith(LAST_CHUNK)
    assert b"error" not in answer


@pytest.mark.parametrize(
    ("play", "status", "message"),
    [
        (hang, 504, "sent nothing"),
        (raw_reply(b""), 502, "closed the connection"),
        (fixed_reply(301, b"", "Location: http://evil.example/"), 502, "redirects"),
        (fixed_reply(200, b"\x1f\x8b" + b"\0" * 1000, "Content-Encoding: gzip"), 502, "compressed"),
    ],
    ids=["silent", "closed", "redirect", "gzip"],
)
async def test_a_failure_before_the_response_is_an_openai_error(play, status, message):
    async with (
        raw_upstream(play) as upstream,
        running_proxy(upstream.url, first_chunk_timeout=0.2 if play is hang else 60.0) as url,
        http_client(url) as client,
    ):
        response = await client.get("/v1/models")

    assert status == response.status_code
    assert message in response.json()["error"]["message"]


@pytest.mark.security
@pytest.mark.parametrize(("status", "shown"), [(429, 429), (422, 400), (500, 502)])
@pytest.mark.parametrize("fault", [hang, reset, half_close])
async def test_an_error_whose_body_stops_is_told_like_any_other(fault, status, shown):
    """Found by tests/fuzz/proxy.py: the proxy waited for the rest without a limit."""

    async def stops(peer):
        await peer.send(f"HTTP/1.1 {status} No\r\nContent-Length: 99\r\n\r\n".encode())
        await peer.send(b'{"error": {"message": "no')
        await fault(peer)

    async with (
        raw_upstream(stops) as upstream,
        running_proxy(upstream.url, chunk_timeout=0.2, first_chunk_timeout=5.0) as url,
    ):
        answer = await send_raw(url, post_request(url, chat_body(tools=False), CHAT, "Connection: close"))

    assert answer.startswith(f"HTTP/1.1 {shown} ".encode())
    assert b'"error"' in answer


@pytest.mark.security
@pytest.mark.parametrize(
    "reason", [b"", b" ", b" -\x80", b" \xff\xfe", b" \xe9t\xe9", b" \xc3\xa9", b" \t", b" " + b"x" * 3_000]
)
@pytest.mark.parametrize("tools", [True, False], ids=["shim", "relay"])
async def test_a_reason_phrase_may_have_any_bytes(reason, tools):
    """Found by tests/fuzz/proxy; RFC 9112 (4) allows bytes that are no ASCII."""
    body = text_chunk("Hello") + end_chunks()
    head = b"HTTP/1.1 200%b\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % (reason, len(body))
    async with raw_upstream(raw_reply(head + body)) as upstream, running_proxy(upstream.url) as url:
        answer = await send_raw(url, post_request(url, chat_body(tools=tools), CHAT, "Connection: close"))

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"Hello" in answer


SHORT = [
    (b"text/event-stream", text_chunk("Hi") + end_chunks(), True),
    (b"application/json", b'{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}', False),
]


@pytest.mark.security
@pytest.mark.parametrize(("kind", "body", "is_complete"), SHORT, ids=["a stream", "a document"])
@pytest.mark.parametrize("fault", [hang, reset, half_close])
async def test_a_body_that_is_shorter_than_its_length_leaves_no_traceback(fault, kind, body, is_complete, caplog):
    """Found by tests/fuzz/proxy.py: a stream has an end of its own, whatever its head says."""

    async def short(peer):
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: 9999\r\n\r\n%b" % (kind, body))
        await asyncio.sleep(0.05)
        await fault(peer)

    async with raw_upstream(short) as upstream, running_proxy(upstream.url, chunk_timeout=0.3) as url:
        answer = await send_raw(url, post_request(url, chat_body(tools=False), CHAT, "Connection: close"))
    head, _, rest = answer.partition(b"\r\n\r\n")

    assert b" 200 " in head
    assert body[:30] in rest
    assert is_complete == rest.endswith(LAST_CHUNK)
    assert is_complete == (b"content-length" not in head.lower())
    assert not [each for each in caplog.records if each.exc_info]


async def test_what_strict_endpoints_refuse_is_written_in_another_way():
    sent = {
        "model": "m",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": []},
        ],
        "tools": [],
        "tool_choice": "none",
        "parallel_tool_calls": True,
        "stop": None,
        "n": 1,
    }
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        await client.post("/v1/chat/completions", json=sent)

    messages = [{"role": "system", "content": "Be kind."}, {"role": "assistant", "content": ""}]

    assert {"model": "m", "messages": messages, "n": 1} == upstream.requests[0].json_body


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/proxy/v1"])
async def test_the_upstream_url_may_have_v1_or_not(suffix):
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url + suffix) as url,
        http_client(url) as client,
    ):
        await client.get("/v1/models")
    path = "/proxy/v1/models" if "proxy" in suffix else "/v1/models"

    assert f"GET {path} HTTP/1.1" == upstream.requests[0].request_line


async def test_an_upload_and_its_response_are_relayed_at_any_size():
    content = bytes(range(256)) * 8192
    async with (
        raw_upstream(fixed_reply(200, content, kind="audio/wav")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.post(
            "/v1/audio/transcriptions", content=content, headers={"Content-Type": "multipart/form-data; boundary=x"}
        )

    assert content == upstream.requests[0].body == response.content


async def test_a_request_on_a_closed_kept_connection_is_sent_again():
    async def once(peer):
        await fixed_reply(200, b"{}")(peer)
        peer.half_close()

    async with raw_upstream(once) as upstream, running_proxy(upstream.url) as url, http_client(url) as client:
        answers = [await client.get("/v1/models") for _ in range(5)]

    assert {200} == {answer.status_code for answer in answers}


async def test_a_pipelined_request_is_not_part_of_the_first_ones_body():
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url) as url,
        raw_connection(url) as (_, writer),
    ):
        writer.write(post_request(url, b"{}", "/v1/a") + post_request(url, b"[]", "/v1/b", "Connection: close"))
        await eventually(lambda: len(upstream.requests) == 2)

        assert [b"{}", b"[]"] == [heard.body for heard in upstream.requests]


async def test_a_key_in_the_query_is_not_relayed():
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        await send_raw(url, post_request(url, ODD, CHAT + "?a=1&key=secret&b", "Connection: close"))

    assert "POST /v1/chat/completions?a=1&b HTTP/1.1" == upstream.requests[0].request_line


@pytest.mark.parametrize("tools", [True, False])
async def test_lm_studios_path_is_that_of_openais_api(tools):
    async with (
        raw_upstream(stream_texts("Hello")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        response = await client.post("/api/v0/chat/completions", json=chat_body(tools=tools))

    assert "Hello" == streamed_text(stream_documents(response))
    assert "POST /v1/chat/completions HTTP/1.1" == upstream.requests[0].request_line


async def test_a_whole_reply_has_the_fields_that_strict_clients_require():
    document = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}], "timings": {"n": 1.0}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n\r\n"

    async def answer(peer):
        await peer.send(head % len(document) + document[:20])
        await peer.send(document[20:])

    async with raw_upstream(answer) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, tools=False, stream=False)

    (choice,) = response.json()["choices"]

    assert (None, None) == (choice["logprobs"], choice["message"]["refusal"])
    assert str(len(response.content)) == response.headers["content-length"]
    assert b'{"n": 1.0}' in response.content


async def test_a_whole_reply_that_is_very_large_passes_as_it_comes():
    document = b'{"choices": [{"message": {"content": "%s"}}]}' % (b"x" * 5_000_000)

    async def answer(peer):
        await peer.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(document)
        )
        await peer.send(document)

    async with raw_upstream(answer) as upstream, running_proxy(upstream.url) as url:
        response = await post_chat(url, tools=False, stream=False)

    assert document == response.content
