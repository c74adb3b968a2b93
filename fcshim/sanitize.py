"""Makes text from outside (models, tools, servers, files, requests) safe to show on a terminal and in a log.

Rule: text is sanitized where it leaves, at each print and in the one formatter of the log; what travels inside, and
what is written for a program to read, stays as it is.
"""

import logging

_C0 = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A, 0x0D)}
"""Unicode's pictures of the control characters."""
_UNSAFE = (
    *range(0x80, 0xA0),  # C1: 0x9B begins a control sequence, as ESC [ does
    *(
        0x061C,
        0x180E,
        0x200B,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
    ),  # bidi: a command can look
    *(0x2028, 0x2029),  # like another one; line separators
    *(0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080)),  # invisible text
    *range(0xD800, 0xE000),  # cannot be encoded
)
_SANITIZED = {**_C0, 0x0D: None, 0x7F: 0x2421, **dict.fromkeys(_UNSAFE, 0xFFFD)}
_SANITIZED_LINE = {**_SANITIZED, 0x09: 0x20, 0x0A: 0x240A, 0x0D: 0x240D}

_BLANK = frozenset(
    (0xAD, 0x34F, 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10))
)
"""Characters that count as printable and show nothing; the other invisible ones are known by their category."""
_VARIATION_SELECTORS = range(0xE0100, 0xE01F0)


def sanitize(text: str) -> str:
    """Return a text with its control characters replaced by visible ones, or dropped.

    Such text cannot move the cursor, change colours or titles, or reach the clipboard. Line feeds and tabs stay. It
    works per character, so chunk boundaries do not matter.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_SANITIZED)


def sanitize_line(text: str) -> str:
    """Return a text that stays on one line: what would begin another one is replaced too."""
    return text if text.isascii() and text.isprintable() else text.translate(_SANITIZED_LINE)


def visible(text: str) -> str:
    """Return a text of one line with every character shown or named: `<U+202E>` for one that turns the order."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char.isprintable() and not _is_blank(char) else f"<U+{ord(char):04X}>" for char in text)


def _is_blank(char: str) -> bool:
    return ord(char) in _BLANK or ord(char) in _VARIATION_SELECTORS


class SanitizingFormatter(logging.Formatter):
    """Writes each record as one line, and a traceback as indented ones, so that no text in them forges a record."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        """Return the line of a record."""
        return sanitize_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        first, *others = sanitize(super().format(record)).split("\n")
        return "\n    ".join([first, *others])


def configure_logging(
    level: int | str, layout: "str | SanitizingFormatter" = "%(levelname)-7s %(message)s"
) -> list[logging.Handler]:
    """Log to stderr from `level` on, sanitized; a program that has configured its log keeps its own handlers.

    A second call changes level and layout. Returns the handlers that were configured.
    """
    root = logging.getLogger()
    formatter = SanitizingFormatter(layout) if isinstance(layout, str) else layout
    own = [handler for handler in root.handlers if isinstance(handler.formatter, SanitizingFormatter)]
    if not root.handlers:
        own = [logging.StreamHandler()]
        root.addHandler(own[0])
    for handler in own:
        handler.setFormatter(formatter)
        root.setLevel(level)
    return own
