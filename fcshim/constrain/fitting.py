"""How long the texts of a grammar are, and the grammar held to a number of tokens.

Rule: the widest limits under which every text fits; where these are narrow, texts that are too long are left out.
Neighbours: `grammar` has the limits, `shortening` leaves texts out, `constraint` knows how many tokens there are.
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
from fcshim.constrain.shortening import most_bytes, shortened

TIGHTER = (
    Limits(4_096, 32, 7),
    Limits(2_048, 24, 5),
    Limits(1_024, 16, 3),
    Limits(512, 12, 3),
    Limits(256, 8, 3),
    Limits(128, 6, 2),
    Limits(64, 4, 1),
    Limits(32, 3, 1),
    Limits(24, 2, 0),
    Limits(16, 1, 0),
    Limits(8, 1, 0),
)
"""What is tried in turn where the tokens are counted."""
_ENDLESS = 10**12
_STRINGS = frozenset({"characters", "thoughts"})
_MANY = 256
"""Characters of a string of which it is sure enough that two tokens are enough for one, on average."""
_WIDE = tuple(limits for limits in (LOOSE, *TIGHTER) if limits.characters >= _MANY)
_NARROW = tuple(limits for limits in TIGHTER if limits.characters < _MANY)


def fitted(grammar: Grammar, tokens: int | None) -> Grammar:
    """Give the grammar with limits under which no text takes more than `tokens`.

    Where that cannot be, as a single name may be too long, the limits are the narrowest, and a note says so.
    """
    if tokens is None:
        return grammar
    limits = _widest(grammar, tokens, _WIDE)
    if limits is not None:
        return Grammar(grammar.rules, grammar.notes, limits)
    short = shortened(grammar, tokens)
    if short is not None:
        return short
    limits = _widest(grammar, tokens, _NARROW)
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
    """Give the most tokens that a text takes; a character of a long string is counted as two, by and large.

    Most tokens are more than one character, but a character of another script may be three, and an escape six.
    """
    return _lengths(grammar, limits, {})[ROOT]


def _lengths(grammar: Grammar, limits: Limits, fixed: Mapping[str, int]) -> dict[str, int]:
    """Give the same of every rule; those that are `fixed` do not depend on the limits."""
    known = dict(fixed)

    def of(part: Expression) -> int:
        match part:
            case Text(text):
                return len(text) if text.isascii() else len(text.encode())
            case Chars():
                return most_bytes(part)
            case Series(parts):
                return sum(map(of, parts))
            case Choice(options):
                return max(map(of, options))
            case Rule(name):
                return known[name]
            case Repeat():
                most = most_of(part, limits)
                one = 2 if part.counts in _STRINGS and (most is None or most >= _MANY) else of(part.part)
                return _ENDLESS if most is None else min(most * one, _ENDLESS)

    for name, expression in grammar.rules.items():
        if name not in known:
            known[name] = of(expression)
    return known
