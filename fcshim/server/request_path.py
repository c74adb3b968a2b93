"""The path of a request: normalised once, before anything is decided by it.

Rule: what is decided and what is relayed come from the same segments, each decoded once. A path that another server
could read in two ways is rejected: dot segments, however they are encoded, backslashes and control characters.
"""

import re
from urllib.parse import quote, unquote, unquote_to_bytes

import msgspec

_SEGMENT_CHARACTERS = "~!$&'*+,=:@()"
"""Characters that stand for themselves in a segment (RFC 3986, 3.3); `;` starts parameters in some servers."""
_MAX_ENCODINGS = 3
"""Layers of percent-encoding that are looked through: gateways in front of an upstream may decode once more."""
_FORBIDDEN = re.compile(r"[\\\x00-\x1f\x7f]")
_EXPECTED = "expected segments without '.', '..', backslashes and control characters"


class RequestPath(msgspec.Struct, frozen=True):
    """`decoded` is what decisions are made by, `encoded` is the same path for the upstream.

    `problem`: why no request may have this path; empty if it may.
    """

    decoded: str
    encoded: str
    problem: str = ""


def normalize_path(raw: bytes) -> RequestPath:
    """Normalise a path: no empty segments, one way of percent-encoding."""
    text = raw.decode("latin-1")
    segments = [segment for segment in text.split("/") if segment]
    if not text.startswith("/"):
        return RequestPath(text, quote(text), "expected a path that starts with '/'")
    if any(map(_is_ambiguous, segments)):
        return RequestPath(quote(text), quote(text), _EXPECTED)
    if segments and "/" in unquote(segments[0]):
        # Otherwise `/v1%2Fx` would be below /v1 for us, and beside it for the upstream.
        return RequestPath(text, text, "expected no encoded slash before the API's version")
    tail = "/" if segments and text.endswith("/") else ""
    decoded = [unquote(segment) for segment in segments]
    encoded = [quote(unquote_to_bytes(segment), safe=_SEGMENT_CHARACTERS) for segment in segments]
    return RequestPath("/" + "/".join(decoded) + tail, "/" + "/".join(encoded) + tail)


def _is_ambiguous(segment: str) -> bool:
    """Tell whether a segment could be read as something else than a name, after up to `_MAX_ENCODINGS` decodings."""
    for _ in range(_MAX_ENCODINGS):
        if _FORBIDDEN.search(segment) or not all(map(_is_name, segment.split("/"))):
            return True
        segment = unquote(segment)
    return False


def _is_name(part: str) -> bool:
    """Tell whether a part between slashes is a name; `..;x` is a dot segment with parameters (Tomcat, Spring)."""
    return part.partition(";")[0].strip() not in {"", ".", ".."}
