"""Arguments that the model wrote as JSON inside a JSON string.

Rule: the result is the strict JSON of one object, or None.
"""

import json

from fcshim.parse.arguments.buffering import LimitError, NotStrictError
from fcshim.parse.arguments.repair import RepairError, repair
from fcshim.parse.arguments.strict import StrictJsonReader
from fcshim.parse.end_markers import compile_end_markers
from fcshim.parse.limits import Limits


def decode_object(encoded: str, grammar: str, limits: Limits) -> str | None:
    """Return the strict JSON of the object in the JSON string `encoded`, or None; an empty string means `{}`."""
    inner: str = json.loads(encoded).strip() or "{}"
    strict = _read_object(inner, limits)
    if strict is not None or len(inner) > limits.mend:
        return strict
    try:
        repaired = repair(grammar, (), "start", inner, ())
    except RepairError:
        return None
    return _read_object(repaired.text, limits) if repaired.complete else None


class _ObjectReader(StrictJsonReader):
    """Reads one strict value into a list."""

    def __init__(self, limits: Limits, into: list[str]) -> None:
        super().__init__(compile_end_markers(()), limits)
        self._target = into


def _read_object(text: str, limits: Limits) -> str | None:
    parts: list[str] = []
    try:
        _ObjectReader(limits, parts).read_whole(text)
    except (LimitError, NotStrictError):
        return None
    return "".join(parts) if text[0] == "{" else None
