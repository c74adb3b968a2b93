"""The steps of a reading, the open brackets and the open string at each of them, and what the steps have read."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from fcshim.parse.arguments.scopes import Members
from fcshim.parse.readings.edits import Edit


class NoReadingError(Exception):
    """The text has no reading, or several.

    `unclosed` if a string in it has no end, `whole` if it has one reading, with a value that JSON lacks.
    """

    def __init__(self, message: str, *, unclosed: bool = False, whole: bool = False) -> None:
        super().__init__(message)
        self.unclosed = unclosed
        self.whole = whole


Follows = Literal["", "next", "end", "end missing"]
"""What follows a string: nothing that fits, the next value, the end of the body, or that end without its brackets."""


class CallListMembers(Members):
    """What may stand in a list of calls: calls."""

    holds_calls = True


CALL_LIST = CallListMembers()


class Frame:
    """One open bracket, or the arguments of a call. It never changes, so that readings can share it."""

    __slots__ = ("closer", "has_keyword", "is_call", "keyed", "keys", "members", "parent", "repeats", "slot")

    def __init__(self, closer: str, members: Members, parent: "Frame | None", *, keyed: bool) -> None:
        self.closer = closer
        self.members = members
        self.parent = parent
        self.keyed = keyed
        self.keys: frozenset[str] = frozenset()
        """The known keys that were read."""
        self.slot: str | int = "" if keyed else 0
        """The key of the current value, or its index."""
        self.repeats = False
        """True after a second value of one member."""
        self.is_call = self.has_keyword = False
        """True for the arguments of a call, and after one with a name."""

    def inner(self) -> Members:
        """Return what may stand in the current value."""
        return self.members.item(self.slot) if isinstance(self.slot, int) else self.members.member(self.slot)

    def changed(self, *, slot: str | int, members: Members | None = None) -> "Frame":
        """Return this bracket at another value; after the value of a key, `members` may have changed."""
        frame = Frame(self.closer, members or self.members, self.parent, keyed=self.keyed)
        frame.keys, frame.slot, frame.repeats = self.keys, slot, self.repeats
        frame.is_call, frame.has_keyword = self.is_call, self.has_keyword
        return frame

    def with_key(self, key: str, *, is_known: bool) -> "Frame":
        """Return this bracket after a key."""
        frame = self.changed(slot=key)
        if is_known:
            frame.keys = self.keys | {key}
        return frame


class OpenString(NamedTuple):
    """The string that is read: its quotes, where it starts, and what was read of it."""

    quote: str
    start: int
    is_quoting: bool = False
    """True inside a quotation, whose quotes are not escaped."""
    has_quotes: bool = False
    """True after a quote that is content."""
    has_escape: bool = False
    """True after an escaped quote."""
    lacks_quote: bool = False
    """True if its opening quote is missing."""


Token = tuple[str, int, int]
"""What a step has read: its kind, and its position in the text. Kinds are brackets, `key`, `string`, `word`, `atom`."""


class Step:
    """One step of a reading: the state that it leads to, what it cost so far, and the step before it."""

    __slots__ = (
        "cost", "digest", "edits", "frame", "pos", "previous", "state", "string", "styles", "token", "uncertain",
    )  # fmt: skip

    def __init__(self, state: "State", pos: int, frame: Frame | None, string: OpenString | None = None) -> None:
        self.state = state
        self.pos = pos
        self.frame = frame
        self.string = string
        self.cost = 0
        self.uncertain: Edit | None = None
        self.styles: frozenset[Edit] = frozenset()
        """The edits that cost nothing from here on."""
        self.token: Token | None = None
        self.edits: Sequence[Edit] = ()
        self.digest = 0
        """Stands for the tokens of the reading."""
        self.previous: Step | None = None


State = Callable[[Step], None]


def done(_step: Step) -> None:
    """At the end of the text: no step follows."""


def edits_of(step: Step | None) -> list[Edit]:
    """Return the edits of the reading that ends with a step, the last one first."""
    edits: list[Edit] = []
    while step is not None:
        edits += step.edits
        step = step.previous
    return edits


def tokens_of(step: Step | None) -> list[Token]:
    """Return the tokens of the reading that ends with a step."""
    tokens: list[Token] = []
    while step is not None:
        if step.token is not None:
            tokens.append(step.token)
        step = step.previous
    return tokens[::-1]
