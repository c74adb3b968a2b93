r"""Read the escapes in JSON strings.

Rule: the result is valid inside a strict JSON string; a lone surrogate becomes U+FFFD.
"""

import re

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u(?P<code>[0-9a-fA-F]{4}))')
_PARTIAL_ESCAPE = re.compile(r"(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
_CONTROL_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_REPLACEMENT = "\\ufffd"
_HIGH_SURROGATES = range(0xD800, 0xDC00)
_LOW_SURROGATES = range(0xDC00, 0xE000)


def escape_control(char: str) -> str:
    """Return the escape of a raw control character."""
    return _CONTROL_ESCAPES.get(char) or f"\\u{ord(char):04x}"


def read_escape(text: str, pos: int) -> tuple[int, str] | None:
    """Return the end of the escape at `pos` and its strict spelling; None if more text is needed to decide."""
    found = _ESCAPE.match(text, pos)
    if found is None:
        if _PARTIAL_ESCAPE.match(text, pos):
            return None
        # In `\'`, of other languages, the backslash is dropped; before any other character it is content.
        return (pos + 2, "'") if text[pos + 1] == "'" else (pos + 1, "\\\\")
    end, code = found.end(), _code_unit(found)
    if code in _HIGH_SURROGATES:
        low = _ESCAPE.match(text, end)
        if low is not None and _code_unit(low) in _LOW_SURROGATES:
            return low.end(), text[pos : low.end()]
        return None if _PARTIAL_ESCAPE.match(text, end) else (end, _REPLACEMENT)
    return end, _REPLACEMENT if code in _LOW_SURROGATES else found[0]


def _code_unit(escape: re.Match[str]) -> int:
    """Return the UTF-16 code unit of an escape, or 0."""
    return int(escape["code"] or "0", 16)
