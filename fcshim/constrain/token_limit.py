"""How long the texts of a grammar are, and the grammar held to a number of tokens.

Rule: the widest limits under which every text fits, but never so narrow that a value which a model means is cut: what
is too long for its tokens is better cut off, and told as such, than wrong.
Neighbours: `grammar` has the limits, `constraint` knows how many tokens there are.
"""

import bisect
from collections.abc import Mapping, Sequence

from fcshim.constrain.grammar import (
    DEFAULT_LIMITS,
    ROOT,
    Alternation,
    Chars,
    Expression,
    Grammar,
    GrammarLimits,
    LiteralText,
    Repeat,
    RuleRef,
    Series,
    repeat_limit,
)

NARROWER_LIMITS = (
    GrammarLimits(4_096, 32, 7),
    GrammarLimits(2_048, 24, 5),
    GrammarLimits(1_024, 16, 3),
    GrammarLimits(512, 12, 3),
    GrammarLimits(256, 8, 3),
    GrammarLimits(128, 6, 2),
)
"""What is tried in turn where the tokens are counted. Names, titles and addresses fit into the narrowest."""
_UNBOUNDED = 10**12
_CHARACTER_UNITS = frozenset({"characters", "thoughts"})
_TOKENS_PER_CHARACTER = 2
"""Tokens that a character of a string is counted as: mostly it is less than one, but in some scripts three."""


def limit_tokens(grammar: Grammar, tokens: int | None) -> Grammar:
    """Give the grammar with limits under which no text takes more than `tokens`.

    Where that cannot be, the limits are the narrowest, and a note says so.
    """
    if tokens is None:
        return grammar
    limits = _widest(grammar, tokens, (DEFAULT_LIMITS, *NARROWER_LIMITS))
    if limits is not None:
        return Grammar(grammar.rules, grammar.notes, limits)
    notes = (*grammar.notes, f"a call may take more than {tokens} tokens")
    return Grammar(grammar.rules, notes, NARROWER_LIMITS[-1])


def _widest(grammar: Grammar, tokens: int, candidates: Sequence[GrammarLimits]) -> GrammarLimits | None:
    """Give the first of these limits, each narrower than the one before it, under which every text fits."""
    narrow = _longest_texts(grammar, candidates[-1], {})
    if narrow[ROOT] > tokens:
        return None
    loose = _longest_texts(grammar, candidates[0], {})
    if loose[ROOT] <= tokens:
        return candidates[0]
    fixed = {name: size for name, size in narrow.items() if size == loose[name] and name != ROOT}
    return candidates[
        bisect.bisect_left(candidates, -tokens, key=lambda limits: -_longest_texts(grammar, limits, fixed)[ROOT])
    ]


def longest_text(grammar: Grammar, limits: GrammarLimits) -> int:
    """Give the most tokens that a text takes, by and large: where each byte is one, but those of strings."""
    return _longest_texts(grammar, limits, {})[ROOT]


def _longest_texts(grammar: Grammar, limits: GrammarLimits, fixed: Mapping[str, int]) -> dict[str, int]:
    """Give the same of every rule; those that are `fixed` do not depend on the limits."""
    known = dict(fixed)

    def of(part: Expression) -> int:
        match part:
            case LiteralText():
                return len(part.text) if part.text.isascii() else len(part.text.encode())
            case RuleRef():
                return known[part.name]
            case Series():
                return sum(map(of, part.parts))
            case Alternation():
                return max(map(of, part.options))
            case Chars():
                return len(chr(max(high for _, high in part.ranges)).encode())
            case Repeat():
                most = repeat_limit(part, limits)
                one = _TOKENS_PER_CHARACTER if part.counts in _CHARACTER_UNITS else of(part.part)
                return _UNBOUNDED if most is None else min(most * one, _UNBOUNDED)

    for name, expression in grammar.rules.items():
        if name not in known:
            known[name] = of(expression)
    return known
