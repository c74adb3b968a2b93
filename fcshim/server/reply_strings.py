"""The strings of an upstream's reply, with those joined that continue one another from document to document.

Rule: no codec takes part, since a codec leaves fields out. A string continues the last one in the same field of the
same choice, whatever the field is called.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from fcshim.codecs.framing import SSESplitter
from fcshim.errors import UpstreamError
from fcshim.events import JSON

_INDEX = ("index", "output_index", "content_index")
"""Fields that say to which of several texts an object belongs."""

Path = tuple[str | int, ...]


def reply_strings(data: bytes) -> list[str]:
    """Return the strings of a reply in any API. Raises `RecursionError` for JSON that is nested too deep."""
    parts: dict[Path, list[str]] = defaultdict(list)
    for document in _documents(data):
        try:
            _collect(msgspec.json.decode(document), (), parts)
        except ValueError:  # no JSON: the text itself
            parts[()].append(document.decode("utf-8", "replace"))
    return ["".join(part) for part in parts.values()]


def _documents(data: bytes) -> Iterable[bytes]:
    """Return the documents of a body: one, lines, or the data of events."""
    if data.lstrip()[:1] not in {b"{", b"["}:
        splitter = SSESplitter(line_bytes=sys.maxsize)  # the body is bounded
        try:
            return [*splitter.feed(data), *splitter.close()]
        except UpstreamError:  # an event with too many values to be decoded
            return [data]
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except ValueError:
        return data.splitlines()
    return [data]


def _collect(value: JSON, path: Path, parts: dict[Path, list[str]]) -> None:
    """Add each string to those of the same field; the places in lists do not count, as their items follow."""
    match value:
        case str():
            parts[path].append(value)
        case dict():
            field_path = (*path, *(found for name in _INDEX if type(found := value.get(name)) is int))
            for name, inner in value.items():
                _collect(inner, (*field_path, name), parts)
        case list():
            for inner in value:
                _collect(inner, path, parts)
