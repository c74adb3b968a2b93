"""Where an endpoint lies: the address that paths are appended to, and the one below which its API lies.

Rule: an address that names a version keeps it.
Neighbours: `endpoint` sends there, the doctor tries several.
"""

import re
from urllib.parse import urlsplit

_VERSION = re.compile(r"/v\d")


def api_url(url: str, version: str = "/v1") -> str:
    """Give the address that paths such as `/chat/completions` are appended to.

    `version` is added, unless the path names one somewhere (`/v1`, `/api/paas/v4`, `/v1beta/openai`).
    """
    url = url.rstrip("/")
    return url if _VERSION.search(urlsplit(url).path) else url + version


def root_url(url: str) -> str:
    """Give the address that the versioned API lies below."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{_VERSION.split(parts.path, maxsplit=1)[0]}"
