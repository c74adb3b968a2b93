"""Writing JSON for the wire, including strings that msgspec's encoder rejects.

Rule: lone surrogates, which UTF-8 cannot encode, become U+FFFD; everything else is written unchanged.
"""

import msgspec

from fcshim.events import JSON

_encode = msgspec.json.encode


def write_json(value: JSON) -> bytes:
    """Encode a value as JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(repair_surrogates_in(value))


def repair_surrogates_in(value: JSON) -> JSON:
    """Apply `repair_surrogates` to every string in `value`."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [repair_surrogates_in(item) for item in value]
    if isinstance(value, dict):
        return {repair_surrogates(key): repair_surrogates_in(item) for key, item in value.items()}
    return value


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD, so that the text can be encoded as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
