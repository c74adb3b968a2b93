"""The path is normalised once, and what is relayed never leaves the API."""

import json

import pytest

from fcshim.codecs.routes import relayed_methods
from fcshim.config import Secret
from fcshim.server.client_connection import normalize_path
from tests.server.proxy import http_client, post_request, running_proxy, send_raw
from tests.server.raw_upstream import fixed_reply, raw_upstream

pytestmark = pytest.mark.security

ESCAPES = [
    "/v1//api/delete",
    "/v1///slots/0?action=erase",
    "//v1//api/delete",
    "/v1/%2Fapi/delete",
    "/v1%2F%2Fapi/delete",
    "/v1%2fapi/delete",
    "/%76%31//api/delete",
    "/v1/../api/delete",
    "/v1/%2e%2e/api/delete",
    "/v1/%2E./api/delete",
    "/v1/%252e%252e/api/delete",
    "/v1/%25252e%25252e/api/delete",
    "/v1/..;/api/delete",
    "/v1/..;a=b/api/delete",
    "/v1/..%3b/api/delete",
    "/v1/..%3f/api/delete",
    "/v1/..%23/../api/delete",
    "/v1/..%253fx/api/delete",
    "/v1/;/../api/delete",
    "/v1/.%00./api/delete",
    "/v1/..%0a/api/delete",
    "/v1/%20../api/delete",
    "/v1\\..\\api\\delete",
    "/v1/%5c..%5capi",
    "/v1/files/..%2f..%2f..%2fapi/delete",
    "/v1/models/%2e%2e%2f%2e%2e%2fapi",
    "/v1/./../api/delete",
    "/v1//v1//../api",
    "/V1/../api/delete",
    "http://localhost//v1//api/delete",
]


def left_api(request_line: str) -> bool:
    """Return whether a request target is outside of /v1/, or could be read as such."""
    path = request_line.split(" ")[1].partition("?")[0]
    return not path.startswith("/v1/") or path.startswith("/v1//") or ".." in path or "%2e" in path.lower()


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "PATCH", "PURGE"])
async def test_no_spelling_of_a_path_leaves_the_api(method):
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url, upstream_key=Secret("sk-upstream-key")) as url,
    ):
        for path in ESCAPES:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            answer = await send_raw(url, head.encode())
            assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 405")), path

    assert not [each.request_line for each in upstream.requests if left_api(each.request_line)]
    assert {"GET", "POST"} >= {each.request_line.split(" ")[0] for each in upstream.requests}


async def test_the_upstreams_path_prefix_is_kept():
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url + "/paas/v4") as url,
        http_client(url) as client,
    ):
        for path in ("/v1//api/delete", "/%76%31/files", "/v1/files"):
            await client.post(path, json={})

    lines = [each.request_line for each in upstream.requests]
    assert lines
    assert all(line.startswith("POST /paas/v4/") for line in lines)


@pytest.mark.parametrize("path", ["/v1/files/f1", "/v1/models/m", "/v1/threads/t/messages/m", "/v1/assistants/a"])
async def test_what_the_api_deletes_is_deleted(path):
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        assert 200 == (await client.delete(path)).status_code
        assert 405 == (await client.put(path, json={})).status_code

    assert [f"DELETE {path} HTTP/1.1"] == [each.request_line for each in upstream.requests]


@pytest.mark.parametrize("path", ["/v1/api/delete", "/v1/slots/0", "/v1/files", "/v1/files/a/b", "/v1/embeddings"])
def test_nothing_else_is_deleted(path):
    assert "DELETE" not in relayed_methods(path)
    assert {"PUT", "PATCH"}.isdisjoint(relayed_methods(path))


@pytest.mark.parametrize(
    "name", ["X-HTTP-Method-Override", "X_HTTP_Method_Override", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL"]
)
async def test_headers_that_replace_method_or_path_are_not_relayed(name):
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        await send_raw(
            url, post_request(url, {}, "/v1/embeddings", f"{name}: DELETE", "X-Kept: 1", "Connection: close")
        )

    assert b"DELETE" not in upstream.requests[0].head
    assert b"x-kept" in upstream.requests[0].head.lower()


@pytest.mark.parametrize(
    ("raw", "decoded", "encoded"),
    [
        ("/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions"),
        ("//v1//chat/completions", "/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/models/org%2fname", "/v1/models/org/name", "/v1/models/org%2Fname"),
        ("/v1beta/models/a:generateContent", "/v1beta/models/a:generateContent", "/v1beta/models/a:generateContent"),
        ("/%7Ea/b%20c", "/~a/b c", "/~a/b%20c"),
        ("/v1/files/a.b..c", "/v1/files/a.b..c", "/v1/files/a.b..c"),
        ("/v1/models/%e2%82%ac", "/v1/models/\u20ac", "/v1/models/%E2%82%AC"),
        ("/v1/models/100%", "/v1/models/100%", "/v1/models/100%25"),
        ("/v1/files/%ff", "/v1/files/\ufffd", "/v1/files/%FF"),
        ("/", "/", "/"),
        ("/v1/", "/v1/", "/v1/"),
    ],
)
def test_ordinary_paths_are_kept(raw, decoded, encoded):
    path = normalize_path(raw.encode())

    assert (decoded, encoded, "") == (path.decoded, path.encoded, path.problem)


async def test_a_rejected_path_is_answered_with_what_was_expected():
    async with running_proxy("http://127.0.0.1:9") as url:
        answer = await send_raw(url, b"GET /v1/%2e%2e/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    assert "expected segments" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


REPLACING = [
    *("X-HTTP-Method-Override", "X_HTTP_Method", "X-Method-Override", "X-Override-Method", "_method"),
    *("X-Original-Method", "X-Forwarded-Method", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Uri"),
    *("X-Forwarded-Path", "X-Forwarded-Prefix", "X-HTTP-Destination-Override", "Destination"),
]


async def test_no_header_replaces_the_method_or_the_path():
    async with (
        raw_upstream(fixed_reply(200, b"{}")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        headers = {**dict.fromkeys(REPLACING, "DELETE"), "X-Forwarded-For": "192.0.2.1", "X-Custom": "1"}
        await client.post("/v1/embeddings", json={}, headers=headers)

    passed = upstream.requests[-1].headers
    assert {"x-forwarded-for", "x-custom"} <= passed.keys()
    assert not [name for name in passed if "method" in name or "DELETE" in passed[name]]


async def test_no_connection_header_and_no_spelling_of_the_key_is_relayed():
    head = (
        b"POST /v1/embeddings?k%65y=client-secret&a=1 HTTP/1.1\r\nHost: localhost\r\n"
        b"Connection: X-One\r\nConnection: X-Two\r\nX-One: 1\r\nX-Two: 2\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}"
    )
    async with raw_upstream(fixed_reply(200, b"{}")) as upstream, running_proxy(upstream.url) as url:
        await send_raw(url, head)

    (request,) = upstream.requests
    assert "POST /v1/embeddings?a=1 HTTP/1.1" == request.request_line
    assert b"client-secret" not in request.head
    assert {"x-one", "x-two"}.isdisjoint(request.headers)
