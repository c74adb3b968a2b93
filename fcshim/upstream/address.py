"""URLs of an endpoint: of its versioned API, and of its root.

Rule: a URL that names a version keeps it.
"""

import re
from urllib.parse import urlsplit

_VERSION = re.compile(r"/v\d")


def api_url(url: str, version: str = "/v1") -> str:
    """Return the URL to which paths such as `/chat/completions` are appended.

    `version` is added unless the path names one anywhere (`/v1`, `/api/paas/v4`, `/v1beta/openai`).
    """
    url = url.rstrip("/")
    return url if _VERSION.search(urlsplit(url).path) else url + version


def root_url(url: str) -> str:
    """Return the URL without the versioned part of its path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{_VERSION.split(parts.path, maxsplit=1)[0]}"
