"""Access checks: the size of the request head, host names, web origins, API keys, content types.

Rule: a request is rejected before its body is read and before anything is sent upstream. What needs a key is decided
here only, for every path.
"""

import functools
import hmac
import ipaddress
import re
from urllib.parse import parse_qsl

from fcshim.codecs.routes import find_route
from fcshim.config import Config
from fcshim.errors import ConfigError, RequestError
from fcshim.server.client_connection import ClientConnection, Headers

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN_PATHS = frozenset({"/health"})
"""Paths that need neither a key nor a known host name: orchestrators ask by address. They reveal nothing."""
LOCAL_PATHS = frozenset({"/", "/metrics", "/ready"})
"""Paths about the process, beside `/health`; on a loopback address they need no key either."""
_FOREIGN_SITES = frozenset({b"cross-site", b"same-site"})
_PROBED_METHODS = frozenset({"GET", "HEAD"})
_MULTIPART = b"multipart/form-data"
FORM_CONTENT_TYPE = b"application/x-www-form-urlencoded"
_SIMPLE_CONTENT_TYPES = frozenset({b"", b"text/plain", FORM_CONTENT_TYPE})
"""Content types that a web page can send to any origin without a CORS preflight, as `multipart/form-data` is."""
_CURL_CONTENT_TYPES = frozenset({b"", FORM_CONTENT_TYPE})
"""What `curl -d` and simple programs say of JSON."""


_HOST = re.compile(r"(?:\[([0-9a-f:.%]+)\]|([^\[\]:]+))(?::[0-9]*)?")
"""A host and perhaps a port (RFC 9112, 3.2); an IPv6 address stands in brackets."""


class RequestGuard:
    """The access checks of one configuration."""

    def __init__(self, config: Config) -> None:
        self._keys = [key.reveal().encode() for key in config.api_keys]
        self._origins = frozenset(config.allow_origins)
        self._max_headers = config.max_headers
        self._hosts = frozenset(host.lower() for host in config.allowed_hosts)
        # A server on a loopback address has known names. For any other address, only configured names can be checked.
        self._is_local = is_loopback(config.host)
        if self._is_local:
            self._hosts |= _LOOPBACK_NAMES | {config.host.lower()}

    def check(self, connection: ClientConnection) -> None:
        """Raise `RequestError` if the request is not allowed. `check_key` checks the API key."""
        if sum(len(name) + len(value) + 4 for name, value in connection.headers) > self._max_headers:
            raise RequestError("the request's head is too large", status=431, kind="headers_too_large")
        if connection.path_problem:
            raise RequestError(f"the path {connection.path!r:.200} is not valid: {connection.path_problem}")
        self._check_address(connection)
        self._check_host(connection)
        self._check_origin(connection)
        if b"websocket" in connection.header(b"upgrade").lower():  # other offers to upgrade are ignored
            raise RequestError("WebSockets are not served here; expected an HTTP request, whose reply can be a stream")
        self._check_content_type(connection)

    def check_key(self, connection: ClientConnection) -> None:
        """Raise `RequestError` (401) unless the client sent one of the configured keys.

        An orchestrator's probe cannot send one (Kubernetes takes no headers from secrets): `/ready` answers it without
        details.
        """
        is_probe = connection.path == "/ready" and connection.method in _PROBED_METHODS
        if connection.path in _OPEN_PATHS or is_probe or self.is_known(connection):
            return
        given = client_key(connection.headers, connection.query)
        problem = "an API key is needed" if not given else "this API key is not known"
        raise RequestError(
            f"{problem}; send it as 'Authorization: Bearer KEY'", status=401, kind="authentication_error"
        )

    def is_known(self, connection: ClientConnection) -> bool:
        """Return whether the client sent one of the configured keys, or needs none.

        Every key is compared, in constant time, so timing reveals nothing about them.
        """
        if not self._keys or (self._is_local and connection.path in LOCAL_PATHS):
            return True
        given = client_key(connection.headers, connection.query)
        return any([hmac.compare_digest(given, key) for key in self._keys])  # noqa: C419 - no early end

    def cors_headers(self, connection: ClientConnection) -> list[tuple[bytes, bytes]]:
        """Return the headers that let an allowed web origin read the response."""
        origin = connection.header(b"origin")
        if not self._origins or not origin or is_inspector(connection.path):
            return []
        return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]

    def _check_address(self, connection: ClientConnection) -> None:
        """Reject requests from other machines if the settings demand no key because they name a loopback address.

        Our own server listens where the settings say; another ASGI server may listen anywhere.
        """
        if self._is_local and not is_loopback(connection.own_address) and connection.path not in _OPEN_PATHS:
            raise RequestError(
                f"the server is reached at {connection.own_address or 'an unknown address'}, but its settings say that "
                "it listens on loopback: expected FCSHIM_HOST with its address, and FCSHIM_API_KEYS",
                status=403,
                kind="forbidden",
            )

    def _check_host(self, connection: ClientConnection) -> None:
        """Reject unknown host names.

        This stops DNS rebinding: a web page whose host name resolves to a loopback address still sends its own name.
        """
        if connection.path in _OPEN_PATHS or not self._hosts:
            return
        names = [value for name, value in connection.headers if name == b"host"]
        found = _HOST.fullmatch(names[0].decode("latin-1").strip().lower()) if len(names) == 1 else None
        host = (found[1] or found[2].removesuffix(".")) if found else ""  # a complete name ends with a dot
        if len(names) != 1 or host not in self._hosts:
            raise RequestError(
                f"host {connection.header(b'host').decode('latin-1')!r:.100} is not served here; "
                "allow it with --allowed-host",
                status=403,
                kind="forbidden",
            )

    def _check_origin(self, connection: ClientConnection) -> None:
        """Reject requests of web origins that are not allowed, and what other sites load without an origin.

        That is an image or a script. The page cannot read it, but each load costs a request upstream or one of the
        inspector's streams. A link that the user follows is served.
        """
        origin = connection.header(b"origin").decode("latin-1")
        if is_inspector(connection.path):
            # Only the inspector's own page may read captures, whatever origins may use the API.
            own = connection.header(b"host").decode("latin-1")
            if origin and origin not in {f"http://{own}", f"https://{own}"}:
                raise RequestError(f"web origin {origin!r:.100} is not allowed here", status=403, kind="forbidden")
        elif origin and not self._origins & {origin, "*"}:
            raise RequestError(
                f"web origin {origin!r:.100} is not allowed; allow it with --allow-origin", status=403, kind="forbidden"
            )
        site, mode = connection.header(b"sec-fetch-site"), connection.header(b"sec-fetch-mode")
        is_foreign = site in _FOREIGN_SITES and mode != b"navigate" and not origin
        if is_foreign and connection.path not in _OPEN_PATHS:
            raise RequestError("a page of another site may not load this", status=403, kind="forbidden")

    def _check_content_type(self, connection: ClientConnection) -> None:
        """Reject bodies that a web page could send without a CORS preflight.

        Multipart uploads pass on relayed paths: `_check_origin` has already rejected those that carry a foreign origin.
        What `curl -d` sends passes where no browser has sent it: browsers name the page's origin or site.
        """
        is_empty = connection.header(b"content-length") in {b"", b"0"} and not connection.header(b"transfer-encoding")
        if connection.method not in {"POST", "PUT", "PATCH"} or is_empty:
            return
        kind = connection.header(b"content-type").partition(b";")[0].strip().lower()
        if kind in _CURL_CONTENT_TYPES and not (connection.header(b"origin") or connection.header(b"sec-fetch-site")):
            return
        if kind in _SIMPLE_CONTENT_TYPES or (
            kind == _MULTIPART and find_route(connection.method, connection.path, header_names(connection)).operation
        ):
            raise RequestError(
                "expected the header 'Content-Type: application/json'", status=415, kind="unsupported_media_type"
            )


_KEY_HEADERS = (b"x-api-key", b"x-goog-api-key", b"api-key")
"""Headers of a key beside `authorization`: those of Anthropic, Google and Azure."""


def client_key(headers: Headers, query: bytes = b"") -> bytes:
    """Return the key that the client sent, by any of the supported headers or in the query; empty if there is none."""
    # Reversed, so that of repeated headers the first counts.
    values = dict(reversed(headers))
    scheme, _, token = values.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return token.strip()
    named = (values.get(name) for name in _KEY_HEADERS)
    return next(filter(None, named), b"") or _query_key(query)


def header_names(connection: ClientConnection) -> set[bytes]:
    """Return the names of the request's headers, which show which API the client speaks.

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


@functools.lru_cache(maxsize=32)  # each request asks, and a machine has few addresses
def is_loopback(host: str) -> bool:
    """Return whether a server that listens on this host is reachable only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_about_proxy(path: str) -> bool:
    """Return whether a path belongs to no client API: probes, metrics, the status page, and all below `/fcshim`.

    They are not observed: the probes of an orchestrator would be most of the requests that metrics count.
    """
    return path in _OPEN_PATHS or path in LOCAL_PATHS or path == "/fcshim" or path.startswith("/fcshim/")


def is_inspector(path: str) -> bool:
    """Return whether a path belongs to the inspector."""
    return path.startswith("/fcshim/") and path != "/fcshim/models"


def check_exposure(config: Config) -> None:
    """Refuse to serve others without a key. Raises `ConfigError`."""
    if not is_loopback(config.host) and not config.api_keys:
        raise ConfigError(f"{config.host or 'the address'} can be reached from outside: expected --api-key")
