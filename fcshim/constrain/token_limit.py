"""Limits under which the longest text of a grammar fits into a number of tokens.

Rule: the widest limits under which every text fits, but never narrower than the last of `NARROWER_LIMITS`. A reply that
the token limit cuts off is reported as truncated; a value that the grammar cuts short would silently be wrong.
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
"""Candidates where the request has a token limit, widest first. Names, titles and addresses fit into the narrowest."""
_UNBOUNDED = 10**12
_CHARACTER_UNITS = frozenset({"characters", "reasoning"})
_TOKENS_PER_CHARACTER = 2
"""Estimated tokens of a character in a string: less than one in most text, up to three in some scripts."""


def limit_tokens(grammar: Grammar, tokens: int | None) -> Grammar:
    """Return the grammar with limits under which no text takes more than `tokens`; None is no limit.

    If no candidate is narrow enough, the narrowest applies and a note says so.
    """
    if tokens is None:
        return grammar
    limits = _widest(grammar, tokens, (DEFAULT_LIMITS, *NARROWER_LIMITS))
    if limits is not None:
        return Grammar(grammar.rules, grammar.notes, limits)
    notes = (*grammar.notes, f"a call may take more than {tokens} tokens")
    return Grammar(grammar.rules, notes, NARROWER_LIMITS[-1])


def _widest(grammar: Grammar, tokens: int, candidates: Sequence[GrammarLimits]) -> GrammarLimits | None:
    """Return the first of `candidates`, ordered from wide to narrow, under which every text fits."""
    narrowest = _longest_texts(grammar, candidates[-1], {})
    if narrowest[ROOT] > tokens:
        return None
    widest = _longest_texts(grammar, candidates[0], {})
    if widest[ROOT] <= tokens:
        return candidates[0]
    fixed = {name: size for name, size in narrowest.items() if size == widest[name] and name != ROOT}
    return candidates[
        bisect.bisect_left(candidates, -tokens, key=lambda limits: -_longest_texts(grammar, limits, fixed)[ROOT])
    ]


def longest_text(grammar: Grammar, limits: GrammarLimits) -> int:
    """Estimate the tokens of the longest text: one for each byte of markup, `_TOKENS_PER_CHARACTER` in strings."""
    return _longest_texts(grammar, limits, {})[ROOT]


def _longest_texts(grammar: Grammar, limits: GrammarLimits, fixed: Mapping[str, int]) -> dict[str, int]:
    """Estimate the longest text of every rule; `fixed` holds rules whose length does not depend on the limits."""
    known = dict(fixed)  # rules come after those that they refer to, so one pass is enough

    def length_of(part: Expression) -> int:
        match part:
            case LiteralText():
                return len(part.text) if part.text.isascii() else len(part.text.encode())
            case RuleRef():
                return known[part.name]
            case Series():
                return sum(map(length_of, part.parts))
            case Alternation():
                return max(map(length_of, part.options))
            case Chars():
                return len(chr(max(high for _, high in part.ranges)).encode())
            case Repeat():
                maximum = repeat_limit(part, limits)
                item = _TOKENS_PER_CHARACTER if part.counts in _CHARACTER_UNITS else length_of(part.part)
                return _UNBOUNDED if maximum is None else min(maximum * item, _UNBOUNDED)

    for name, expression in grammar.rules.items():
        if name not in known:
            known[name] = length_of(expression)
    return known
