r"""Read the escapes in JSON strings.

Rule: the result is valid inside a strict JSON string; a lone surrogate becomes U+FFFD.
"""

import re

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
PARTIAL_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CONTROL_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_REPLACEMENT = "\\ufffd"
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB]", re.ASCII)
_LOW_SURROGATE = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LOW_SURROGATE_START = re.compile(r"\\u[dD][c-fC-F]")
_PARTIAL_LOW_SURROGATE = re.compile(r"(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z")


def escape_control(char: str) -> str:
    """Return the escape of a raw control character."""
    return _CONTROL_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def read_escape(text: str, pos: int) -> tuple[int, str] | None:
    """Return the end of the escape at `pos` and its strict spelling; None if more text is needed to decide."""
    found = _ESCAPE.match(text, pos)
    if found is None:
        return None if PARTIAL_ESCAPE.match(text, pos) else _fix_escape(text, pos)
    end = found.end()
    if _HIGH_SURROGATE.match(text, pos):
        return _read_surrogate(text, pos, end)
    return end, _REPLACEMENT if _LOW_SURROGATE_START.match(text, pos) else found[0]


def _fix_escape(text: str, pos: int) -> tuple[int, str]:
    r"""Fix an invalid escape. In `\'`, of other languages, the backslash is dropped; elsewhere it is content."""
    return (pos + 2, "'") if text[pos + 1] == "'" else (pos + 1, "\\\\")


def _read_surrogate(text: str, pos: int, end: int) -> tuple[int, str] | None:
    """Return an escaped surrogate pair unchanged; a lone high surrogate becomes U+FFFD."""
    low = _LOW_SURROGATE.match(text, end)
    if low is not None:
        return low.end(), text[pos : low.end()]
    return None if _PARTIAL_LOW_SURROGATE.match(text, end) else (end, _REPLACEMENT)
