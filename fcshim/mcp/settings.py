"""What is known of a server before it is asked anything: how it is reached, and what it may.

Rule: values only; secrets (environment, headers, arguments) never show themselves in a `repr`.
Neighbours: `load` reads them from a file, `links` opens the connection that they describe.
"""

import hashlib
from collections.abc import Mapping
from typing import TypeAlias

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
        return f"Command({self.command!r}, {len(self.args)} args)"


class NpmTransport(msgspec.Struct, frozen=True, kw_only=True):
    """An npm package, with its exact version, that `npx` installs and runs; it speaks as a `Command` does."""

    package: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None

    def __repr__(self) -> str:
        return f"Package({self.package!r}, {len(self.args)} args)"


class HttpTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A server that is reached over HTTP; `sse` is the older of the two ways, `oauth` needs a login."""

    url: str
    headers: Mapping[str, str] = {}
    sse: bool = False
    oauth: bool = False

    def __repr__(self) -> str:
        return f"Endpoint({'sse' if self.sse else 'http'})"


class InProcessTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A server object of the SDK (`MCPServer` or `Server`) in this process."""

    server: JSON


ServerTransport: TypeAlias = StdioTransport | NpmTransport | HttpTransport | InProcessTransport


class McpServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One server. `allow` are patterns of its tools' names that run without being asked for."""

    name: str
    transport: ServerTransport
    timeout: float = DEFAULT_TIMEOUT
    allow: tuple[str, ...] = ()
    cache: float = 0.0
    """Seconds for which the result of a tool that only reads may be given again; 0 for never."""
    handshake: bool = False
    """Speak the protocol of before 2026 without asking first: for servers that choke on the question."""

    @property
    def identity(self) -> str:
        """A digest of what is run or asked; another program under the same name is another server."""
        match self.transport:
            case StdioTransport(command=command, args=args):
                parts = ("stdio", command, *args)
            case NpmTransport(package=package, args=args):
                parts = ("npm", package, *args)
            case HttpTransport(url=url, sse=sse):
                parts = ("sse" if sse else "http", url)
            case InProcessTransport():
                parts = ("in-process",)
        return hashlib.sha256("\0".join((self.name, *parts)).encode()).hexdigest()
