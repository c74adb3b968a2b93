"""The derivative of a grammar by a prefix: a grammar of everything that may follow the prefix.

Theory of operation. A continuation is a linked list of the expressions that are still to be matched; several may be
open at once. Each character of the prefix replaces every open continuation by its partial derivatives (Antimirov 1996).
Continuations that differ only in how often their first expression may still repeat are merged. Continuations are
interned and share their tails, and the resulting grammar shares the rules of the original one.
Rule: time and memory are linear in the prefix. The limits of the result count from zero.
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
"""Continuations open at once. JSON has a few; a schema with many members, all optional, some hundreds."""
_TEXT_CHUNK = 64
"""A longer literal text is halved when its first character is taken off: without this, a prefix inside a text of n
characters would copy n^2 characters."""


def derivative(grammar: Grammar, prefix: str) -> Grammar | None:
    """Return the grammar of everything that may follow `prefix`.

    None if no text of the grammar starts with the prefix, or more than `MAX_CONTINUATIONS` would be open.
    """
    if not prefix:
        return grammar
    deriver = _Deriver(grammar.rules)
    continuations: list[_Continuation | None] = [deriver.prepend(RuleRef(ROOT), None)]
    for char in prefix:
        continuations = deriver.step(continuations, char)
        if not 0 < len(continuations) <= MAX_CONTINUATIONS:
            return None
    others = {name: rule for name, rule in grammar.rules.items() if name != ROOT}
    writer = _ContinuationWriter(others, continuations)
    return Grammar({**others, **writer.rules, ROOT: writer.root}, grammar.notes, grammar.limits)


class _Continuation:
    """A cell of a linked list: a pending expression, its remaining repetitions, and the next cell.

    None in place of a continuation is the end of the text: it accepts.
    """

    __slots__ = ("counts", "maximum", "minimum", "next", "part")

    def __init__(
        self, part: Expression, minimum: int, maximum: int | None, counts: CountedUnit, next_: "_Continuation | None"
    ) -> None:
        self.part = part
        self.minimum = minimum
        self.maximum = maximum
        self.counts: CountedUnit = counts
        self.next = next_

    @property
    def expression(self) -> Expression:
        """The pending expression with its repetitions, without the next cell."""
        once = self.minimum == self.maximum == 1
        return self.part if once else Repeat(self.part, self.minimum, self.maximum, self.counts)


@dataclass(frozen=True, slots=True)
class _FirstSet:
    """The literal texts and character sets with which a part may begin, each with the rest of the part after it."""

    leaves: tuple[tuple[LiteralText | Chars, _Continuation | None], ...]
    nullable: bool
    """Whether the part may be empty."""


class _Deriver:
    """Computes the derivatives of continuations. Equal continuations are one object (interned)."""

    def __init__(self, rules: Mapping[str, Expression]) -> None:
        self._rules = rules
        self._interned: dict[tuple[int, int, int | None, CountedUnit, int], _Continuation] = {}
        # Keyed by the ids of expressions: each is kept alive by the rules or by an interned continuation.
        self._first_sets: dict[int, _FirstSet] = {}
        self._remainders: dict[tuple[int, str], tuple[_Continuation | None, ...]] = {}

    def prepend(self, part: Expression, tail: _Continuation | None) -> _Continuation | None:
        """Return the continuation that matches the part, then `tail`."""
        if isinstance(part, Repeat):
            return self._prepend_repeat(part.part, part.minimum, part.maximum, part.counts, tail)
        return self._prepend_repeat(part, 1, 1, "", tail)

    def step(self, continuations: Iterable[_Continuation | None], char: str) -> list[_Continuation | None]:
        """Return the continuations that are open after one more character."""
        found: dict[_Continuation | None, None] = {}
        for cell in continuations:
            while cell is not None:
                remainders = self._remainders_after(cell.part, char)
                if remainders:
                    maximum = cell.maximum and cell.maximum - 1
                    remaining = self._prepend_repeat(
                        cell.part, max(cell.minimum - 1, 0), maximum, cell.counts, cell.next
                    )
                    found.update(dict.fromkeys(self._append(rest, remaining) for rest in remainders))
                if cell.minimum and not self._first_set(cell.part).nullable:
                    break
                cell = cell.next  # noqa: PLW2901 - the first cell may be skipped, so the next one may match
        return list(found) if len(found) < 2 else self._merged(found)

    def _prepend_repeat(
        self, part: Expression, minimum: int, maximum: int | None, counts: CountedUnit, tail: _Continuation | None
    ) -> _Continuation | None:
        if maximum == 0 or part == EMPTY:
            return tail
        key = id(part), minimum, maximum, counts, id(tail)
        continuation = self._interned.get(key)
        if continuation is None:
            continuation = self._interned[key] = _Continuation(part, minimum, maximum, counts, tail)
        return continuation

    def _append(self, continuation: _Continuation | None, tail: _Continuation | None) -> _Continuation | None:
        """Concatenate two continuations."""
        for cell in reversed(list(_chain(continuation))):
            tail = self._prepend_repeat(cell.part, cell.minimum, cell.maximum, cell.counts, tail)
        return tail

    def _merged(self, continuations: Iterable[_Continuation | None]) -> list[_Continuation | None]:
        """Merge continuations that differ only in adjacent repetition counts of their first cell.

        This keeps one continuation per long bounded repetition, where there would be one for each count.
        """
        groups: dict[tuple[int, CountedUnit, int], list[_Continuation]] = {}
        for each in continuations:
            if each is not None:
                groups.setdefault((id(each.part), each.counts, id(each.next)), []).append(each)
        merged: list[_Continuation | None] = [] if None not in continuations else [None]
        for group in groups.values():
            group.sort(key=lambda each: each.minimum)
            last = group[0]
            for each in group[1:]:
                if last.maximum is not None and each.minimum > last.maximum + 1:
                    merged.append(last)
                    last = each
                    continue
                maximum = None if last.maximum is None or each.maximum is None else max(last.maximum, each.maximum)
                joined = self._prepend_repeat(last.part, last.minimum, maximum, last.counts, last.next)
                assert joined is not None
                last = joined
            merged.append(last)
        return merged

    def _remainders_after(self, part: Expression, char: str) -> tuple[_Continuation | None, ...]:
        """Return the derivatives of one part by a character, cached."""
        key = id(part), char
        remainders = self._remainders.get(key)
        if remainders is None:
            point = ord(char)
            found: list[_Continuation | None] = []
            for leaf, rest in self._first_set(part).leaves:
                if isinstance(leaf, Chars):
                    if any(low <= point <= high for low, high in leaf.ranges):
                        found.append(rest)
                elif leaf.text[0] == char:
                    text = leaf.text
                    end = len(text) // 2 if len(text) > _TEXT_CHUNK else len(text)
                    found.append(self.prepend(LiteralText(text[1:end]), self.prepend(LiteralText(text[end:]), rest)))
            remainders = self._remainders[key] = tuple(found)
        return remainders

    def _first_set(self, part: Expression) -> _FirstSet:
        first_set = self._first_sets.get(id(part))
        if first_set is None:
            first_set = self._first_sets[id(part)] = self._compute_first_set(part)
        return first_set

    def _compute_first_set(self, part: Expression) -> _FirstSet:
        """Compute the first set of a part with a worklist, since rules may refer to one another by hundreds."""
        leaves: dict[tuple[LiteralText | Chars, _Continuation | None], None] = {}
        pending = [self.prepend(part, None)]
        nullable = False
        seen = set(pending)
        while pending:
            continuation = pending.pop()
            if continuation is None:
                nullable = True
                continue
            onward = self._unfold(continuation, leaves)
            pending += [each for each in onward if each not in seen]
            seen.update(onward)
        return _FirstSet(tuple(leaves), nullable)

    def _unfold(
        self, continuation: _Continuation, leaves: dict[tuple[LiteralText | Chars, _Continuation | None], None]
    ) -> list[_Continuation | None]:
        """Expand the first expression of a continuation by one level; add literals and character sets to `leaves`."""
        part, tail = continuation.part, continuation.next
        if (continuation.minimum, continuation.maximum) != (1, 1):
            remaining = self._prepend_repeat(
                part,
                max(continuation.minimum - 1, 0),
                continuation.maximum and continuation.maximum - 1,
                continuation.counts,
                tail,
            )
            first_set = self._first_set(part)
            leaves.update(dict.fromkeys((leaf, self._append(rest, remaining)) for leaf, rest in first_set.leaves))
            return [tail] if not continuation.minimum or first_set.nullable else []
        match part:
            case LiteralText() | Chars():
                leaves[part, tail] = None
                return []
            case Series():
                rest = part.parts[1] if len(part.parts) == 2 else Series(part.parts[1:])
                return [self.prepend(part.parts[0], self.prepend(rest, tail))]
            case Alternation():
                return [self.prepend(option, tail) for option in reversed(part.options)]
            case RuleRef():
                return [self.prepend(self._rules[part.name], tail)]
            case Repeat():
                return [self.prepend(part, tail)]


class _ContinuationWriter:
    """Turns continuations back into expressions; a tail that several continuations share becomes a rule."""

    def __init__(self, rules: Mapping[str, Expression], continuations: Iterable[_Continuation | None]) -> None:
        self._existing = rules
        self.rules: dict[str, Expression] = {}
        self._rule_refs: dict[_Continuation, RuleRef] = {}
        first = list(continuations)
        cells = list(_distinct_links(first))
        self._reference_counts = Counter(cell.next for cell in cells if cell.next is not None)
        self.root = choice(dict.fromkeys(self._expression(each) for each in first))

    def _expression(self, continuation: _Continuation | None) -> Expression:
        cells: list[_Continuation] = []
        end: Expression = EMPTY
        for cell in _chain(continuation):
            if cell in self._rule_refs:
                end = self._rule_refs[cell]
                break
            cells.append(cell)
        parts: list[Expression] = [end]
        for cell in reversed(cells):
            parts.append(cell.expression)
            if self._reference_counts[cell] > 1:
                parts = [self._add_rule(cell, series(*reversed(parts)))]
        return series(*reversed(parts))

    def _add_rule(self, continuation: _Continuation, expression: Expression) -> RuleRef:
        number = len(self.rules)
        while (name := f"rest{number}") in self._existing:
            number += len(self._existing)
        self.rules[name] = expression
        self._rule_refs[continuation] = RuleRef(name)
        return self._rule_refs[continuation]


def _chain(continuation: _Continuation | None) -> Iterator[_Continuation]:
    """Return the cells of a continuation in order."""
    while continuation is not None:
        yield continuation
        continuation = continuation.next


def _distinct_links(continuations: Iterable[_Continuation | None]) -> Iterator[_Continuation]:
    """Return the cells of all continuations, each once."""
    seen: set[_Continuation] = set()
    for continuation in continuations:
        for cell in _chain(continuation):
            if cell in seen:
                break
            seen.add(cell)
            yield cell
