r"""The `pattern` of a string, as an expression over its characters: of regular expressions, what a sampler can follow.

Theory of operation. Read are literals, classes, groups, alternatives, repetitions, and anchors at both ends; where one
is missing, any text may stand there. Not read are looks around, references back, word boundaries and properties. A
sampler follows every way that is open, so it must be clear whether a long repetition goes on: in `^[a-z]+(-[a-z]+)*$`
it is, in `^(a+)+$` it is not. Where only the end is unclear (`^[a-z.]+\.[a-z]+$`), long repetitions are made short.
Rule: what is admitted always matches; bounded work whatever the pattern; what is not read is None.
Neighbours: `values` asks for the strings of a schema, `strings` writes them.
"""

import functools
import re
from dataclasses import dataclass, replace

from fcshim.constrain.grammar import (
    Chars,
    Choice,
    Expression,
    Ranges,
    Repeat,
    Rule,
    Series,
    Text,
    choice,
    series,
    without,
)

_LONGEST = 500
"""Characters of a pattern that is read."""
_DEEPEST = 20
_MOST = 2_000
"""Repetitions that a pattern may demand, or bound."""
_LARGEST = 20_000
"""Characters that a text must have room for, all bounded repetitions multiplied."""
_WIDE = 16
"""Repetitions that end so soon need not be clear."""
_SOON = 48
"""More of what has no end, where it is unclear where it ends: each is a way that a sampler follows."""

_ALL: Ranges = ((0x20, 0xD7FF), (0xE000, 0x10FFFF))
_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACE: Ranges = ((0x20, 0x20),)
_SPACES: Ranges = (
    *((0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
"""What anyone takes for a space. One is enough to be written; none may be where none must."""
_ANY = Repeat(Chars(_ALL), 0, None, "characters")
_ANYTHING = (_ANY, Repeat(Chars(_ALL), 1, None, "characters"))
_COUNT = re.compile(r"\{(\d{1,5})(,?)(\d{0,5})\}")
_GROUP = re.compile(r"\((?:\?:|\?<[A-Za-z_]\w{0,63}>)?")
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_REST = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}


class _UnreadError(Exception):
    """This is none of what is read."""


@functools.lru_cache(maxsize=256)
def pattern(text: str) -> Expression | None:
    """Give the strings that match a regular expression; None where it is not read, or not followed."""
    if len(text) > _LONGEST:
        return None
    try:
        found = _Reader(text).whole()
    except _UnreadError:
        return None
    look = _look(found)
    if _size(found) > _LARGEST or not look.turns:
        return None
    return found if look.clear else _shortened(found)


def between(found: Expression, least: int, most: int | None) -> Expression | None:
    """Give those of a pattern's strings that have so many characters; None where that cannot be said."""
    if isinstance(found, Repeat) and isinstance(found.part, Chars):
        ends = [end for end in (found.most, most) if end is not None]
        least, highest = max(least, found.least), min(ends) if ends else None
        return None if highest is not None and highest < least else Repeat(found.part, least, highest, "characters")
    low, high = _lengths(found)
    fits = low >= least and (most is None or (high is not None and high <= most))
    return found if fits else None


class _Reader:
    """Reads one pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Expression:
        """Read all of it. A part that is not anchored may have any text beside it."""
        options = [self._anchored()]
        while self._take("|"):
            options.append(self._anchored())
        if self._at < len(self._text):
            raise _UnreadError
        return choice(options)

    def _anchored(self) -> Expression:
        begins = self._take("^")
        inner = self._series(0)
        ends = self._take("$")
        parts = inner.parts if isinstance(inner, Series) else (inner,)
        before = [] if begins or parts[0] in _ANYTHING else [_ANY]
        return series(*before, inner, *([] if ends or parts[-1] in _ANYTHING else [_ANY]))

    def _options(self, depth: int) -> Expression:
        options = [self._series(depth)]
        while self._take("|"):
            options.append(self._series(depth))
        return choice(options)

    def _series(self, depth: int) -> Expression:
        parts: list[Expression] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)$":
            parts.append(self._repeated(self._atom(depth)))
        return series(*parts)

    def _atom(self, depth: int) -> Expression:
        group = _GROUP.match(self._text, self._at)
        if group:
            self._at = group.end()
            if depth == _DEEPEST or self._text[self._at : self._at + 1] == "?":
                raise _UnreadError
            inner = self._options(depth + 1)
            if not self._take(")"):
                raise _UnreadError
            return inner
        char = self._text[self._at]
        self._at += 1
        match char:
            case ".":
                return Chars(_ALL)
            case "[":
                return Chars(self._class())
            case "\\":
                found = self._escaped()
                return Text(found) if isinstance(found, str) else Chars(found)
            case "*" | "+" | "?" | "^" | "{":
                raise _UnreadError
        return Text(char)

    def _repeated(self, part: Expression) -> Expression:
        count = _COUNT.match(self._text, self._at)
        if count:
            self._at = count.end()
            least = int(count[1])
            most = least if not count[2] else int(count[3]) if count[3] else None
        elif self._text[self._at : self._at + 1] in {"*", "+", "?"}:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._text[self._at]]
            self._at += 1
        else:
            return part
        self._take("?")  # a lazy one admits the same
        if max(least, most or 0) > _MOST or (most is not None and most < least):
            raise _UnreadError
        return Repeat(part, least, most, "characters" if most is None else "")

    def _class(self) -> Ranges:
        outside = self._take("^")
        found: list[tuple[int, int]] = []
        while not self._take("]"):
            first = self._member()
            if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 : self._at + 2] == "]":
                found += first if isinstance(first, tuple) else ((ord(first), ord(first)),)
                continue
            self._at += 1
            last = self._member()
            if not isinstance(first, str) or not isinstance(last, str) or last < first:
                raise _UnreadError
            found.append((ord(first), ord(last)))
        found += _SPACES if outside and _SPACE[0] in found else ()
        left = without(_ALL, found) if outside else tuple(sorted(found))
        if not left:
            raise _UnreadError
        return left

    def _member(self) -> str | Ranges:
        if self._at >= len(self._text):
            raise _UnreadError
        char = self._text[self._at]
        self._at += 1
        return self._escaped() if char == "\\" else char

    def _escaped(self) -> str | Ranges:
        """Read what follows a backslash."""
        code = _CODE.match(self._text, self._at)
        if code:
            self._at = code.end()
            return chr(int(code[1] or code[2], 16))
        char = self._text[self._at : self._at + 1]
        self._at += 1
        sets: dict[str, Ranges] = {
            "d": _DIGIT,
            "w": _WORD,
            "s": _SPACE,
            "D": without(_ALL, _DIGIT),
            "W": without(_ALL, _WORD),
            "S": without(_ALL, _SPACES),
        }
        if char in sets:
            return sets[char]
        if not char or (char.isalnum() and char not in _REST):
            raise _UnreadError
        return _REST.get(char, char)

    def _take(self, char: str) -> bool:
        taken = self._text.startswith(char, self._at)
        self._at += taken
        return taken


# What can be followed.


@dataclass(frozen=True, slots=True)
class _Look:
    """How a part may begin, and how one that could end here may go on; `wide`: with a long repetition inside."""

    first: frozenset[tuple[int, int]]
    tail: frozenset[tuple[int, int]]
    empty: bool = False
    wide: bool = False
    clear: bool = True
    """Whether it is always clear where one long repetition ends and another begins."""
    turns: bool = True
    """Whether it is always clear where what repeats begins anew."""


def _look(part: Expression) -> _Look:
    match part:
        case Text(text=""):
            return _Look(frozenset(), frozenset(), empty=True)
        case Text():
            return _Look(frozenset({(ord(part.text[0]), ord(part.text[0]))}), frozenset())
        case Chars():
            return _Look(frozenset(part.ranges), frozenset())
        case Series():
            return _look_along([_look(inner) for inner in part.parts])
        case Choice():
            return _look_beside([_look(inner) for inner in part.options])
        case Repeat():
            return _look_again(part, _look(part.part))
        case Rule():
            raise AssertionError("a pattern has no rules")


def _look_along(looks: list[_Look]) -> _Look:
    behind = _Look(frozenset(), frozenset(), empty=True)
    for look in reversed(looks):
        unclear = _meet(look.tail, behind.first) and (look.wide and behind.wide)
        behind = _Look(
            look.first | (behind.first if look.empty else frozenset()),
            behind.tail | (behind.first | look.tail if behind.empty else frozenset()),
            empty=look.empty and behind.empty,
            wide=look.wide or behind.wide,
            clear=look.clear and behind.clear and not unclear,
            turns=look.turns and behind.turns,
        )
    return behind


def _look_beside(looks: list[_Look]) -> _Look:
    wide = any(look.wide for look in looks)
    apart = not any(_meet(one.first, other.first) for at, one in enumerate(looks) for other in looks[:at])
    return _Look(
        frozenset().union(*(look.first for look in looks)),
        frozenset().union(*(look.tail for look in looks)) if apart else frozenset(_ALL),
        empty=any(look.empty for look in looks),
        wide=wide,
        clear=all(look.clear for look in looks) and (apart or not wide),
        turns=all(look.turns for look in looks),
    )


def _look_again(part: Repeat, look: _Look) -> _Look:
    if part.most == 1:
        return replace(look, empty=look.empty or not part.least)
    wide = look.wide or part.most is None or part.most > _WIDE
    again = not look.empty and not _meet(look.tail, look.first)
    return _Look(
        look.first,
        look.first | look.tail,
        empty=look.empty or not part.least,
        wide=wide,
        clear=look.clear,
        turns=look.turns and (again or not wide),
    )


def _shortened(part: Expression) -> Expression | None:
    """Let every repetition end soon; None where that would cut off text that may be anything."""
    match part:
        case Series() | Choice():
            inner = [_shortened(each) for each in (part.parts if isinstance(part, Series) else part.options)]
            found = [each for each in inner if each is not None]
            if len(found) < len(inner):
                return None
            return series(*found) if isinstance(part, Series) else choice(found)
        case Repeat():
            one = _shortened(part.part)
            if one is None or part in _ANYTHING:
                return None
            return Repeat(one, part.least, part.least + _SOON if part.most is None else part.most, part.counts)
        case _:
            return part


def _meet(one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]) -> bool:
    return any(low <= high_too and low_too <= high for low, high in one for low_too, high_too in other)


def _size(part: Expression) -> int:
    """Give how much there is where every bounded repetition is written out."""
    match part:
        case Text():
            return len(part.text)
        case Series():
            return sum(map(_size, part.parts))
        case Choice():
            return sum(map(_size, part.options))
        case Repeat():
            return _size(part.part) * max(part.least, part.most or 0, 1)
        case _:
            return 1


def _lengths(part: Expression) -> tuple[int, int | None]:
    """Give the least and the most characters."""
    match part:
        case Text():
            return len(part.text), len(part.text)
        case Series() | Choice():
            inner = [_lengths(each) for each in (part.parts if isinstance(part, Series) else part.options)]
            lows, highs = [low for low, _ in inner], [high for _, high in inner if high is not None]
            high = None if len(highs) < len(inner) else sum(highs) if isinstance(part, Series) else max(highs)
            return sum(lows) if isinstance(part, Series) else min(lows), high
        case Repeat():
            low, most = _lengths(part.part)
            return low * part.least, None if most is None or part.most is None else most * part.most
        case _:
            return 1, 1
