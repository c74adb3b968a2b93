"""Lists and objects: parts with something before, between and behind them.

Rule: parts come in a fixed order; which of them may be absent is said for each.
Neighbours: `notation` says what stands around parts, `values` which parts there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fcshim.constrain.grammar import EMPTY, Expression, Repeat, Text, choice, optional, series
from fcshim.constrain.rules import Rules


@dataclass(frozen=True, slots=True)
class Brackets:
    """What stands around parts, and between two of them."""

    opens: str
    between: Expression
    closes: str

    def around(self, inner: Expression) -> Expression:
        """Put it around."""
        return series(Text(self.opens), inner, Text(self.closes))

    def listed(self, part: Expression, least: int, most: int | None) -> Expression:
        """Give so many of one part."""
        if most is not None and most <= 0:
            return Text(self.opens + self.closes)
        more = Repeat(series(self.between, part), max(least - 1, 0), None if most is None else most - 1, "items")
        inner = series(part, more)
        return self.around(inner if least else optional(inner))

    def with_free_keys(self, part: Expression, least: int, most: int | None, rules: Rules) -> Expression:
        """Give so many members whose keys are free. No grammar can compare a key with those before it."""
        rules.note("keys that are free may come twice")
        return self.listed(part, least, most)

    def first_of(self, parts: Sequence[Expression], least: int, rules: Rules) -> Expression | None:
        """Give some of these and no more, from the first on."""
        return None if least > len(parts) else self.around(self._followed(parts, EMPTY, least, rules))

    def then_listed(
        self, parts: Sequence[Expression], further: Expression, least: int, most: int | None, rules: Rules
    ) -> Expression:
        """Give these, and then more of one part."""
        more = None if most is None else most - len(parts)
        tail = Repeat(series(self.between, further), max(least - len(parts), 0), more, "items")
        return self.around(self._followed(parts, tail, least, rules))

    def _followed(self, parts: Sequence[Expression], tail: Expression, least: int, rules: Rules) -> Expression:
        """Give parts, each only where those before it are, and the tail behind all of them."""
        for at in range(len(parts) - 1, -1, -1):
            tail = series(*([self.between] if at else []), parts[at], tail)
            tail = rules.share(tail if at < least else optional(tail))
        return tail

    def members(self, members: Sequence[tuple[Expression, bool]], rules: Rules) -> Expression:
        """Give members in this order, each with whether it must be there."""
        first = next((at for at, (_, wanted) in enumerate(members) if wanted), None)
        if first is None:
            return self._some([member for member, _ in members], rules)
        before = [optional(series(member, self.between)) for member, _ in members[:first]]
        after = [
            series(self.between, member) if wanted else optional(series(self.between, member))
            for member, wanted in members[first + 1 :]
        ]
        return self.around(series(*before, members[first][0], *after))

    def _some(self, members: Sequence[Expression], rules: Rules) -> Expression:
        """Give any of the members.

        Read from the end: what may follow a member that was written, and what may be written where none was yet.
        """
        if self.between == EMPTY:
            return self.around(series(*map(optional, members)))
        behind: Expression = Text(self.closes)
        empty: Expression = Text(self.closes)
        for member in reversed(members):
            empty = rules.share(choice([series(member, behind), empty]))
            behind = rules.share(series(optional(series(self.between, member)), behind))
        return series(Text(self.opens), empty)
