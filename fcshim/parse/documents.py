"""The documents of a conversation, in which a call that the model shows may stand verbatim.

Rule: only what was copied counts: white space and the escapes of JSON strings may differ, nothing else.
"""

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator

from fcshim.events import JSON

_FENCE_LINES = re.compile(r"\A\s*[`~]{3,}[^\n]*\n|\n[ \t]*[`~]{3,}\s*\Z")
_BETWEEN_PYTHON_CALLS = re.compile(rb"(?<=\)),(?=[A-Za-z_][\w.]*\()")
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_MAX_UNICODE_ESCAPES = 20_000
"""Escapes that are decoded in one text, about 10 ms; with more of them the text is compared as it is."""
_MAX_NAMES = 64
"""Tools whose names are searched; with more of them the documents are taken to mention one."""
_DELETED = b" \t\r\n\f\v\\"


class Documents:
    """Searches the tool results and documents of a conversation; nothing is read before the first search.

    `read_texts` returns them as the model sees them, `names` are the offered tools.
    """

    def __init__(self, read_texts: Callable[[], Iterable[str]], names: Iterable[str]) -> None:
        self._read_texts = read_texts
        self._names = tuple(names)

    @functools.cached_property
    def _text(self) -> bytes:
        return b"\n".join(map(_normalize, self._read_texts()))

    @functools.cached_property
    def mention_a_tool(self) -> bool:
        """True if a document may hold a call: it has the name of a tool as a string or before a parenthesis."""
        if not self._text:
            return False
        return len(self._names) > _MAX_NAMES or any(map(self._mentions, self._normalized_names))

    @functools.cached_property
    def _normalized_names(self) -> list[bytes]:
        return list(filter(None, map(_normalize, self._names)))

    def _mentions(self, name: bytes) -> bool:
        return any(form % name in self._text for form in (b'"%s"', b"'%s'", b"%s("))

    def hold(self, call: str) -> bool:
        """Say whether the text of a call, or one of the calls in a list, stands in a document."""
        return bool(self._text) and any(
            each in self._text for each in _single_calls(call) if any(name in each for name in self._normalized_names)
        )


def _single_calls(text: str) -> Iterator[bytes]:
    body = _FENCE_LINES.sub("", text)
    yield _normalize(body)
    # The tags around it were escaped in the document.
    yield _normalize(body[_first_bracket(body) :])
    yield _normalize(body[_first_bracket(body) : max(map(body.rfind, "}]")) + 1])
    listed = _parse_list(body)
    if listed is not None:
        yield from (_normalize(json.dumps(call, ensure_ascii=False)) for call in listed)
    else:
        yield from _BETWEEN_PYTHON_CALLS.split(_normalize(body).strip(b"[]"))


def _first_bracket(text: str) -> int:
    return min((at for at in map(text.find, "{[") if at >= 0), default=0)


def _parse_list(text: str) -> list[JSON] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _normalize(text: str) -> bytes:
    """Remove what models and nested JSON change when they copy: white space, and backslashes with n, r and t."""
    if 0 < text.count("\\u") <= _MAX_UNICODE_ESCAPES:
        text = _UNICODE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    raw = text.encode("utf-8", "surrogatepass")
    for escape in (b"\\n", b"\\r", b"\\t"):
        raw = raw.replace(escape, b"")
    return raw.translate(None, _DELETED)
