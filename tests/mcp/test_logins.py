"""Logins to remote servers by OAuth."""

import asyncio
import contextlib
import json
import socket
import stat

import httpx
import msgspec
import pytest
from mcp.client.auth import OAuthFlowError

from fcshim.mcp import HttpTransport, McpServerConfig
from fcshim.mcp.connection_state import ConnectionState
from fcshim.mcp.logins import OAuthLogins, _RedirectListener
from fcshim.mcp.settings import OAuthClient
from tests.mcp.server_programs import manager, serve_over_http


@pytest.fixture(scope="module")
def guarded():
    with serve_over_http("http", name="guarded") as endpoint:
        yield McpServerConfig(name="far", transport=msgspec.structs.replace(endpoint, oauth=True))


class Browser:
    """A user who opens the page that is shown."""

    def __init__(self):
        self.shown = []
        self.tasks = []

    async def __call__(self, url):
        self.shown.append(url)
        self.tasks.append(asyncio.create_task(self._open(url)))

    async def shown_only(self, url):
        """Show the page to a user who does not open it."""

    async def _open(self, url):
        async with httpx.AsyncClient(follow_redirects=True) as client:
            assert (await client.get(url)).status_code == 200


async def test_without_a_login_the_server_is_not_connected(guarded, tmp_path):
    async with manager(guarded, logins=OAuthLogins(tmp_path)) as servers:
        (status,) = servers.status()

    assert ConnectionState.READY is not status.state
    assert "it needs a login (no user has logged in); run: fcshim tools login" == status.error


async def test_a_login_is_stored(guarded, tmp_path):
    browser = Browser()
    async with manager(guarded, logins=OAuthLogins(tmp_path / "logins", show=browser)) as servers:
        first = await servers.call("far:secret", {})
    async with manager(guarded, logins=OAuthLogins(tmp_path / "logins")) as servers:
        second = await servers.call("far:secret", {})
    (file,) = (tmp_path / "logins").iterdir()

    assert ["the secret", "the secret"] == [first.text, second.text]
    assert 1 == len(browser.shown)
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert {"client", "tokens"} == set(json.loads(file.read_text()))


async def test_a_rejected_token_needs_a_new_login(guarded, tmp_path):
    async with manager(guarded, logins=OAuthLogins(tmp_path, show=Browser())) as servers:
        await servers.call("far:secret", {})
    (file,) = tmp_path.iterdir()
    kept = json.loads(file.read_text())
    kept["tokens"]["access_token"] = "old"
    file.write_text(json.dumps(kept))
    async with manager(guarded, logins=OAuthLogins(tmp_path)) as servers:
        (status,) = servers.status()
    browser = Browser()
    async with manager(guarded, logins=OAuthLogins(tmp_path, show=browser)) as servers:
        result = await servers.call("far:secret", {})

    assert "it needs a login" in status.error
    assert "the secret" == result.text
    assert 1 == len(browser.shown)


def pair_of_free_ports():
    """Return a free port whose successor is free, too: there the server expects its registered client."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port = first.getsockname()[1]
            with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
                return port


async def test_a_client_of_the_settings_is_not_registered(tmp_path):
    browser = Browser()
    port = pair_of_free_ports()
    with serve_over_http("registered", port, name="guarded") as endpoint:
        known = OAuthClient(client_id="known", client_secret="s3cret", redirect_port=port + 1)
        reach = msgspec.structs.replace(endpoint, oauth=True, oauth_client=known)
        logins = OAuthLogins(tmp_path, show=browser)
        async with manager(McpServerConfig(name="far", transport=reach), logins=logins) as servers:
            result = await servers.call("far:secret", {})
    (file,) = tmp_path.iterdir()

    assert "the secret" == result.text
    assert "client_id=known" in browser.shown[0]
    assert {"tokens"} == set(json.loads(file.read_text()))
    assert "s3cret" not in repr(reach)


def test_a_registered_redirect_port_must_be_free(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        known = OAuthClient(client_id="known", redirect_port=taken.getsockname()[1])
        server = McpServerConfig(name="far", transport=HttpTransport(url="http://a", oauth=True, oauth_client=known))
        with pytest.raises(OAuthFlowError, match="of the registered redirect URI is taken"):
            OAuthLogins(tmp_path, show=Browser()).auth(server, "http://a")


async def test_a_plain_server_needs_no_login(tmp_path):
    with serve_over_http("http") as endpoint:
        async with manager(
            McpServerConfig(name="f", transport=HttpTransport(url=endpoint.url)), logins=OAuthLogins(tmp_path)
        ) as servers:
            assert not (await servers.call("f:add", {"a": 1, "b": 2})).is_error


async def brought(query):
    answer = _RedirectListener(0)
    await answer.showing(Browser().shown_only)("https://a/authorize?state=s")
    waiting = asyncio.create_task(answer.wait_for_code())
    async with httpx.AsyncClient() as client:
        for _ in range(100):
            try:
                await client.get(f"http://127.0.0.1:{answer.port}/favicon.ico")
                await client.get(f"{answer.redirect_uri}?{query}")
                break
            except httpx.ConnectError:
                await asyncio.sleep(0.02)
    return await waiting


async def test_the_redirect_carries_the_code():
    result = await brought("code=c&state=s&iss=i&other=x")

    assert ("c", "s", "i") == (result.code, result.state, result.iss)


async def test_a_refused_login_is_reported():
    with pytest.raises(OAuthFlowError, match="the login was refused: access_denied"):
        await brought("error=access_denied&state=s")


async def test_a_login_times_out(monkeypatch):
    monkeypatch.setattr("fcshim.mcp.logins._LOGIN_SECONDS", 0.05)
    with pytest.raises(OAuthFlowError, match="the login timed out"):
        await _RedirectListener(0).wait_for_code()
