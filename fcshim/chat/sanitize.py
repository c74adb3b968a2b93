"""Text of models, tools and files, made fit for a terminal.

Rule: nothing that others wrote moves the cursor, changes colours or titles, or reaches the clipboard: every control
character but the line break and the tab is shown instead of sent. Character by character, so that no cut matters.
Neighbours: `screen` and `script` write through it.
"""

_C0 = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A, 0x0D)}
"""To Unicode's pictures of them."""
_C1 = dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_BIDI = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)
"""They can make a command look like another one."""
_TABLE = {**_C0, 0x0D: None, 0x7F: 0x2421, **_C1, **_BIDI}


def sanitize(text: str) -> str:
    """Give the text as it may be shown."""
    return text if text.isascii() and text.isprintable() else text.translate(_TABLE)
