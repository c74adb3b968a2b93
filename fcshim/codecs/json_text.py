"""JSON on the wire, written and read, with what msgspec rejects.

Rule: lone surrogates, which UTF-8 cannot encode, become U+FFFD; everything else is written unchanged. Documents of an
upstream may also contain invalid UTF-8 and raw control characters (all seen in relays).
"""

import json
from collections.abc import Callable
from typing import TypeVar

import msgspec

from fcshim.events import JSON

T = TypeVar("T")

_encode = msgspec.json.encode


def write_json(value: JSON) -> bytes:
    """Encode a value as JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_repair_surrogates_in(value))


def _repair_surrogates_in(value: JSON) -> JSON:
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [_repair_surrogates_in(item) for item in value]
    if isinstance(value, dict):
        return {repair_surrogates(key): _repair_surrogates_in(item) for key, item in value.items()}
    return value


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD, so that the text can be encoded as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def json_reader(kind: type[T]) -> Callable[[bytes], T | None]:
    """Return a function that decodes an upstream's document; it returns None for what is not JSON of that type."""
    decode = msgspec.json.Decoder(kind).decode

    def read(document: bytes) -> T | None:
        try:
            return decode(document)
        except (ValueError, RecursionError):
            return _read_lenient(document, decode)

    return read


def _read_lenient(document: bytes, decode: Callable[[bytes], T]) -> T | None:
    try:
        value = json.loads(document.decode("utf-8", "replace"), strict=False)
        return decode(_encode(_repair_surrogates_in(value)))
    except (ValueError, RecursionError):
        return None


def is_json(document: bytes) -> bool:
    """Tell whether a document is complete, strict JSON."""
    try:
        msgspec.json.decode(document)
    except (ValueError, RecursionError):
        return False
    return True


def arguments_object(arguments: str) -> dict[str, JSON]:
    """Return the arguments of a call for an API that accepts only objects; anything else becomes an empty one."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
