"""Lists and objects: parts with something before, between and behind them.

Rule: parts come in a fixed order; which of them may be absent is said for each.
Neighbours: `notation` says what stands around parts, `values` which parts there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fcshim.constrain.grammar import EMPTY, Expression, LiteralText, Repeat, choice, optional, series
from fcshim.constrain.rules import Rules


@dataclass(frozen=True, slots=True)
class Brackets:
    """What stands around parts, and between two of them."""

    opening: str
    separator: Expression
    closing: str

    def wrap(self, inner: Expression) -> Expression:
        """Put it around."""
        return series(LiteralText(self.opening), inner, LiteralText(self.closing))

    def repeated(self, part: Expression, least: int, most: int | None) -> Expression:
        """Give so many of one part."""
        if most is not None and most <= 0:
            return LiteralText(self.opening + self.closing)
        more = Repeat(series(self.separator, part), max(least - 1, 0), None if most is None else most - 1, "items")
        inner = series(part, more)
        return self.wrap(inner if least else optional(inner))

    def with_free_keys(self, part: Expression, least: int, most: int | None, rules: Rules) -> Expression:
        """Give so many members whose keys are free. No grammar can compare a key with those before it."""
        rules.note("keys that are free may come twice")
        return self.repeated(part, least, most)

    def leading(self, parts: Sequence[Expression], least: int, rules: Rules) -> Expression | None:
        """Give some of these and no more, from the first on."""
        return None if least > len(parts) else self.wrap(self._chained(parts, EMPTY, least, rules))

    def leading_then_repeated(
        self, parts: Sequence[Expression], further: Expression, least: int, most: int | None, rules: Rules
    ) -> Expression:
        """Give these, and then more of one part."""
        more = None if most is None else most - len(parts)
        tail = Repeat(series(self.separator, further), max(least - len(parts), 0), more, "items")
        return self.wrap(self._chained(parts, tail, least, rules))

    def _chained(self, parts: Sequence[Expression], tail: Expression, least: int, rules: Rules) -> Expression:
        """Give parts, each only where those before it are, and the tail behind all of them."""
        for at in range(len(parts) - 1, -1, -1):
            tail = series(*([self.separator] if at else []), parts[at], tail)
            tail = rules.share(tail if at < least else optional(tail))
        return tail

    def members(self, members: Sequence[tuple[Expression, bool]], rules: Rules) -> Expression:
        """Give members in this order, each with whether it must be there."""
        first = next((at for at, (_, wanted) in enumerate(members) if wanted), None)
        if first is None:
            return self._all_optional([member for member, _ in members], rules)
        before = [optional(series(member, self.separator)) for member, _ in members[:first]]
        after = [
            series(self.separator, member) if wanted else optional(series(self.separator, member))
            for member, wanted in members[first + 1 :]
        ]
        return self.wrap(series(*before, members[first][0], *after))

    def _all_optional(self, members: Sequence[Expression], rules: Rules) -> Expression:
        """Give any of the members.

        Read from the end: what may follow a member that was written, and what may be written where none was yet.
        """
        if self.separator == EMPTY:
            return self.wrap(series(*map(optional, members)))
        behind: Expression = LiteralText(self.closing)
        empty: Expression = LiteralText(self.closing)
        for member in reversed(members):
            empty = rules.share(choice([series(member, behind), empty]))
            behind = rules.share(series(optional(series(self.separator, member)), behind))
        return series(LiteralText(self.opening), empty)
