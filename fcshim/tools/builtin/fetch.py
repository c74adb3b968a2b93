"""Loads a web page within limits.

Rule: only http and https, public addresses and a few redirects; the address of every connection is judged as it is
opened; the decompressed size and the total time are limited.
"""

import asyncio
import codecs
import re
import zlib
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec

from fcshim.errors import ToolError
from fcshim.tools.builtin.addresses import public_socket

DEFAULT_SECONDS = 30.0
SIZE_LIMIT = 5 * 2**20
"""Bytes of a page after decompression."""
_MAX_REDIRECTS = 5
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; fcshim)",
    "Accept": "text/html, application/xhtml+xml, text/*;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
_CHARSET = re.compile(rb"<meta[^>]{0,100}charset\s*=\s*[\"']?([A-Za-z0-9_-]{1,40})")

_NO_CHARSETS = frozenset({"idna", "punycode", "undefined"})
"""Python's codecs that are not for text of pages: 400 KB of punycode block the event loop for 35 s."""


class WebPage(msgspec.Struct, frozen=True):
    """A loaded page; `url` is its address after redirects."""

    url: str
    media_type: str
    text: str


async def fetch(url: str, *, allow_private: bool = False, seconds: float = DEFAULT_SECONDS) -> WebPage:
    """Load a page within `seconds`. Raises `ToolError`."""
    try:
        async with asyncio.timeout(seconds):
            connector = aiohttp.TCPConnector(socket_factory=None if allow_private else public_socket, force_close=True)
            async with aiohttp.ClientSession(
                connector=connector, headers=_HEADERS, auto_decompress=False, trust_env=False
            ) as session:
                return await _follow_redirects(session, url)
    except TimeoutError:
        raise ToolError(f"{url} did not come within {seconds:g} seconds.") from None
    except (aiohttp.ClientError, OSError, ValueError, zlib.error) as error:
        raise ToolError(f"{url} cannot be loaded: {error}") from error


async def _follow_redirects(session: aiohttp.ClientSession, url: str) -> WebPage:
    for _ in range(_MAX_REDIRECTS + 1):
        _check_url(url)
        async with session.get(url, allow_redirects=False) as response:
            target = response.headers.get("Location")
            if response.status in (301, 302, 303, 307, 308) and target:
                url = urljoin(url, target)
                continue
            if response.status >= 400:
                raise ToolError(f"{url} answered {response.status} {response.reason}.")
            return WebPage(url, response.content_type, _decode(await _read_body(response), response.charset))
    raise ToolError(f"{url} leads on and on.")


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ToolError(f"{url[:200]!r} is not an http or https URL.")
    if parts.username or parts.password:
        raise ToolError("A URL with a password in it is not loaded.")


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Read and decompress up to the limit: a small body can decompress to gigabytes."""
    decompressor = _decompressor(response.headers.get("Content-Encoding", ""))
    body = bytearray()
    async for data in response.content.iter_any():
        body += data if decompressor is None else decompressor.decompress(data, SIZE_LIMIT + 1 - len(body))
        if len(body) > SIZE_LIMIT:
            raise ToolError(f"{response.url} is larger than {SIZE_LIMIT} bytes.")
    return bytes(body)


def _decompressor(encoding: str) -> "zlib._Decompress | None":
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # detects gzip or zlib by its header
        case other:
            raise ToolError(f"The page is packed as {other[:40]}, which was not asked for.")


def _decode(body: bytes, charset: str | None) -> str:
    found = _CHARSET.search(body[:2_048])
    for name in (charset, found[1].decode() if found else None, "utf-8"):
        try:
            if name and codecs.lookup(name).name not in _NO_CHARSETS:
                return body.decode(name, errors="replace")
        except (LookupError, ValueError):
            continue
    return body.decode(errors="replace")
