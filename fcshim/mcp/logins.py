"""Logins to remote servers, with the SDK's OAuth client.

Rule: a login needs a user at a terminal; without one, stored tokens are used, or the error says to log in. Token files
are readable by their owner only; the URL of a login is shown, never opened. What the server names for the login is
untrusted: pages have a size limit, and a public server cannot name a private address.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

from fcshim.events import JSON
from fcshim.mcp.http_client import UNCOMPRESSED, SizeLimitedStream
from fcshim.mcp.settings import HttpTransport, McpServerConfig, OAuthClient

ShowUrl: TypeAlias = Callable[[str], Awaitable[None]]
"""Shows the user the URL at which to log in."""

_LOGIN_SECONDS = 300.0
"""Seconds for the user to log in."""
_HEAD_LIMIT = 16 * 1024
_PAGE_LIMIT = 256 * 1024
"""Bytes of a page of the login, such as the metadata of the authorisation server."""
_DONE_PAGE = b"<!doctype html><title>fcshim</title><p>That is all; you can close this page.</p>"


class OAuthLogins:
    """The tokens of remote servers, in a folder. With `show` the user can log in; without it they must exist."""

    def __init__(self, folder: Path, *, show: ShowUrl | None = None) -> None:
        self._folder = folder
        self._show = show

    def has_login(self, server: McpServerConfig) -> bool:
        """Return whether the user has logged in to the server, or can log in now."""
        return self._show is not None or (self._folder / f"{server.identity}.json").exists()

    def auth(self, server: McpServerConfig, url: str) -> httpx2.Auth:
        """Return the handler that adds the server's token to requests. Raises `OAuthFlowError` without a login."""
        return _GuardedAuth(self._provider(server, url))

    def _provider(self, server: McpServerConfig, url: str) -> httpx2.Auth:
        client = server.transport.oauth_client if isinstance(server.transport, HttpTransport) else None
        grants = _TokenFile(self._folder / f"{server.identity}.json", client)
        if self._show is None:
            if not grants.has_tokens:
                raise OAuthFlowError("no user has logged in")
            return OAuthClientProvider(url, _metadata("http://127.0.0.1/callback"), grants)
        listener = _RedirectListener(grants.redirect_port)
        if client is not None and listener.port != (client.redirect_port or listener.port):
            raise OAuthFlowError(f"port {client.redirect_port} of the registered redirect URI is taken")
        if listener.port != grants.redirect_port:
            grants.forget_client()  # it was registered with a redirect port that is taken now
        return OAuthClientProvider(
            url, _metadata(listener.redirect_uri), grants, listener.showing(self._show), listener.wait_for_code
        )


class _GuardedAuth(httpx2.Auth):
    """Limits the requests of a login: where they go, and how much of an answer is read."""

    def __init__(self, provider: httpx2.Auth) -> None:
        self._provider = provider

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._provider.async_auth_flow(request)
        try:
            sent = await anext(flow)
            while True:
                await _check_address(sent.url, request.url)
                response = yield sent
                if sent is not request or response.status_code >= 400:
                    if response.headers.get("content-encoding", "").lower() not in UNCOMPRESSED:
                        raise OAuthFlowError(f"the answer of {sent.url.host} is packed, which was not asked for")
                    response.stream = SizeLimitedStream(response.stream, _PAGE_LIMIT)
                sent = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


async def _check_address(url: httpx2.URL, server: httpx2.URL) -> None:
    """Refuse a private address that a public server names. Raises `OAuthFlowError`."""
    if (url.host, url.port) == (server.host, server.port) or not await _is_public_host(server.host):
        return
    if url.scheme != "https" and server.scheme == "https":
        raise OAuthFlowError(f"the server names {url.host} without encryption; expected https")
    if not await _is_public_host(url.host):
        raise OAuthFlowError(f"the server names {url.host}, a private address; expected a public one")


async def _is_public_host(host: str) -> bool:
    from fcshim.tools.builtin.addresses import is_public  # noqa: PLC0415 - of an extra

    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return True  # it cannot be connected to
    return all(is_public(str(address[0])) for *_, address in found)


def default_login_folder(env: Mapping[str, str]) -> Path:
    """Return the default folder of logins."""
    state = env.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "fcshim" / "mcp-logins"


def _metadata(redirect_uri: str) -> OAuthClientMetadata:
    return OAuthClientMetadata.model_validate({"client_name": "fcshim", "redirect_uris": [redirect_uri]})


def _registered(client: OAuthClient) -> OAuthClientInformationFull:
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.client_secret,
        token_endpoint_auth_method="none" if client.client_secret is None else client.auth_method,
    )


def _read_token_file(file: Path) -> dict[str, JSON]:
    """Return the parts of a file that are valid; none if it is damaged: the user can log in again."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    valid: dict[str, JSON] = {}
    for name, model in (("tokens", OAuthToken), ("client", OAuthClientInformationFull)):
        if isinstance(data, dict) and name in data:
            with contextlib.suppress(ValidationError):
                model.model_validate(data[name])
                valid[name] = data[name]
    return valid


class _TokenFile:
    """One server's file, as a token storage of the SDK; a `client` of the settings is not stored, and overrides it."""

    def __init__(self, file: Path, client: OAuthClient | None) -> None:
        self._file = file
        self._client = client
        self._data = _read_token_file(file)

    @property
    def has_tokens(self) -> bool:
        return "tokens" in self._data

    @property
    def redirect_port(self) -> int:
        """The port of the registered redirect URI; 0 if there is none."""
        if self._client is not None:
            return self._client.redirect_port or 0
        addresses = self._data.get("client", {}).get("redirect_uris") or [""]
        return urlsplit(addresses[0]).port or 0

    def forget_client(self) -> None:
        self._data.pop("client", None)

    async def get_tokens(self) -> OAuthToken | None:
        return OAuthToken.model_validate(self._data["tokens"]) if self.has_tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._save("tokens", tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._client is not None:
            return _registered(self._client)
        return OAuthClientInformationFull.model_validate(self._data["client"]) if "client" in self._data else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._save("client", client_info.model_dump(mode="json", exclude_none=True))

    def _save(self, name: str, value: JSON) -> None:
        self._data[name] = value
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self._file.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self._data, file)
        new.replace(self._file)


class _RedirectListener:
    """Listens on this machine for the redirect of the user's browser after the login."""

    def __init__(self, preferred_port: int) -> None:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", preferred_port))
            except OSError:
                probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._state = ""

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    def showing(self, show: ShowUrl) -> ShowUrl:
        """Return the function that shows the URL of a login, and notes the state that its redirect must have."""

        async def note_and_show(url: str) -> None:
            self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
            await show(url)

        return note_and_show

    async def wait_for_code(self) -> AuthorizationCodeResult:
        """Return the code of the redirect. Raises `OAuthFlowError` if the user refused, or took too long."""
        received: asyncio.Future[dict[str, list[str]]] = asyncio.get_running_loop().create_future()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode("ascii", "replace")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + _DONE_PAGE)
                await writer.drain()
                address = urlsplit(target)
                query = parse_qs(address.query)
                # Another page or program may send a code or an error, to end the login or to replace its user.
                is_ours = address.path == "/callback" and query.get("state", [""])[0] == self._state
                if not received.done() and is_ours and ("code" in query or "error" in query):
                    received.set_result(query)
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", self.port, limit=_HEAD_LIMIT)
        async with server:
            try:
                async with asyncio.timeout(_LOGIN_SECONDS):
                    query = await received
            except TimeoutError:
                raise OAuthFlowError("the login timed out") from None
        if "code" not in query:
            raise OAuthFlowError(f"the login was refused: {query['error'][0][:200]}")
        first = {name: values[0] for name, values in query.items() if name in ("code", "state", "iss")}
        return AuthorizationCodeResult(**first)
