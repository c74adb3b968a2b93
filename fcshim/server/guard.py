"""Who may call: host names, web origins, keys, content types.

Rule: everything is refused before the body is read and before the upstream hears of it.
Neighbours: `app` asks for every request.
"""

import hmac
import ipaddress
from urllib.parse import parse_qsl

from fcshim.codecs.routes import find_route
from fcshim.config import Config
from fcshim.errors import RequestError
from fcshim.server.asgi import Headers
from fcshim.server.client_connection import ClientConnection

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_MULTIPART = b"multipart/form-data"
_SIMPLE_CONTENT_TYPES = frozenset({b"", b"text/plain", b"application/x-www-form-urlencoded"})
"""Content types that a web page may send to anybody without asking; `multipart/form-data` is one too."""


class RequestGuard:
    """The checks of one configuration."""

    def __init__(self, config: Config) -> None:
        self._keys = [key.reveal().encode() for key in config.api_keys]
        self._origins = frozenset(config.allow_origins)
        self._max_headers = config.max_headers
        self._hosts = frozenset(host.lower() for host in config.allowed_hosts)
        if is_loopback(config.host):
            self._hosts |= _LOOPBACK_NAMES | {config.host.lower()}

    def check(self, connection: ClientConnection) -> None:
        """Raise `RequestError` where the request may not go on; the key is left to `check_key`."""
        if sum(len(name) + len(value) + 4 for name, value in connection.headers) > self._max_headers:
            raise RequestError("the request's head is too large", status=431, kind="headers_too_large")
        self._check_host(connection)
        self._check_origin(connection)
        self._check_content_type(connection)

    def check_key(self, connection: ClientConnection) -> None:
        """Raise `RequestError` (401) unless the client sent one of the keys; every key is compared in constant time."""
        given = client_key(connection.headers, connection.query)
        if self._keys and not any([hmac.compare_digest(given, key) for key in self._keys]):  # noqa: C419 - no early end
            problem = "an API key is needed" if not given else "this API key is not known"
            raise RequestError(
                f"{problem}; send it as 'Authorization: Bearer KEY'", status=401, kind="authentication_error"
            )

    def cors_headers(self, connection: ClientConnection) -> list[tuple[bytes, bytes]]:
        """Give the headers that let an allowed origin read the response; none where no origin may."""
        origin = connection.header(b"origin")
        if not self._origins or not origin:
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]

    def _check_host(self, connection: ClientConnection) -> None:
        """Refuse names that are not ours: a web page whose name is rebound to a loopback address has another name."""
        if self._hosts and _host_name(connection.header(b"host")) not in self._hosts:
            raise RequestError(
                f"host {connection.header(b'host').decode('latin-1')!r:.100} is not served here; "
                "allow it with --allowed-host",
                status=403,
                kind="forbidden",
            )

    def _check_origin(self, connection: ClientConnection) -> None:
        origin = connection.header(b"origin").decode("latin-1")
        if origin and not self._origins & {origin, "*"}:
            raise RequestError(
                f"web origin {origin!r:.100} may not call; allow it with --allow-origin", status=403, kind="forbidden"
            )

    def _check_content_type(self, connection: ClientConnection) -> None:
        """Refuse bodies that a web page could send unasked; uploads pass where nothing says that a page sent them."""
        if connection.method not in {"POST", "PUT", "PATCH"} or not _has_body(connection):
            return
        kind = connection.header(b"content-type").partition(b";")[0].strip().lower()
        if kind in _SIMPLE_CONTENT_TYPES or (
            kind == _MULTIPART and find_route(connection.method, connection.path, header_names(connection)).operation
        ):
            raise RequestError(
                "expected the header 'Content-Type: application/json'", status=415, kind="unsupported_media_type"
            )


def client_key(headers: Headers, query: bytes = b"") -> bytes:
    """Give the key that the client sent, in whichever way of the APIs in use; empty where there is none."""
    found = dict(reversed(headers))
    scheme, _, token = found.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return token.strip()
    return found.get(b"x-api-key") or found.get(b"x-goog-api-key") or _query_key(query)


def header_names(connection: ClientConnection) -> set[bytes]:
    """Give the names of the headers by which an API's clients are known; a key in the query stands for its header."""
    names = {name for name, _ in connection.headers}
    return names | {b"x-goog-api-key"} if _query_key(connection.query) else names


def _query_key(query: bytes) -> bytes:
    """Give the key that stands in a query, as Google's clients may send it; it may go on as a header."""
    if b"key=" not in query:
        return b""
    fields = parse_qsl(query.decode("latin-1"))  # of bytes, it would take ASCII only
    key = next((value for name, value in fields if name == "key"), "")
    return key.encode() if key.isascii() and key.isprintable() else b""


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a server that listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_name(header: bytes) -> str:
    text = header.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if ":" in text else text


def _has_body(connection: ClientConnection) -> bool:
    return connection.header(b"content-length") not in {b"", b"0"} or bool(connection.header(b"transfer-encoding"))
