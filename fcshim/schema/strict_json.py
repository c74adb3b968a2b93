"""Text that has to be strict JSON: read, or refused.

Rule: what Python's own reader takes beyond the standard (NaN and the infinities) is refused, and so is what is nested
too deeply to be read; escapes of half surrogates are taken, since they are within the grammar.
Neighbours: whoever is given arguments as a text reads them here.
"""

import json

from fcshim.events import JSON


def parse_strict_json(text: str) -> JSON:
    """Give the value; None for what is no strict JSON, as for null."""
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return None


def _reject_constant(constant: str) -> JSON:
    raise ValueError(constant)
