"""Parse text that must be strict JSON.

Rule: what Python's parser accepts beyond the standard (NaN and the infinities) is rejected, and so is text nested too
deeply; escapes of lone surrogates are accepted, because the JSON grammar (RFC 8259, section 8.2) allows them.
"""

import json

from fcshim.events import JSON


def parse_strict_json(text: str) -> JSON:
    """Return the value; None for `null` and for text that is not strict JSON."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _reject_constant(constant: str) -> JSON:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_constant=_reject_constant)
