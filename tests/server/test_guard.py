"""Access checks: nothing that is rejected reaches the upstream."""

import json

import pytest

from fcshim.config import Secret
from fcshim.server.guard import client_key, is_loopback
from tests.server.proxy import CHAT, chat_body, http_client, post_request, running_proxy, send_raw
from tests.server.raw_upstream import raw_upstream, stream_texts

KEYS = {"api_keys": (Secret("first-key"), Secret("second-key"))}


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8181"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example:80"},
        {"Host": "192.168.0.1"},
        {"Host": "[::1].evil.example"},
        {"Host": "[::1]evil.example:80"},
        {"Host": "localhost:80:80"},
        {"Host": "localhost.."},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "file://"},
    ],
    ids=str,
)
async def test_a_foreign_host_or_origin_is_forbidden(headers):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        answers = [
            await client.post(CHAT, json=chat_body(tools=True), headers=headers),
            await client.post(CHAT, json=chat_body(tools=False), headers=headers),
            await client.get("/v1/models", headers=headers),
            await client.get("/fcshim/models", headers=headers),
            await client.get("/metrics", headers=headers),
            await client.head("/v1/models", headers=headers),
            await client.options(CHAT, headers={**headers, "Access-Control-Request-Method": "POST"}),
        ]

    assert {403} == {answer.status_code for answer in answers}
    assert all("forbidden" in answer.json()["error"].values() for answer in answers if answer.content)
    assert not [name for answer in answers for name in answer.headers if name.startswith("access-control-")]
    assert not upstream.requests


@pytest.mark.parametrize("path", ["/v1/models", "/fcshim/models", "/fcshim/api/events", "/metrics"])
async def test_a_page_of_another_site_cannot_load_anything_without_an_origin(path):
    """An image needs no origin; sixteen of them would take all event streams of the inspector."""
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, inspect=True, metrics=True) as url,
        http_client(url) as client,
    ):
        answers = [
            await client.get(path, headers=foreign),
            await client.get(path, headers={**foreign, "Sec-Fetch-Site": "same-site"}),
        ]

    assert [403, 403] == [answer.status_code for answer in answers]
    assert not upstream.requests


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {},
    ],
)
async def test_a_link_and_the_own_page_are_served(headers):
    async with running_proxy("http://127.0.0.1:9", inspect=True) as url, http_client(url) as client:
        answer = await client.get("/fcshim/", headers=headers)

    assert 200 == answer.status_code


async def test_a_request_without_a_host_is_forbidden():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        answer = await send_raw(url, b"GET /v1/models HTTP/1.0\r\n\r\n")

    assert b" 403 " in answer.partition(b"\r\n")[0]
    assert not upstream.requests


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8181", "localhost.:80", "127.0.0.1:1", "127.0.0.1:", "[::1]:8181", "shim.example"]
)
async def test_loopback_names_and_allowed_names_are_served(host):
    async with running_proxy("http://127.0.0.1:9", allowed_hosts=("shim.example",)) as url, http_client(url) as client:
        assert 404 == (await client.get("/nothing", headers={"Host": host})).status_code


async def test_only_an_allowed_origin_gets_cors_headers():
    settings = {"allow_origins": ("http://app.example",)}
    asked = {
        "Origin": "http://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, **settings, **KEYS) as url,
        http_client(url) as client,
    ):
        preflight = await client.options(CHAT, headers=asked)
        headers = {"Origin": "http://app.example", "Authorization": "Bearer first-key"}
        answer = await client.post(CHAT, json=chat_body(), headers=headers)
        refused = await client.post(CHAT, json=chat_body(), headers={"Origin": "http://app.example"})
        foreign = await client.post(CHAT, json=chat_body(), headers={**headers, "Origin": "http://evil.example"})

    assert (204, "http://app.example") == (preflight.status_code, preflight.headers["access-control-allow-origin"])
    assert "authorization, content-type" == preflight.headers["access-control-allow-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert (200, "http://app.example") == (answer.status_code, answer.headers["access-control-allow-origin"])
    assert (401, "http://app.example") == (refused.status_code, refused.headers["access-control-allow-origin"])
    assert 403 == foreign.status_code
    assert 1 == len(upstream.requests)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong-key"},
        {"Authorization": "Bearer first-ke"},
        {"Authorization": "Bearer first-key2"},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic first-key"},
        {"Authorization": "first-key"},
        {"x-api-key": "wrong-key"},
        {"Authorization": "Bearer wrong-key", "x-api-key": "first-key"},
        {"Authorization": "Bearer \xe9"},
    ],
    ids=str,
)
async def test_every_path_requires_a_key(headers):
    raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, **KEYS) as url,
        http_client(url) as client,
    ):
        paths = (CHAT, "/v1/models", "/v1/nope")
        answers = [await client.post(path, json=chat_body(), headers=raw_headers) for path in paths]

    assert {401} == {answer.status_code for answer in answers}
    assert all("authentication_error" in answer.json()["error"].values() for answer in answers)
    assert not any("first-key" in answer.text for answer in answers)
    assert not upstream.requests


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer first-key"},
        {"authorization": "bearer  second-key"},
        {"x-api-key": "second-key"},
        {"Authorization": "Basic other", "x-api-key": "first-key"},
    ],
    ids=str,
)
async def test_every_key_is_accepted_in_every_header_form(headers):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, **KEYS) as url,
        http_client(url) as client,
    ):
        assert 200 == (await client.post(CHAT, json=chat_body(), headers=headers)).status_code


async def test_health_needs_no_key():
    async with running_proxy("http://127.0.0.1:9", **KEYS) as url, http_client(url) as client:
        answer = await client.get("/health")

    assert (200, {"status": "ok"}) == (answer.status_code, answer.json())


PAGES = ({"Origin": "http://localhost"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"})
"""The headers by which a browser says that a page sends a request."""


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        *((kind, {}) for kind in ("text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; boundary=x")),
        *((kind, page) for kind in ("application/x-www-form-urlencoded", "") for page in PAGES),
    ],
)
async def test_a_body_that_needs_no_cors_preflight_is_rejected(kind, headers):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url, allow_origins=["http://localhost"]) as url,
        http_client(url) as client,
    ):
        answer = await client.post(CHAT, content=b"{}", headers={"Content-Type": kind, **headers})

    assert 415 == answer.status_code
    assert not upstream.requests


@pytest.mark.parametrize("path", [CHAT, "/v1/embeddings"])
async def test_what_curl_sends_is_relayed_as_json(path):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = await client.post(path, content=json.dumps(chat_body()).encode(), headers=headers)

    assert (200, "application/json") == (answer.status_code, upstream.requests[-1].headers["content-type"])


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/api/chat"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", ""])
async def test_what_curl_sends_without_a_content_type_is_read_as_json(kind, path):
    async with (
        raw_upstream(stream_texts("ok")) as upstream,
        running_proxy(upstream.url) as url,
        http_client(url) as client,
    ):
        answer = await client.post(path, content=b"{", headers={"Content-Type": kind})

    assert 400 == answer.status_code
    assert "JSON" in answer.text


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "Content-Length: -1\r\n\r\n{}",
        "Content-Length: +2\r\n\r\n{}",
        "Transfer-Encoding: gzip, chunkedd\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "Content-Length : 2\r\n\r\n{}",
        "X: a\nContent-Length: 2\r\n\r\n{}",
        "X: a\r\n folded\r\nContent-Length: 2\r\n\r\n{}",
        "X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=lambda text: text.partition("\r\n\r\n")[0],
)
async def test_an_ambiguous_request_is_rejected(framing):
    head = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        answer = await send_raw(url, (head + framing).encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert not upstream.requests


@pytest.mark.security
async def test_a_head_of_too_many_headers_is_rejected():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url) as url:
        many = [f"x{number}: 1" for number in range(6_000)]
        few = await send_raw(url, post_request(url, chat_body(), CHAT, *many[:200], "Connection: close"))
        refused = [
            await send_raw(url, post_request(url, chat_body(), CHAT, *many[:count], "Connection: close"))
            for count in (300, 6_000)
        ]

    assert few.startswith(b"HTTP/1.1 200 ")
    assert all(each.startswith(b"HTTP/1.1 431 ") and b'"headers_too_large"' in each for each in refused)
    assert len(upstream.requests) == 1


async def test_a_too_large_head_is_rejected_complete_or_endless():
    async with raw_upstream(stream_texts("ok")) as upstream, running_proxy(upstream.url, max_headers=4096) as url:
        complete = await send_raw(
            url, post_request(url, chat_body(), CHAT, "X-Long: " + "x" * 5000, "Connection: close")
        )
        endless = await send_raw(url, b"GET /v1/models HTTP/1.1\r\nX-Long: " + b"x" * 100_000)

    assert complete.startswith(b"HTTP/1.1 431 ")
    assert endless.startswith(b"HTTP/1.1 431 ")
    assert b'"headers_too_large"' in complete
    assert b'"headers_too_large"' in endless
    assert not upstream.requests


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([], b""),
        ([(b"authorization", b"Bearer a")], b"a"),
        ([(b"authorization", b"BEARER a ")], b"a"),
        ([(b"x-api-key", b"b")], b"b"),
        ([(b"authorization", b"Bearer a"), (b"x-api-key", b"b")], b"a"),
        ([(b"x-goog-api-key", b"a")], b"a"),
        ([(b"api-key", b"a")], b"a"),
        ([(b"api-key", b"a"), (b"x-api-key", b"b")], b"b"),
        ([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")], b"a"),
    ],
)
def test_the_clients_key_is_found_in_every_form(headers, key):
    assert key == client_key(headers)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.8.8.8", True), ("::1", True), ("0.0.0.0", False), ("shim.example", False)],
)
def test_loopback_addresses_are_recognised(host, expected):
    assert expected == is_loopback(host)


def test_a_key_in_the_query_counts_if_no_header_has_one():
    assert b"a+b" == client_key([], b"alt=sse&key=a%2Bb")
    assert b"a" == client_key([(b"x-goog-api-key", b"a")], b"key=b")
    assert b"" == client_key([], b"monkey=1&key")
    assert b"" == client_key([], b"key=a%0D%0AX-Other:%20b")
    assert b"" == client_key([], b"key=\xff%ff")
