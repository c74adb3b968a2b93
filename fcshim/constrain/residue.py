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
    Chars,
    Choice,
    Counts,
    Expression,
    Grammar,
    Repeat,
    Rule,
    Series,
    Text,
    choice,
    series,
)

MOST_WAYS = 2_000
"""Ways that are open at once. JSON leaves a few; a schema whose members are many and all optional, some hundreds."""
_PIECE = 64
"""Characters of a long text that are looked at as one, so that taking one away does not copy all the others."""


def residue(grammar: Grammar, prefix: str) -> Grammar | None:
    """Give the grammar of all that may follow `prefix`.

    None where the grammar admits no text that begins so, or where it leaves more than `MOST_WAYS` open.
    """
    if not prefix:
        return grammar
    walk = _Walk(grammar.rules)
    ways: list[_Way | None] = [walk.put(Rule(ROOT), None)]
    for char in prefix:
        ways = walk.step(ways, char)
        if not 0 < len(ways) <= MOST_WAYS:
            return None
    others = {name: rule for name, rule in grammar.rules.items() if name != ROOT}
    rest = _Rest(others, ways)
    return Grammar({**others, **rest.rules, ROOT: rest.root}, grammar.notes, grammar.limits)


class _Way:
    """A part, how often it is still to come, and what follows then; None in the place of a way is the end."""

    __slots__ = ("behind", "counts", "least", "most", "part")

    def __init__(self, part: Expression, least: int, most: int | None, counts: Counts, behind: "_Way | None") -> None:
        self.part = part
        self.least = least
        self.most = most
        self.counts: Counts = counts
        self.behind = behind

    @property
    def expression(self) -> Expression:
        """What is to come before what is behind."""
        once = self.least == self.most == 1
        return self.part if once else Repeat(self.part, self.least, self.most, self.counts)


@dataclass(frozen=True, slots=True)
class _Opening:
    """How a part may begin: texts and characters, each with what then remains of the part; `empty`: or not at all."""

    leaves: tuple[tuple[Text | Chars, _Way | None], ...]
    empty: bool


class _Walk:
    """Takes ways from one character to the next. Ways that are the same are one object."""

    def __init__(self, rules: Mapping[str, Expression]) -> None:
        self._rules = rules
        self._ways: dict[tuple[int, int, int | None, Counts, int], _Way] = {}
        # By the ids of expressions, which live as long as the rules or the ways that they are in.
        self._openings: dict[int, _Opening] = {}
        self._after: dict[tuple[int, str], tuple[_Way | None, ...]] = {}

    def put(self, part: Expression, behind: _Way | None) -> _Way | None:
        """Give the way of a part with what is behind it."""
        if isinstance(part, Repeat):
            return self._times(part.part, part.least, part.most, part.counts, behind)
        return self._times(part, 1, 1, "", behind)

    def step(self, ways: Iterable[_Way | None], char: str) -> list[_Way | None]:
        """Give the ways that are open after one more character."""
        found: dict[_Way | None, None] = {}
        for way in ways:
            while way is not None:
                after = self._ways_after(way.part, char)
                if after:
                    most = way.most and way.most - 1
                    less = self._times(way.part, max(way.least - 1, 0), most, way.counts, way.behind)
                    found.update(dict.fromkeys(self._onto(rest, less) for rest in after))
                if way.least and not self._opening(way.part).empty:
                    break
                way = way.behind  # noqa: PLW2901 - one after the other
        return list(found) if len(found) < 2 else self._merged(found)

    def _times(
        self, part: Expression, least: int, most: int | None, counts: Counts, behind: _Way | None
    ) -> _Way | None:
        if most == 0 or part == EMPTY:
            return behind
        key = id(part), least, most, counts, id(behind)
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = _Way(part, least, most, counts, behind)
        return way

    def _onto(self, way: _Way | None, behind: _Way | None) -> _Way | None:
        """Give a way that goes on as `behind` does where it ends now."""
        for each in reversed(list(_chain(way))):
            behind = self._times(each.part, each.least, each.most, each.counts, behind)
        return behind

    def _merged(self, ways: Iterable[_Way | None]) -> list[_Way | None]:
        """Make one of ways that differ in how often their first part may come, where nothing lies between."""
        alike: dict[tuple[int, Counts, int], list[_Way]] = {}
        for way in ways:
            if way is not None:
                alike.setdefault((id(way.part), way.counts, id(way.behind)), []).append(way)
        merged: list[_Way | None] = [] if None not in ways else [None]
        for group in alike.values():
            group.sort(key=lambda way: way.least)
            last = group[0]
            for way in group[1:]:
                if last.most is not None and way.least > last.most + 1:
                    merged.append(last)
                    last = way
                    continue
                most = None if last.most is None or way.most is None else max(last.most, way.most)
                joined = self._times(last.part, last.least, most, last.counts, last.behind)
                assert joined is not None
                last = joined
            merged.append(last)
        return merged

    def _ways_after(self, part: Expression, char: str) -> tuple[_Way | None, ...]:
        """Give what remains of a part after its first character."""
        key = id(part), char
        after = self._after.get(key)
        if after is None:
            leaves = self._opening(part).leaves
            after = self._after[key] = tuple(self._taken(leaf, rest) for leaf, rest in leaves if _begins(leaf, char))
        return after

    def _taken(self, leaf: Text | Chars, rest: _Way | None) -> _Way | None:
        if isinstance(leaf, Chars):
            return rest
        text = leaf.text
        half = len(text) // 2 if len(text) > _PIECE else len(text)
        return self.put(Text(text[1:half]), self.put(Text(text[half:]), rest))

    def _opening(self, part: Expression) -> _Opening:
        opening = self._openings.get(id(part))
        if opening is None:
            opening = self._openings[id(part)] = self._opened(part)
        return opening

    def _opened(self, part: Expression) -> _Opening:
        """Look for the beginnings of a part; a list of what waits, since rules may follow one another by hundreds."""
        leaves: dict[tuple[Text | Chars, _Way | None], None] = {}
        waiting = [self.put(part, None)]
        empty = False
        seen = set(waiting)
        while waiting:
            way = waiting.pop()
            if way is None:
                empty = True
                continue
            onward = self._unfolded(way, leaves)
            waiting += [each for each in onward if each not in seen]
            seen.update(onward)
        return _Opening(tuple(leaves), empty)

    def _unfolded(self, way: _Way, leaves: dict[tuple[Text | Chars, _Way | None], None]) -> list[_Way | None]:
        """Take one level off the first part of a way; what is a leaf goes to the leaves."""
        part, behind = way.part, way.behind
        if (way.least, way.most) != (1, 1):
            less = self._times(part, max(way.least - 1, 0), way.most and way.most - 1, way.counts, behind)
            opening = self._opening(part)
            leaves.update(dict.fromkeys((leaf, self._onto(rest, less)) for leaf, rest in opening.leaves))
            return [behind] if not way.least or opening.empty else []
        match part:
            case Text() | Chars():
                leaves[part, behind] = None
                return []
            case Series():
                rest = part.parts[1] if len(part.parts) == 2 else Series(part.parts[1:])
                return [self.put(part.parts[0], self.put(rest, behind))]
            case Choice():
                return [self.put(option, behind) for option in reversed(part.options)]
            case Rule():
                return [self.put(self._rules[part.name], behind)]
            case Repeat():
                return [self.put(part, behind)]


class _Rest:
    """Writes ways as rules: where two ways come together, a rule begins."""

    def __init__(self, rules: Mapping[str, Expression], ways: Iterable[_Way | None]) -> None:
        self._taken = rules
        self.rules: dict[str, Expression] = {}
        self._made: dict[_Way, Rule] = {}
        first = list(ways)
        met = list(_each(first))
        self._into = Counter(way.behind for way in met if way.behind is not None)
        self.root = choice(dict.fromkeys(self._written(way) for way in first))

    def _written(self, way: _Way | None) -> Expression:
        chain: list[_Way] = []
        made: Expression = EMPTY
        for each in _chain(way):
            if each in self._made:
                made = self._made[each]
                break
            chain.append(each)
        parts: list[Expression] = [made]
        for each in reversed(chain):
            parts.append(each.expression)
            if self._into[each] > 1:
                parts = [self._rule(each, series(*reversed(parts)))]
        return series(*reversed(parts))

    def _rule(self, way: _Way, expression: Expression) -> Rule:
        number = len(self.rules)
        while (name := f"rest{number}") in self._taken:
            number += len(self._taken)
        self.rules[name] = expression
        self._made[way] = Rule(name)
        return self._made[way]


def _begins(leaf: Text | Chars, char: str) -> bool:
    if isinstance(leaf, Text):
        return leaf.text[0] == char
    point = ord(char)
    return any(low <= point <= high for low, high in leaf.ranges)


def _chain(way: _Way | None) -> Iterator[_Way]:
    """Give a way and what is behind it, one after the other."""
    while way is not None:
        yield way
        way = way.behind


def _each(ways: Iterable[_Way | None]) -> Iterator[_Way]:
    """Give all that the ways are made of, each once."""
    seen: set[_Way] = set()
    for way in ways:
        for each in _chain(way):
            if each in seen:
                break
            seen.add(each)
            yield each
