"""The address of the store for what the proxy remembers: `memory`, a file, or a server.

Rule: an address never holds a password, since logs and messages show addresses.
"""

from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

from fcshim.errors import ConfigError

StoreKind = Literal["memory", "sqlite", "redis"]

MEMORY = "memory"
_SCHEMES = {"redis": False, "rediss": True, "valkey": False, "valkeys": True}
"""For each scheme of a server whether the connection is encrypted."""
_DEFAULT_PORT = 6379
_EXPECTED = (
    "expected memory, sqlite:PATH, or a server such as redis://127.0.0.1:6379/0 (rediss://, valkey://, valkeys://)"
)


class StoreAddress(msgspec.Struct, frozen=True):
    """A store: the path of its file, or the host, port, database and user name of its server."""

    kind: StoreKind
    path: str = ""
    host: str = ""
    port: int = _DEFAULT_PORT
    database: int = 0
    user: str = ""
    tls: bool = False


def parse_store_address(text: str) -> StoreAddress:
    """Parse the setting `store`. Raises `ConfigError`."""
    scheme, _, rest = text.partition(":")
    if text == MEMORY:
        return StoreAddress("memory")
    if scheme == "sqlite" and rest and "\0" not in rest:
        return StoreAddress("sqlite", path=rest)
    if scheme in _SCHEMES:
        return _server_address(text, tls=_SCHEMES[scheme])
    shown = scheme if "@" in text else text  # an address of another kind may hold a password, too
    raise ConfigError(f"store: {_EXPECTED}, got {shown!r:.80}")


def _server_address(text: str, *, tls: bool) -> StoreAddress:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise ConfigError(f"store: {_EXPECTED}") from None
    if url.password is not None:
        raise ConfigError("store: expected an address without a password, which has its own setting, store_key")
    database = url.path.strip("/") or "0"
    if not url.hostname or port == 0 or url.query or url.fragment or not (database.isascii() and database.isdigit()):
        raise ConfigError(f"store: {_EXPECTED}")
    user = unquote(url.username or "")
    return StoreAddress("redis", "", url.hostname, port or _DEFAULT_PORT, int(database[:9]), user, tls)
