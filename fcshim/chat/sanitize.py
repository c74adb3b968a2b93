"""Makes the text of models, tools and files safe for a terminal.

Rule: such text cannot move the cursor, change colours or titles, or reach the clipboard: control characters except the
line feed and the tab are replaced by visible ones, or dropped. It works per character, so chunk boundaries do not
matter.
"""

_C0 = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A, 0x0D)}
"""Unicode's pictures of the control characters."""
_C1 = dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_BIDI = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
"""Bidirectional formatting can make a command look like another one."""
_TABLE = {**_C0, 0x0D: None, 0x7F: 0x2421, **_C1, **_BIDI}


def sanitize(text: str) -> str:
    """Return the text with its control characters replaced."""
    return text if text.isascii() and text.isprintable() else text.translate(_TABLE)
