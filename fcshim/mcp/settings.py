"""The configuration of a server: how to reach it, and what it may do.

Rule: values only; secrets (environment, headers, arguments) never appear in a `repr`.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from fcshim.events import JSON

DEFAULT_TIMEOUT = 120.0
"""Seconds for one call, as other hosts allow; builds and searches take that long."""


class StdioTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A program that speaks MCP on its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None

    def __repr__(self) -> str:
        return f"StdioTransport({self.command!r}, {len(self.args)} args)"


class NpmTransport(msgspec.Struct, frozen=True, kw_only=True):
    """An npm package, best with its exact version, which `npx` installs and runs; it speaks MCP over stdio."""

    package: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None

    def __repr__(self) -> str:
        return f"NpmTransport({self.package!r}, {len(self.args)} args)"


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """The OAuth client that a server's operator has registered for fcshim; without one, the first login registers one.

    `redirect_port` is that of the registered redirect URI, `http://127.0.0.1:PORT/callback`; None: the server takes any
    port of this machine (RFC 8252, 7.3). `auth_method` is how the secret is sent (RFC 7591, 2).
    """

    client_id: Annotated[str, msgspec.Meta(min_length=1)]
    client_secret: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    redirect_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"

    def __repr__(self) -> str:
        return "OAuthClient()"


class HttpTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A server at a URL; `sse` selects the older of the two HTTP transports, `oauth` means that it needs a login.

    `oauth_client`: the client that is registered there for fcshim.
    """

    url: str
    headers: Mapping[str, str] = {}
    sse: bool = False
    oauth: bool = False
    oauth_client: OAuthClient | None = None

    def __repr__(self) -> str:
        return f"HttpTransport({'sse' if self.sse else 'http'})"


class InProcessTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A server object of the SDK (`MCPServer` or `Server`) in this process."""

    server: JSON


class UnusableTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A server whose settings need something that is not there, such as an environment variable."""

    reason: str


ServerTransport: TypeAlias = StdioTransport | NpmTransport | HttpTransport | InProcessTransport | UnusableTransport


class McpServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server; `timeout` is per call, `allow` has patterns of names of tools that run without approval.

    With `trust` `annotations` tools that the server marks as read-only run without approval too.
    """

    name: str
    transport: ServerTransport
    timeout: float = DEFAULT_TIMEOUT
    allow: tuple[str, ...] = ()
    trust: Literal["", "annotations"] = ""
    category: str = ""
    """What its tools are for, for rules and lists; empty for `mcp`."""
    cache: float = 0.0
    """Seconds for which the result of a tool that only reads is cached; 0 for never."""
    handshake: bool = False
    """Use the protocol before 2026 without probing first, for servers that ignore the probe or fail at it."""

    warning: str = ""
    """A warning about the settings, for the user."""

    @property
    def identity(self) -> str:
        """A digest of the name and of the program or URL: another program under the same name is another server."""
        match self.transport:
            case StdioTransport(command=command, args=args):
                parts = ("stdio", command, *args)
            case NpmTransport(package=package, args=args):
                parts = ("npm", package, *args)
            case HttpTransport(url=url, sse=sse):
                parts = ("sse" if sse else "http", url)
            case InProcessTransport():
                parts = ("in-process",)
            case UnusableTransport():
                parts = ("unusable",)
        return hashlib.sha256("\0".join((self.name, *parts)).encode()).hexdigest()
