"""Writing JSON for a wire: msgspec's encoder, and what it refuses.

Rule: half surrogates, which UTF-8 cannot say, become U+FFFD; everything else is written as it is.
Neighbours: whatever in the codecs writes text that a model or a client wrote.
"""

import msgspec

from fcshim.events import JSON

_encode = msgspec.json.encode


def write_json(value: JSON) -> bytes:
    """Write a value."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(repair_surrogates_in(value))


def repair_surrogates_in(value: JSON) -> JSON:
    """Make every text in `value` whole (see `whole_text`)."""
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [repair_surrogates_in(item) for item in value]
    if isinstance(value, dict):
        return {repair_surrogates(key): repair_surrogates_in(item) for key, item in value.items()}
    return value


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and put U+FFFD for half ones, so that the text can be written as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
