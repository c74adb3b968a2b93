"""A grammar without its long texts: what is left of it takes no more tokens than there are.

Theory of operation. Of every part the shortest and the longest text are known. A part whose longest fits into its room
stays as it is; one whose shortest does not is left out; of any other the parts share the room, each getting what its
shortest text takes and an equal share of the rest, as far as it can use it.
Rule: as long as any text fits, one is left; a token may be a single byte.
Neighbours: `fitting` tries limits first.
"""

from collections.abc import Iterable, Sequence

from fcshim.constrain.grammar import (
    EMPTY,
    ROOT,
    Chars,
    Choice,
    Expression,
    Grammar,
    Limits,
    Repeat,
    Rule,
    Series,
    Text,
    choice,
    most_of,
    series,
    without,
)

_LIMITS = Limits(characters=128, items=4, further=1)
"""How much of what a schema leaves open is written at most, where room is so scarce."""
_MOST_RULES = 5_000
_DEEPEST = 64
"""Rules that lead to one another: members that may all be missing do so by hundreds."""
_CHARACTER = 3
"""Bytes of one character of a string: all but emoji and the like, and escapes of one letter."""
_ENDLESS = 10**12
_BY_BYTES = ((1, 0x80), (2, 0x800), (3, 0x10000))


class _TooManyError(Exception):
    """More rules would be needed than are made."""


def shortened(grammar: Grammar, tokens: int) -> Grammar | None:
    """Give a grammar of those texts that take no more than `tokens`, or of some of them; None where there are none."""
    work = _Shortening(grammar)
    try:
        root = work.fit(grammar.rules[ROOT], tokens)
    except _TooManyError:
        return None
    if root is None:
        return None
    others = {name: rule for name, rule in grammar.rules.items() if name != ROOT}
    return Grammar({**others, **work.rules, ROOT: root}, grammar.notes, _LIMITS)


class _Shortening:
    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self.rules: dict[str, Expression] = {}
        self._depth = 0
        self._fitted: dict[tuple[str, int], Expression | None] = {}
        # By the ids of expressions, which the grammar keeps alive.
        self._spans: dict[int, tuple[int, int]] = {}
        self._of_rules: dict[str, tuple[int, int]] = {}
        for name, expression in grammar.rules.items():
            self._of_rules[name] = self._span(expression)

    def fit(self, part: Expression, room: int) -> Expression | None:
        """Give a part that takes no more than `room`; None where it cannot."""
        least, most = self._span(part)
        return part if most <= room else None if least > room else self._within(part, room)

    def _within(self, part: Expression, room: int) -> Expression | None:
        match part:
            case Chars():
                bound = next(bound for size, bound in reversed(_BY_BYTES) if size <= room)
                return Chars(without(part.ranges, [(bound, 0x10FFFF)]))
            case Series():
                rooms = _shares([self._span(each) for each in part.parts], room)
                return series(*_kept(map(self.fit, part.parts, rooms)))
            case Choice():
                return choice(_kept(self.fit(option, room) for option in part.options))
            case Repeat():
                return self._repeated(part, room)
            case Rule():
                return self._rule(part.name, room)
            case Text():
                raise AssertionError

    def _repeated(self, part: Repeat, room: int) -> Expression:
        least, most = self._span(part.part)
        most = max(least, min(most, _CHARACTER)) if part.counts in {"characters", "thoughts"} else most
        if least > room:
            return EMPTY
        count = max(part.least, room // most, 1)
        one = self.fit(part.part, min(most, room // count))
        ends = [end for end in (count, most_of(part, _LIMITS)) if end is not None]
        return EMPTY if one is None else Repeat(one, part.least, max(part.least, min(ends)))

    def _rule(self, name: str, room: int) -> Expression | None:
        key = name, room
        if key not in self._fitted:
            if len(self._fitted) > _MOST_RULES or self._depth > _DEEPEST:
                raise _TooManyError
            self._depth += 1
            written = self.fit(self._grammar.rules[name], room)
            self._depth -= 1
            if written is not None and not isinstance(written, Rule | Text):
                self.rules[f"{name}-in{room}"] = written
                written = Rule(f"{name}-in{room}")
            self._fitted[key] = written
        return self._fitted[key]

    def _span(self, part: Expression) -> tuple[int, int]:
        """Give the bytes of the shortest and of the longest text."""
        if id(part) not in self._spans:
            self._spans[id(part)] = self._measured(part)
        return self._spans[id(part)]

    def _measured(self, part: Expression) -> tuple[int, int]:
        match part:
            case Text():
                size = len(part.text.encode())
                return size, size
            case Chars():
                return _bytes(min(low for low, _ in part.ranges)), most_bytes(part)
            case Series():
                spans = [self._span(each) for each in part.parts]
                return sum(least for least, _ in spans), min(sum(most for _, most in spans), _ENDLESS)
            case Choice():
                spans = [self._span(each) for each in part.options]
                return min(least for least, _ in spans), max(most for _, most in spans)
            case Rule():
                return self._of_rules[part.name]
            case Repeat():
                least, most = self._span(part.part)
                count = most_of(part, _LIMITS)
                return part.least * least, _ENDLESS if count is None else min(count * most, _ENDLESS)


def _kept(parts: Iterable[Expression | None]) -> list[Expression]:
    return [part for part in parts if part is not None]


def _shares(spans: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Give each part the room that its shortest text takes, and of what is left as much as it can use."""
    rooms = [least for least, _ in spans]
    left = room - sum(rooms)
    wanting = sorted(range(len(spans)), key=lambda at: spans[at][1] - spans[at][0])
    for done, at in enumerate(wanting):
        more = min(spans[at][1] - spans[at][0], left // (len(wanting) - done))
        rooms[at] += more
        left -= more
    return rooms


def most_bytes(part: Chars) -> int:
    """Give the bytes of the longest of these characters."""
    return _bytes(max(high for _, high in part.ranges))


def _bytes(point: int) -> int:
    return next((size for size, bound in _BY_BYTES if point < bound), 4)
