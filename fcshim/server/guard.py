"""Access checks: the size of the request head, host names, web origins, API keys, content types.

Rule: a request is rejected before its body is read and before anything is sent upstream. Bytes of the head are counted
as they arrive, so that an endless head cannot exhaust memory; uvicorn has no limit of its own.
"""

import hmac
import ipaddress
from urllib.parse import parse_qsl

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fcshim.codecs.routes import find_route
from fcshim.config import Config
from fcshim.errors import RequestError
from fcshim.server.client_connection import ClientConnection, Headers

_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\ncontent-length: 107\r\nconnection: close\r\n\r\n"
    b'{"error":{"message":"the request\'s head is too large","type":"headers_too_large","param":null,"code":null}}'
)


_MAX_HEADER_COUNT = 256
"""Headers of one request; browsers send 20. Each costs a call, and some libraries search them one after the other."""


class _TooManyHeadersError(Exception):
    """A head has more than `_MAX_HEADER_COUNT` headers."""


def limited_protocol(max_headers: int) -> type[HttpToolsProtocol]:
    """Make a protocol class that answers 431 to a head above `max_headers` bytes or with too many headers."""

    class LimitedProtocol(HttpToolsProtocol):
        """One connection."""

        _head_bytes = 0
        _in_head = True

        def data_received(self, data: bytes) -> None:
            """Count the bytes of an incomplete head.

            A head that this read completes is checked by `RequestGuard`.
            """
            super().data_received(data)
            if self._in_head:
                self._head_bytes += len(data)
                if self._head_bytes > max_headers and not self.transport.is_closing():
                    self.transport.write(_REFUSAL)
                    self.transport.close()

        def on_message_begin(self) -> None:
            """A request head starts."""
            self._in_head, self._head_bytes = True, 0
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            """Take a header. Raises `_TooManyHeadersError`, which ends the parsing."""
            if len(self.headers) == _MAX_HEADER_COUNT:
                raise _TooManyHeadersError
            super().on_header(name, value)

        def send_400_response(self, msg: str) -> None:
            """Answer what could not be parsed."""
            if self._in_head and len(self.headers) == _MAX_HEADER_COUNT:
                self.transport.write(_REFUSAL)
                self.transport.close()
            else:
                super().send_400_response(msg)

        def on_headers_complete(self) -> None:
            """A request head is complete."""
            self._in_head = False
            super().on_headers_complete()

    return LimitedProtocol


_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_MULTIPART = b"multipart/form-data"
_SIMPLE_CONTENT_TYPES = frozenset({b"", b"text/plain", b"application/x-www-form-urlencoded"})
"""Content types that a web page can send to any origin without a CORS preflight, as `multipart/form-data` is."""


class RequestGuard:
    """The access checks of one configuration."""

    def __init__(self, config: Config) -> None:
        self._keys = [key.reveal().encode() for key in config.api_keys]
        self._origins = frozenset(config.allow_origins)
        self._max_headers = config.max_headers
        self._hosts = frozenset(host.lower() for host in config.allowed_hosts)
        # A server on a loopback address has known names. For any other address, only configured names can be checked.
        if is_loopback(config.host):
            self._hosts |= _LOOPBACK_NAMES | {config.host.lower()}

    def check(self, connection: ClientConnection) -> None:
        """Raise `RequestError` if the request is not allowed. `check_key` checks the API key."""
        if sum(len(name) + len(value) + 4 for name, value in connection.headers) > self._max_headers:
            raise RequestError("the request's head is too large", status=431, kind="headers_too_large")
        if connection.path_problem:
            raise RequestError(f"the path {connection.path!r:.200} is not valid: {connection.path_problem}")
        self._check_host(connection)
        self._check_origin(connection)
        self._check_content_type(connection)

    def check_key(self, connection: ClientConnection) -> None:
        """Raise `RequestError` (401) unless the client sent one of the configured keys.

        Every key is compared, in constant time, so timing tells nothing about them.
        """
        given = client_key(connection.headers, connection.query)
        if self._keys and not any([hmac.compare_digest(given, key) for key in self._keys]):  # noqa: C419 - no early end
            problem = "an API key is needed" if not given else "this API key is not known"
            raise RequestError(
                f"{problem}; send it as 'Authorization: Bearer KEY'", status=401, kind="authentication_error"
            )

    def cors_headers(self, connection: ClientConnection) -> list[tuple[bytes, bytes]]:
        """Return the headers that let an allowed web origin read the response."""
        origin = connection.header(b"origin")
        if not self._origins or not origin:
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]

    def _check_host(self, connection: ClientConnection) -> None:
        """Reject unknown host names.

        This stops DNS rebinding: a web page whose host name resolves to a loopback address still sends its own name.
        """
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
                f"web origin {origin!r:.100} is not allowed; allow it with --allow-origin", status=403, kind="forbidden"
            )

    def _check_content_type(self, connection: ClientConnection) -> None:
        """Reject bodies that a web page could send without a CORS preflight.

        Multipart uploads pass on relayed paths: `_check_origin` has already rejected those that carry a foreign origin.
        """
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
    """Return the key that the client sent, by any of the supported headers or in the query; empty if there is none."""
    # Reversed, so that of repeated headers the first counts.
    values = dict(reversed(headers))
    scheme, _, token = values.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return token.strip()
    return values.get(b"x-api-key") or values.get(b"x-goog-api-key") or _query_key(query)


def header_names(connection: ClientConnection) -> set[bytes]:
    """Return the names of the request's headers, which tell which API the client speaks.

    A key in the query counts as its header.
    """
    names = {name for name, _ in connection.headers}
    return names | {b"x-goog-api-key"} if _query_key(connection.query) else names


def _query_key(query: bytes) -> bytes:
    """Return the key in a query (`?key=`), as Google's clients may send it, if it is valid as a header value."""
    if b"key=" not in query:
        return b""
    fields = parse_qsl(query.decode("latin-1"))  # given bytes, parse_qsl accepts ASCII only
    key = next((value for name, value in fields if name == "key"), "")
    return key.encode() if key.isascii() and key.isprintable() else b""


def is_loopback(host: str) -> bool:
    """Tell whether a server that listens on this host is reachable only from this machine."""
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
