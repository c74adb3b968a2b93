"""The arguments of past calls as a JSON object, whatever the client's history contains.

Rule: a strict JSON object is kept byte for byte. Anything else is repaired as the parser would repair it, or becomes a
string inside an object, so that every dialect can write it and the model sees only well-formed calls.
"""

import json

from fcshim.events import JSON
from fcshim.parse.arguments.repair import RepairError, repair
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.content_parts import shorten
from fcshim.schema.limits import exceeds_depth
from fcshim.schema.strict_json import parse_strict_json

MALFORMED = "malformed_arguments"
"""The member that holds unreadable arguments."""
_MAX_REPAIRED = 64 * 1024
"""Characters that are repaired per conversation, at 5 us each; malformed arguments beyond that become a string."""
_EXCERPT = 2_000
"""Characters kept of unreadable arguments: enough to see the defect."""
_MAX_DEPTH = 64
"""Levels of nesting, as many as a schema may have: notations other than JSON are written by recursion."""


class PastArguments:
    """Writes the arguments of the calls of one conversation, in order."""

    def __init__(self) -> None:
        self._repair_left = _MAX_REPAIRED

    def write(self, text: str) -> str:
        """Return a strict JSON object: the text itself, or its closest repair."""
        value = parse_strict_json(text)
        if isinstance(value, str) and isinstance(inner := parse_strict_json(value), dict):
            text, value = value, inner  # encoded twice
        if isinstance(value, dict) and not exceeds_depth(value, _MAX_DEPTH):
            return text if _is_unicode(text, value) else _json_without_lone_surrogates(value)
        if text.strip() in ("", "null"):
            return "{}"
        repaired = self._repaired(text) if value is None else None
        return repaired or _json_without_lone_surrogates({MALFORMED: shorten(text, _EXCERPT)})

    def _repaired(self, text: str) -> str | None:
        if not text.lstrip().startswith("{") or len(text) > self._repair_left:
            return None
        self._repair_left -= len(text)
        try:
            repaired = repair(FUNCTION_CALL.body.grammar, (), "start", text, ()).text
            value = json.loads(repaired, strict=False)  # raw control characters stay in strings
        except (RepairError, ValueError, RecursionError):
            return None
        return (
            _json_without_lone_surrogates(value)
            if isinstance(value, dict) and not exceeds_depth(value, _MAX_DEPTH)
            else None
        )


def _is_unicode(text: str, value: JSON) -> bool:
    """Return whether the text has no lone surrogate, raw or escaped, since no request could carry one."""
    try:
        text.encode()
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_without_lone_surrogates(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
