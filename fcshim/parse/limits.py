"""What may grow while a reply is read, and how far.

Rule: whatever a model can make longer has a number here, with its reason.
Neighbours: every part of the parser takes one `Limits`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one parser, in characters unless said otherwise; beyond them a call ends with `error: limit`."""

    arguments: int = 8_000_000
    """Arguments of one call: a whole file fits, a model that rambles does not fill the memory."""
    mend: int = 16_384
    """The part of a body that the grammar parses: at 5 us a character one `feed` stays under 0.1 s."""
    hold: int = 1_000_000
    """Text held back because it may still turn out to be quoted: a fenced call that writes a large file fits."""
    look_ahead: int = 4_096
    """Text held back after a call in an open code span, in search of the closing backtick."""
    depth: int = 64
    """Nesting of arguments: far below the recursion limit of every JSON library that will read them."""
    number: int = 4_000
    """One number: Python refuses to read integers of more than 4,300 digits."""
    line: int = 256
    """The line that opens or closes a code fence."""


DEFAULT_LIMITS = Limits()
