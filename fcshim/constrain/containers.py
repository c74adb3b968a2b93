"""Arrays and objects: elements between an opening and a closing text, with a separator.

Rule: members come in a fixed order; each one is either required or optional.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fcshim.constrain.grammar import EMPTY, Expression, LiteralText, Repeat, choice, optional, series
from fcshim.constrain.rules import Rules
from fcshim.events import JSON

_Key: TypeAlias = tuple[str, JSON]
"""What tells an element from the others."""


@dataclass(frozen=True, slots=True)
class Brackets:
    """The opening and closing text of a container, and the separator of its elements."""

    opening: str
    separator: Expression
    closing: str

    def wrap(self, inner: Expression) -> Expression:
        """Put the brackets around an expression."""
        return series(LiteralText(self.opening), inner, LiteralText(self.closing))

    def repeated(self, part: Expression, minimum: int, maximum: int | None) -> Expression:
        """Admit `minimum` to `maximum` repetitions of a part."""
        if maximum is not None and maximum <= 0:
            return LiteralText(self.opening + self.closing)
        more = Repeat(
            series(self.separator, part), max(minimum - 1, 0), None if maximum is None else maximum - 1, "items"
        )
        inner = series(part, more)
        return self.wrap(inner if minimum else optional(inner))

    def with_free_keys(self, part: Expression, minimum: int, maximum: int | None, rules: Rules) -> Expression:
        """Admit `minimum` to `maximum` members with keys that the schema does not name.

        A context-free grammar cannot exclude a key that came before.
        """
        rules.note("keys that the schema does not name may repeat")
        return self.repeated(part, minimum, maximum)

    def distinct(
        self,
        choices: Sequence[Mapping[_Key, Expression]],
        further: Mapping[_Key, Expression],
        minimum: int,
        maximum: int | None,
        rules: Rules,
    ) -> Expression | None:
        """Admit distinct elements: one of the choices for each position, then further ones; None where there are none.

        Each set of elements that are written already becomes a rule.
        """
        states: dict[frozenset[_Key], Expression | None] = {}

        def after(used: frozenset[_Key]) -> Expression | None:
            if used not in states:
                options: list[Expression] = [] if len(used) < minimum else [EMPTY]
                left = choices[len(used)] if len(used) < len(choices) else further
                for key in left if maximum is None or len(used) < maximum else ():
                    more = None if key in used else after(used | {key})
                    options += [] if more is None else [series(self.separator if used else EMPTY, left[key], more)]
                states[used] = rules.share(choice(options)) if options else None
            return states[used]

        inner = after(frozenset())
        return None if inner is None else self.wrap(inner)

    def leading(self, parts: Sequence[Expression], minimum: int, rules: Rules) -> Expression | None:
        """Admit the first parts in order, at least `minimum` of them; None where there are fewer."""
        return None if minimum > len(parts) else self.wrap(self._chained(parts, EMPTY, minimum, rules))

    def leading_then_repeated(
        self, parts: Sequence[Expression], further: Expression, minimum: int, maximum: int | None, rules: Rules
    ) -> Expression:
        """Admit the parts in order, then repetitions of `further`, `minimum` to `maximum` elements in all."""
        more = None if maximum is None else maximum - len(parts)
        tail = Repeat(series(self.separator, further), max(minimum - len(parts), 0), more, "items")
        return self.wrap(self._chained(parts, tail, minimum, rules))

    def _chained(self, parts: Sequence[Expression], tail: Expression, minimum: int, rules: Rules) -> Expression:
        """Nest the parts, so that each one only follows all before it; `tail` follows the last."""
        for at in range(len(parts) - 1, -1, -1):
            tail = series(*([self.separator] if at else []), parts[at], tail)
            tail = rules.share(tail if at < minimum else optional(tail))
        return tail

    def members(
        self, members: Sequence[tuple[Expression, bool]], rules: Rules, other: Expression | None = None
    ) -> Expression:
        """Admit members in this order; each comes with whether it is required. Any number of `other` may follow."""
        more = EMPTY if other is None else rules.share(Repeat(series(self.separator, other), 0, None, "items"))
        first = next((at for at, (_, required) in enumerate(members) if required), None)
        if first is None:
            return self._all_optional([member for member, _ in members], rules, other, more)
        before = [optional(series(member, self.separator)) for member, _ in members[:first]]
        after = [
            series(self.separator, member) if required else optional(series(self.separator, member))
            for member, required in members[first + 1 :]
        ]
        return self.wrap(series(*before, members[first][0], *after, more))

    def _all_optional(
        self, members: Sequence[Expression], rules: Rules, other: Expression | None, more: Expression
    ) -> Expression:
        """Admit any subset of the members, in order.

        Built from the end: `after_member` is what may follow a written member, `at_start` what may follow the opening.
        Both are shared rules, so that the grammar grows linearly with the members.
        """
        if self.separator == EMPTY:
            return self.wrap(series(*map(optional, members)))
        closing = LiteralText(self.closing)
        after_member: Expression = series(more, closing)
        at_start: Expression = (
            closing if other is None else rules.share(choice([series(other, more, closing), closing]))
        )
        for member in reversed(members):
            at_start = rules.share(choice([series(member, after_member), at_start]))
            after_member = rules.share(series(optional(series(self.separator, member)), after_member))
        return series(LiteralText(self.opening), at_start)
