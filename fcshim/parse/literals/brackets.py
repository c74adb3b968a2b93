"""The brackets that are open in a call, and what each of them is.

Rule: a bracket that shows only later what it is has a kind of its own until then.
Neighbours: `body` keeps the stack of them.
"""

import enum


class BracketKind(enum.Enum):
    """What a bracket is."""

    ARGUMENTS = enum.auto()
    SPREAD = enum.auto()
    """A dict whose members are arguments: `**{...}`."""
    DICT = enum.auto()
    ARRAY = enum.auto()
    """A list, tuple or set."""
    PAREN = enum.auto()
    """`(`: a tuple, or brackets around one value."""
    BRACE = enum.auto()
    """`{`: a dict or a set."""


ARGUMENTS, SPREAD, DICT, ARRAY, PAREN, BRACE = BracketKind
"""Looked up once, since that takes as long as much of what a state does."""


class OpenBracket:
    """One open bracket; `closing` are its closer and those of what it stands in."""

    __slots__ = ("closer", "closing_brackets", "count", "expects_key", "expects_value", "kind")

    def __init__(self, kind: BracketKind, closer: str, enclosing: str) -> None:
        self.kind = kind
        self.closer = closer
        self.closing_brackets = closer + enclosing
        self.count = 0
        self.expects_key = kind is DICT or kind is BRACE or kind is SPREAD
        """True where a key is due, or may be."""
        self.expects_value = False
        """True where the value of a key that was read is due."""
