"""How long the texts of a grammar are, and the grammar held to a number of tokens.

Rule: the widest limits under which every text fits, but never so narrow that a value which a model means is cut: what
is too long for its tokens is better cut off, and told as such, than wrong.
Neighbours: `grammar` has the limits, `constraint` knows how many tokens there are.
"""

import bisect
from collections.abc import Mapping, Sequence

from fcshim.constrain.grammar import (
    LOOSE,
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
    most_of,
)

TIGHTER = (
    Limits(4_096, 32, 7),
    Limits(2_048, 24, 5),
    Limits(1_024, 16, 3),
    Limits(512, 12, 3),
    Limits(256, 8, 3),
    Limits(128, 6, 2),
)
"""What is tried in turn where the tokens are counted. Names, titles and addresses fit into the narrowest."""
_ENDLESS = 10**12
_STRINGS = frozenset({"characters", "thoughts"})
_CHARACTER = 2
"""Tokens that a character of a string is counted as: mostly it is less than one, but in some scripts three."""


def fitted(grammar: Grammar, tokens: int | None) -> Grammar:
    """Give the grammar with limits under which no text takes more than `tokens`.

    Where that cannot be, the limits are the narrowest, and a note says so.
    """
    if tokens is None:
        return grammar
    limits = _widest(grammar, tokens, (LOOSE, *TIGHTER))
    if limits is not None:
        return Grammar(grammar.rules, grammar.notes, limits)
    notes = (*grammar.notes, f"a call may take more than {tokens} tokens")
    return Grammar(grammar.rules, notes, TIGHTER[-1])


def _widest(grammar: Grammar, tokens: int, among: Sequence[Limits]) -> Limits | None:
    """Give the first of these limits, each narrower than the one before it, under which every text fits."""
    narrow = _lengths(grammar, among[-1], {})
    if narrow[ROOT] > tokens:
        return None
    loose = _lengths(grammar, among[0], {})
    if loose[ROOT] <= tokens:
        return among[0]
    fixed = {name: size for name, size in narrow.items() if size == loose[name] and name != ROOT}
    return among[bisect.bisect_left(among, -tokens, key=lambda limits: -_lengths(grammar, limits, fixed)[ROOT])]


def measure(grammar: Grammar, limits: Limits) -> int:
    """Give the most tokens that a text takes, by and large: where each byte is one, but those of strings."""
    return _lengths(grammar, limits, {})[ROOT]


def _lengths(grammar: Grammar, limits: Limits, fixed: Mapping[str, int]) -> dict[str, int]:
    """Give the same of every rule; those that are `fixed` do not depend on the limits."""
    known = dict(fixed)

    def of(part: Expression) -> int:
        match part:
            case Text():
                return len(part.text) if part.text.isascii() else len(part.text.encode())
            case Rule():
                return known[part.name]
            case Series():
                return sum(map(of, part.parts))
            case Choice():
                return max(map(of, part.options))
            case Chars():
                return len(chr(max(high for _, high in part.ranges)).encode())
            case Repeat():
                most = most_of(part, limits)
                one = _CHARACTER if part.counts in _STRINGS else of(part.part)
                return _ENDLESS if most is None else min(most * one, _ENDLESS)

    for name, expression in grammar.rules.items():
        if name not in known:
            known[name] = of(expression)
    return known
