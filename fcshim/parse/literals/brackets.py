"""The open brackets of a call and their kinds.

Rule: a bracket whose meaning is decided by what follows it (`(`, `{`) has a kind of its own until then.
"""

import enum


class BracketKind(enum.IntEnum):
    """What a bracket opens."""

    ARGUMENTS = enum.auto()
    SPREAD = enum.auto()
    """A dict whose members are arguments: `**{...}`."""
    DICT = enum.auto()
    ARRAY = enum.auto()
    """A list, tuple or set."""
    PAREN = enum.auto()
    """`(`: a tuple, or parentheses around one value."""
    BRACE = enum.auto()
    """`{`: a dict or a set."""


ARGUMENTS, SPREAD, DICT, ARRAY, PAREN, BRACE = BracketKind
"""Module names, because an enum's attribute lookup costs about as much as a state's own work."""


class OpenBracket:
    """One open bracket; `closing_brackets` close it and the brackets around it, innermost first."""

    __slots__ = ("closer", "closing_brackets", "count", "expects_key", "expects_value", "kind")

    def __init__(self, kind: BracketKind, closer: str, enclosing: str) -> None:
        self.kind = kind
        self.closer = closer
        self.closing_brackets = closer + enclosing
        self.count = 0
        self.expects_key = kind is DICT or kind is BRACE or kind is SPREAD
        """True where the next item is, or may be, a key."""
        self.expects_value = False
        """True where a key was read and its value comes next."""
