"""Resolves how an endpoint is reached: through an egress proxy or directly, and with which certificate authorities.

Rule: a loopback address is always reached directly. The environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`) counts
only where a section of several upstreams is used; one upstream is always reached directly.
"""

import ipaddress
import ssl
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from fcshim.config.credentials import is_credential
from fcshim.config.secret import Secret
from fcshim.config.upstreams import DIRECT, UpstreamConfig
from fcshim.errors import ConfigError
from fcshim.files import read_limited


class Egress(msgspec.Struct, frozen=True, kw_only=True):
    """The headers that an endpoint gets with every request, its egress proxy, and its certificate authorities.

    `proxy` is a URL, which may contain a password; None for a direct connection.
    """

    headers: tuple[tuple[str, Secret], ...] = ()
    proxy: Secret | None = None
    ca_file: str | None = None

    def secrets(self) -> list[Secret]:
        """Return the credentials in the headers, without a scheme such as `Bearer`."""
        named = [value.reveal() for name, value in self.headers if is_credential(name, parameter=True)]
        return [Secret(value.rpartition(" ")[2]) for value in named]

    def ssl_context(self) -> ssl.SSLContext | None:
        """Load the certificate authorities; None for those of the system. Raises `ConfigError`."""
        if self.ca_file is None:
            return None
        try:
            read_limited(Path(self.ca_file), 0)  # OpenSSL would wait for a FIFO
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # ssl.SSLError, too
            reason = error.strerror or "it holds no certificate"
            raise ConfigError(f"ca_file: cannot read {self.ca_file}: {reason}") from error


NO_EGRESS = Egress()


def egress_for(section: UpstreamConfig) -> Egress:
    """Return how the endpoint of a section is reached. Raises `ConfigError`."""
    return Egress(
        headers=tuple((name.lower(), value) for name, value in section.headers.items()),
        proxy=_proxy(section),
        ca_file=section.ca_file,
    )


def _proxy(section: UpstreamConfig) -> Secret | None:
    address = urlsplit(section.url)
    host = address.hostname or ""
    configured = section.proxy.reveal() if section.proxy is not None else None
    if _is_loopback(host) or configured == DIRECT:
        return None
    if configured is None and not proxy_bypass(host):
        configured = getproxies().get(address.scheme)
    if not configured:
        return None
    if urlsplit(configured).scheme not in {"http", "https"}:
        raise ConfigError("the egress proxy: expected a URL that starts with http:// or https://, or 'direct'")
    return Secret(configured)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
