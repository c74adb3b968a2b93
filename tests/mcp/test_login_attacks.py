"""What a hostile server, page or program does to a login."""

import asyncio
import contextlib
import json

import httpx
import httpx2
import pytest
from mcp.client.auth import OAuthFlowError

from fcshim.mcp import HttpTransport, McpServerConfig
from fcshim.mcp.logins import OAuthLogins, _RedirectListener

pytestmark = pytest.mark.security

URL = "https://8.8.8.8/mcp"
"""A public server; nothing is sent to it."""


async def show(url):
    """Show a page that nobody opens."""


@pytest.fixture
def flow(tmp_path):
    server = McpServerConfig(name="far", transport=HttpTransport(url=URL, oauth=True))
    return OAuthLogins(tmp_path, show=show).auth(server, URL).async_auth_flow(httpx2.Request("POST", URL))


def metadata(issuer):
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    }


async def visited(flow, answer, rounds=20):
    """Run the login, answered by `answer(request)`; return where its requests went, and the error that ended it."""
    urls, fault = [], ""
    with contextlib.suppress(StopAsyncIteration):
        try:
            request = await anext(flow)
            for _ in range(rounds):
                urls.append(str(request.url))
                request = await flow.asend(answer(request))
        except (OAuthFlowError, httpx2.StreamError) as error:
            fault = str(error)
        finally:
            await flow.aclose()
    return urls, fault


PRIVATE = [
    "https://169.254.169.254/latest/meta-data",
    "https://127.0.0.1:8443/x",
    "https://localhost/x",
    "https://[::1]/x",
    "https://10.0.0.1/x",
    "https://192.168.1.1:8443/x",
    "https://0x7f000001/x",
    "https://2130706433/x",
    "https://127.1/x",
    "https://[::ffff:127.0.0.1]/x",
    "https://[::ffff:169.254.169.254]/x",
    "https://0.0.0.0/x",
    "https://user:word@127.0.0.1/x",
    "http://8.8.4.4/x",
]


@pytest.mark.parametrize("target", PRIVATE)
async def test_a_public_server_cannot_send_the_login_to_a_private_address(flow, target):
    def answer(request):
        headers = {"www-authenticate": f'Bearer resource_metadata="{target}"'} if request.method == "POST" else {}
        return httpx2.Response(401 if headers else 404, headers=headers, request=request)

    urls, fault = await visited(flow, answer)

    assert {"https://8.8.8.8"} == {"/".join(url.split("/")[:3]) for url in urls}
    assert "expected" in fault


@pytest.mark.parametrize("target", PRIVATE)
async def test_nor_its_authorisation_server(flow, target):
    issuer = target.rpartition("/")[0]

    def answer(request):
        path = request.url.path
        if request.method == "POST" and path == "/mcp":
            return httpx2.Response(401, request=request)
        if path.startswith("/.well-known/oauth-protected-resource"):
            return httpx2.Response(200, json={"resource": URL, "authorization_servers": [issuer]}, request=request)
        return httpx2.Response(200, json=metadata(issuer), request=request)

    urls, _ = await visited(flow, answer)

    assert {"https://8.8.8.8"} == {"/".join(url.split("/")[:3]) for url in urls}


class Endless(httpx2.AsyncByteStream):
    def __init__(self):
        self.sent = 0

    async def __aiter__(self):
        while True:
            self.sent += 65_536
            yield b" " * 65_536


@pytest.mark.parametrize("place", ["401", "resource", "server", "register"])
async def test_a_page_without_end_is_not_read_to_its_end(flow, place):
    endless = Endless()

    def answer(request):
        path = request.url.path
        first = request.method == "POST" and path == "/mcp"
        kind = (
            "401"
            if first
            else "resource"
            if "protected-resource" in path
            else "server"
            if "well-known" in path
            else "register"
        )
        if kind == place:
            return httpx2.Response(401 if first else 200, stream=endless, request=request)
        if first:
            return httpx2.Response(401, request=request)
        body = (
            {"resource": URL, "authorization_servers": ["https://8.8.8.8"]}
            if kind == "resource"
            else metadata("https://8.8.8.8")
        )
        return httpx2.Response(200, json=body, request=request)

    async with asyncio.timeout(20):
        await visited(flow, answer)

    assert endless.sent < 4 * 2**20


async def test_a_packed_page_is_refused(flow):
    def answer(request):
        if request.method == "POST":
            return httpx2.Response(401, request=request)
        return httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Endless(), request=request)

    _, fault = await visited(flow, answer)

    assert "the answer of 8.8.8.8 is packed" in fault


STRANGERS = [
    "/callback?code=evil",
    "/callback?code=evil&state=",
    "/callback?code=evil&state=other",
    "/callback?error=access_denied",
    "/callback?error=access_denied&state=S",
    "/?code=evil&state=s",
    "/favicon.ico?code=evil&state=s",
    "/callback/?code=evil&state=s",
    "//callback?code=evil&state=s",
    "/callback?state=other&state=s&code=evil",
    "/callback?code=evil#state=s",
    "http://evil/callback2?code=evil&state=s",
]


async def test_only_the_redirect_of_this_login_ends_it():
    """A page in the user's browser, or another program, knows the port but not the state."""
    listener = _RedirectListener(0)
    await listener.showing(show)("https://a/authorize?client_id=x&state=s")
    waiting = asyncio.create_task(listener.wait_for_code())
    await asyncio.sleep(0.1)
    for target in STRANGERS:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        await reader.read()
        writer.close()

    assert not waiting.done()

    async with httpx.AsyncClient() as client:
        await client.get(f"{listener.redirect_uri}?code=c&state=s")

    assert "c" == (await waiting).code


async def test_a_head_without_end_is_not_kept():
    listener = _RedirectListener(0)
    waiting = asyncio.create_task(listener.wait_for_code())
    await asyncio.sleep(0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    with contextlib.suppress(ConnectionError):
        for _ in range(64):
            writer.write(b"x" * 65_536)
            await writer.drain()
        assert b"" == await reader.read()
    writer.close()
    waiting.cancel()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "5",
        '{"tokens": 5}',
        '{"tokens": {}}',
        '{"client": []}',
        '{"client": {"redirect_uris": 5}}',
        "[" * 10_000,
        "\0",
    ],
)
async def test_a_damaged_file_of_tokens_is_no_login(tmp_path, content):
    server = McpServerConfig(name="far", transport=HttpTransport(url=URL, oauth=True))
    (tmp_path / f"{server.identity}.json").write_text(content)
    with pytest.raises(OAuthFlowError, match="no user has logged in"):
        OAuthLogins(tmp_path).auth(server, URL)
    OAuthLogins(tmp_path, show=show).auth(server, URL)


def test_tokens_of_one_address_are_not_those_of_another(tmp_path):
    servers = [
        McpServerConfig(name="far", transport=HttpTransport(url=url)) for url in (URL, URL + "2", "http://8.8.8.8/mcp")
    ]
    (tmp_path / f"{servers[0].identity}.json").write_text(json.dumps({"tokens": {"access_token": "t"}}))

    assert [True, False, False] == [OAuthLogins(tmp_path).has_login(server) for server in servers]
