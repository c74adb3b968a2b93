"""What may follow a text that was begun: the rest of a grammar.

Theory of operation. A way to go on is a chain of what is still to be written. Each character of the prefix takes every
open way one step further (Antimirov's partial derivatives); ways that differ only in how often a part may still
repeat become one. Ways share the ends of their chains, and the grammar that comes out shares its rules with the first.
Rule: time and memory grow with the prefix, not with its square; limits count anew for what follows.
Neighbours: `grammar` is what is read and written; `constraint` asks for the rest of a call.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fcshim.constrain.grammar import (
    EMPTY,
    ROOT,
    Alternation,
    Chars,
    CountedUnit,
    Expression,
    Grammar,
    LiteralText,
    Repeat,
    RuleRef,
    Series,
    choice,
    series,
)

MAX_CONTINUATIONS = 2_000
"""Ways that are open at once. JSON leaves a few; a schema whose members are many and all optional, some hundreds."""
_TEXT_CHUNK = 64
"""Characters of a long text that are looked at as one, so that taking one away does not copy all the others."""


def derivative(grammar: Grammar, prefix: str) -> Grammar | None:
    """Give the grammar of all that may follow `prefix`.

    None where the grammar admits no text that begins so, or where it leaves more than `MOST_WAYS` open.
    """
    if not prefix:
        return grammar
    walk = _Deriver(grammar.rules)
    ways: list[_Continuation | None] = [walk.prepend(RuleRef(ROOT), None)]
    for char in prefix:
        ways = walk.step(ways, char)
        if not 0 < len(ways) <= MAX_CONTINUATIONS:
            return None
    others = {name: rule for name, rule in grammar.rules.items() if name != ROOT}
    rest = _ContinuationWriter(others, ways)
    return Grammar({**others, **rest.rules, ROOT: rest.root}, grammar.notes, grammar.limits)


class _Continuation:
    """A part, how often it is still to come, and what follows then; None in the place of a way is the end."""

    __slots__ = ("counts", "least", "most", "next", "part")

    def __init__(
        self, part: Expression, least: int, most: int | None, counts: CountedUnit, behind: "_Continuation | None"
    ) -> None:
        self.part = part
        self.least = least
        self.most = most
        self.counts: CountedUnit = counts
        self.next = behind

    @property
    def expression(self) -> Expression:
        """What is to come before what is behind."""
        once = self.least == self.most == 1
        return self.part if once else Repeat(self.part, self.least, self.most, self.counts)


@dataclass(frozen=True, slots=True)
class _FirstSet:
    """How a part may begin: texts and characters, each with what then remains of the part; `empty`: or not at all."""

    leaves: tuple[tuple[LiteralText | Chars, _Continuation | None], ...]
    nullable: bool


class _Deriver:
    """Takes ways from one character to the next. Ways that are the same are one object."""

    def __init__(self, rules: Mapping[str, Expression]) -> None:
        self._rules = rules
        self._interned: dict[tuple[int, int, int | None, CountedUnit, int], _Continuation] = {}
        # By the ids of expressions, which live as long as the rules or the ways that they are in.
        self._first_sets: dict[int, _FirstSet] = {}
        self._remainders: dict[tuple[int, str], tuple[_Continuation | None, ...]] = {}

    def prepend(self, part: Expression, tail: _Continuation | None) -> _Continuation | None:
        """Give the way of a part with what is behind it."""
        if isinstance(part, Repeat):
            return self._prepend_repeat(part.part, part.least, part.most, part.counts, tail)
        return self._prepend_repeat(part, 1, 1, "", tail)

    def step(self, continuations: Iterable[_Continuation | None], char: str) -> list[_Continuation | None]:
        """Give the ways that are open after one more character."""
        found: dict[_Continuation | None, None] = {}
        for way in continuations:
            while way is not None:
                after = self._remainders_after(way.part, char)
                if after:
                    most = way.most and way.most - 1
                    less = self._prepend_repeat(way.part, max(way.least - 1, 0), most, way.counts, way.next)
                    found.update(dict.fromkeys(self._append(rest, less) for rest in after))
                if way.least and not self._first_set(way.part).nullable:
                    break
                way = way.next  # noqa: PLW2901 - one after the other
        return list(found) if len(found) < 2 else self._merged(found)

    def _prepend_repeat(
        self, part: Expression, least: int, most: int | None, counts: CountedUnit, tail: _Continuation | None
    ) -> _Continuation | None:
        if most == 0 or part == EMPTY:
            return tail
        key = id(part), least, most, counts, id(tail)
        way = self._interned.get(key)
        if way is None:
            way = self._interned[key] = _Continuation(part, least, most, counts, tail)
        return way

    def _append(self, continuation: _Continuation | None, tail: _Continuation | None) -> _Continuation | None:
        """Give a way that goes on as `behind` does where it ends now."""
        for each in reversed(list(_chain(continuation))):
            tail = self._prepend_repeat(each.part, each.least, each.most, each.counts, tail)
        return tail

    def _merged(self, continuations: Iterable[_Continuation | None]) -> list[_Continuation | None]:
        """Make one of ways that differ in how often their first part may come, where nothing lies between."""
        alike: dict[tuple[int, CountedUnit, int], list[_Continuation]] = {}
        for way in continuations:
            if way is not None:
                alike.setdefault((id(way.part), way.counts, id(way.next)), []).append(way)
        merged: list[_Continuation | None] = [] if None not in continuations else [None]
        for group in alike.values():
            group.sort(key=lambda way: way.least)
            last = group[0]
            for way in group[1:]:
                if last.most is not None and way.least > last.most + 1:
                    merged.append(last)
                    last = way
                    continue
                most = None if last.most is None or way.most is None else max(last.most, way.most)
                joined = self._prepend_repeat(last.part, last.least, most, last.counts, last.next)
                assert joined is not None
                last = joined
            merged.append(last)
        return merged

    def _remainders_after(self, part: Expression, char: str) -> tuple[_Continuation | None, ...]:
        """Give what remains of a part after its first character."""
        key = id(part), char
        after = self._remainders.get(key)
        if after is None:
            leaves = self._first_set(part).leaves
            after = self._remainders[key] = tuple(
                self._after_leaf(leaf, rest) for leaf, rest in leaves if _starts_with(leaf, char)
            )
        return after

    def _after_leaf(self, leaf: LiteralText | Chars, rest: _Continuation | None) -> _Continuation | None:
        if isinstance(leaf, Chars):
            return rest
        text = leaf.text
        half = len(text) // 2 if len(text) > _TEXT_CHUNK else len(text)
        return self.prepend(LiteralText(text[1:half]), self.prepend(LiteralText(text[half:]), rest))

    def _first_set(self, part: Expression) -> _FirstSet:
        opening = self._first_sets.get(id(part))
        if opening is None:
            opening = self._first_sets[id(part)] = self._compute_first_set(part)
        return opening

    def _compute_first_set(self, part: Expression) -> _FirstSet:
        """Look for the beginnings of a part; a list of what waits, since rules may follow one another by hundreds."""
        leaves: dict[tuple[LiteralText | Chars, _Continuation | None], None] = {}
        waiting = [self.prepend(part, None)]
        empty = False
        seen = set(waiting)
        while waiting:
            way = waiting.pop()
            if way is None:
                empty = True
                continue
            onward = self._unfold(way, leaves)
            waiting += [each for each in onward if each not in seen]
            seen.update(onward)
        return _FirstSet(tuple(leaves), empty)

    def _unfold(
        self, continuation: _Continuation, leaves: dict[tuple[LiteralText | Chars, _Continuation | None], None]
    ) -> list[_Continuation | None]:
        """Take one level off the first part of a way; what is a leaf goes to the leaves."""
        part, behind = continuation.part, continuation.next
        if (continuation.least, continuation.most) != (1, 1):
            less = self._prepend_repeat(
                part,
                max(continuation.least - 1, 0),
                continuation.most and continuation.most - 1,
                continuation.counts,
                behind,
            )
            opening = self._first_set(part)
            leaves.update(dict.fromkeys((leaf, self._append(rest, less)) for leaf, rest in opening.leaves))
            return [behind] if not continuation.least or opening.nullable else []
        match part:
            case LiteralText() | Chars():
                leaves[part, behind] = None
                return []
            case Series():
                rest = part.parts[1] if len(part.parts) == 2 else Series(part.parts[1:])
                return [self.prepend(part.parts[0], self.prepend(rest, behind))]
            case Alternation():
                return [self.prepend(option, behind) for option in reversed(part.options)]
            case RuleRef():
                return [self.prepend(self._rules[part.name], behind)]
            case Repeat():
                return [self.prepend(part, behind)]


class _ContinuationWriter:
    """Writes ways as rules: where two ways come together, a rule begins."""

    def __init__(self, rules: Mapping[str, Expression], ways: Iterable[_Continuation | None]) -> None:
        self._existing = rules
        self.rules: dict[str, Expression] = {}
        self._rule_refs: dict[_Continuation, RuleRef] = {}
        first = list(ways)
        met = list(_distinct_links(first))
        self._reference_counts = Counter(way.next for way in met if way.next is not None)
        self.root = choice(dict.fromkeys(self._expression(way) for way in first))

    def _expression(self, continuation: _Continuation | None) -> Expression:
        chain: list[_Continuation] = []
        made: Expression = EMPTY
        for each in _chain(continuation):
            if each in self._rule_refs:
                made = self._rule_refs[each]
                break
            chain.append(each)
        parts: list[Expression] = [made]
        for each in reversed(chain):
            parts.append(each.expression)
            if self._reference_counts[each] > 1:
                parts = [self._add_rule(each, series(*reversed(parts)))]
        return series(*reversed(parts))

    def _add_rule(self, continuation: _Continuation, expression: Expression) -> RuleRef:
        number = len(self.rules)
        while (name := f"rest{number}") in self._existing:
            number += len(self._existing)
        self.rules[name] = expression
        self._rule_refs[continuation] = RuleRef(name)
        return self._rule_refs[continuation]


def _starts_with(leaf: LiteralText | Chars, char: str) -> bool:
    if isinstance(leaf, LiteralText):
        return leaf.text[0] == char
    point = ord(char)
    return any(low <= point <= high for low, high in leaf.ranges)


def _chain(continuation: _Continuation | None) -> Iterator[_Continuation]:
    """Give a way and what is behind it, one after the other."""
    while continuation is not None:
        yield continuation
        continuation = continuation.next


def _distinct_links(continuations: Iterable[_Continuation | None]) -> Iterator[_Continuation]:
    """Give all that the ways are made of, each once."""
    seen: set[_Continuation] = set()
    for way in continuations:
        for each in _chain(way):
            if each in seen:
                break
            seen.add(each)
            yield each
