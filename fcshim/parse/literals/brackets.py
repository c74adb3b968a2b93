"""The open brackets of a call and their kinds.

Rule: a parenthesis, whose meaning is decided by what follows it, has a kind of its own until then.
"""

import enum
from collections.abc import Iterator, Sequence

from fcshim.parse.arguments.scopes import ANYTHING, Members
from fcshim.parse.arguments.tokens import OpenContainer
from fcshim.parse.literals.call import LiteralCall
from fcshim.parse.readings.literals import CALL_LIST
from fcshim.parse.readings.steps import Frame


class BracketKind(enum.IntEnum):
    """What a bracket opens."""

    ARGUMENTS = enum.auto()
    SPREAD = enum.auto()
    """A dict whose members are arguments: `**{...}`."""
    DICT = enum.auto()
    ARRAY = enum.auto()
    """A list or tuple."""
    PAREN = enum.auto()
    """`(`: a tuple, or parentheses around one value."""


ARGUMENTS, SPREAD, DICT, ARRAY, PAREN = BracketKind
"""Module names, because an enum's attribute lookup costs about as much as a state's own work."""


class OpenBracket:
    """One open bracket; `closing_brackets` close it and the brackets around it, innermost first."""

    __slots__ = ("closer", "closing_brackets", "count", "expects_key", "expects_value", "kind")

    def __init__(self, kind: BracketKind, closer: str, enclosing: str) -> None:
        self.kind = kind
        self.closer = closer
        self.closing_brackets = closer + enclosing
        self.count = 0
        self.expects_key = kind is DICT or kind is SPREAD
        """True where the next item is, or may be, a key."""
        self.expects_value = False
        """True where a key was read and its value comes next."""


_WRITTEN_KINDS = frozenset({ARGUMENTS, DICT, ARRAY})
"""Brackets that are written where they open; the others wait until their kind is known."""


def open_frames(
    brackets: Sequence[OpenBracket],
    arguments: Members,
    names: set[str],
    containers: Sequence[OpenContainer],
    *,
    seen_keyword: bool,
) -> Frame:
    """Return the innermost open bracket of a call; `names` are the arguments that were read.

    `containers` are the open containers that were written, the arguments first. After a keyword (`seen_keyword`) no
    argument without a name may follow.
    """
    frame: Frame | None = None
    for closer in reversed(brackets[0].closing_brackets[1:]):
        frame = Frame(closer, CALL_LIST, frame, keyed=False)
    written = iter(containers)
    for bracket in brackets:
        frame = _frame(bracket, arguments, names, written, frame)
        frame.has_keyword = seen_keyword
    assert frame is not None
    return frame


def _frame(
    bracket: OpenBracket, arguments: Members, names: set[str], written: Iterator[OpenContainer], parent: Frame | None
) -> Frame:
    container = next(written, None) if bracket.kind in _WRITTEN_KINDS else None
    is_call = bracket.kind is ARGUMENTS
    if is_call or bracket.kind is SPREAD:
        members, keys = arguments, frozenset(names)
    else:
        members = ANYTHING if container is None else container.members
        keys = frozenset(() if container is None else container.keys)
    keyed = is_call or bracket.kind in {DICT, SPREAD}
    frame = Frame(bracket.closer, members, parent, keyed=keyed)
    frame.keys, frame.is_call = keys, is_call
    if keyed:
        frame.slot = "" if container is None else container.key
    return frame


class OpenBrackets:
    """The open brackets of a call, as far as all of them were written."""

    def __init__(self, brackets: list[OpenBracket], call: LiteralCall) -> None:
        self._brackets = brackets
        self._call = call

    def fast_end(self, closers: str) -> str:
        """Return the group that ends a string in the bracket which stays open after `closers`; empty for none."""
        brackets = self._brackets
        at = len(brackets) - len(closers) - 1
        closes = at >= 0 and brackets[-1].closing_brackets.startswith(closers)
        return fast_end_in(brackets[at]) if closes and self._call.has_written(len(brackets)) else ""

    def admits_key(self, closers: str, key: str) -> bool:
        """Return whether the bracket that stays open admits this key next."""
        return self._call.admits_key(len(self._brackets) - len(closers) - 1, key)

    def admits_object_with(self, closers: str, key: str) -> bool:
        """Return whether the array that stays open admits an object with this key."""
        return self._call.admits_object_with(len(self._brackets) - len(closers) - 1, key)


def fast_end_in(bracket: OpenBracket) -> str:
    """Return the group of the fast pattern that ends a string in this bracket."""
    if bracket.kind is ARGUMENTS:
        return "argument"
    if bracket.kind is ARRAY:
        return "item"
    return "key" if not bracket.expects_key and bracket.kind is DICT else ""
