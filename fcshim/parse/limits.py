"""The limits of one parser.

Rule: everything whose size the model controls has a limit here, with its reason.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one parser, in characters unless stated otherwise; a call beyond one ends with `error: limit`."""

    arguments: int = 8_000_000
    """Arguments of one call: a whole file fits, and an endless reply does not exhaust memory."""
    search: int = 16_384
    """The part of a body that is searched for readings: at 5 us a character one `feed` stays under 0.1 s."""
    hold: int = 1_000_000
    """Text kept back because it may turn out to be quoted: a fenced call that writes a large file fits."""
    look_ahead: int = 4_096
    """Text kept back after a call in an open code span, while the closing backtick is searched."""
    depth: int = 64
    """Nesting depth of arguments, in levels: far below the recursion limits of the JSON libraries that parse them."""
    number: int = 4_000
    """One number: Python refuses to parse integers of more than 4,300 digits."""
    line: int = 256
    """The line that opens or closes a code fence."""


DEFAULT_LIMITS = Limits()
