r"""The `pattern` of a string as an expression over characters, for regular expressions that a sampler can follow.

Theory of operation. A sampler keeps a state for every open parse, so the restarts of a long repetition must be
unambiguous. If only its end is ambiguous, as in `^[a-z.]+\.[a-z]+$`, unbounded repetitions get a small bound.

Each part of an expression has two character sets: `first`, with which it may begin, and `follow`, with which it may
continue where it could also end. Where the `follow` set of a part overlaps the `first` set of what comes next, two
parses are open; between long repetitions their number grows with each character. `^[a-z]+(-[a-z]+)*$` is unambiguous,
`^(a+)+$` is not. One pass over the expression computes both sets.
Rule: every admitted string matches; the work is bounded for any pattern; an unsupported pattern gives None.
"""

import functools
from dataclasses import dataclass, replace

from fcshim.constrain.grammar import (
    Alternation,
    Chars,
    Expression,
    LiteralText,
    Repeat,
    RuleRef,
    Series,
    choice,
    series,
)
from fcshim.constrain.regex import ANYTHING, UnsupportedRegexError, read_regex

_MAX_PATTERN_LENGTH = 500
"""Longest pattern that is read, in characters."""
_MAX_EXPANDED_SIZE = 20_000
"""Largest expression, in characters with all bounded repetitions written out."""
_EXTRA_REPEATS = 48
"""Repetitions beyond the minimum for one with an ambiguous end: each adds a state to the sampler."""
_MAX_SHORT_REPEAT = 16
"""Repetitions up to this bound may be ambiguous: they add few states."""
_MAX_CODE_POINT = 0x10FFFF


@functools.lru_cache(maxsize=256)
def read_pattern(text: str) -> Expression | None:
    """Return the strings that match a regular expression; None where it is unsupported or too ambiguous."""
    if len(text) > _MAX_PATTERN_LENGTH:
        return None
    try:
        found = read_regex(text)
    except UnsupportedRegexError:
        return None
    analysis = analyse_expression(found)
    if _expanded_size(found) > _MAX_EXPANDED_SIZE or not analysis.restarts_determined:
        return None
    return found if analysis.ends_determined else _with_bounded_repeats(found)


def with_length(expression: Expression, minimum: int, maximum: int | None) -> Expression | None:
    """Restrict a pattern's expression to `minimum` to `maximum` characters; None where that cannot be expressed."""
    if isinstance(expression, Repeat) and isinstance(expression.part, Chars):
        ends = [end for end in (expression.maximum, maximum) if end is not None]
        minimum, highest = max(minimum, expression.minimum), min(ends) if ends else None
        return (
            None
            if highest is not None and highest < minimum
            else Repeat(expression.part, minimum, highest, "characters")
        )
    low, high = _length_range(expression)
    fits = low >= minimum and (maximum is None or (high is not None and high <= maximum))
    return expression if fits else None


def _with_bounded_repeats(part: Expression) -> Expression | None:
    """Bound every unbounded repetition; None if one of them is any text, which must not be cut short."""
    match part:
        case Series() | Alternation():
            inner = [_with_bounded_repeats(each) for each in (part.parts if isinstance(part, Series) else part.options)]
            found = [each for each in inner if each is not None]
            if len(found) < len(inner):
                return None
            return series(*found) if isinstance(part, Series) else choice(found)
        case Repeat():
            one = _with_bounded_repeats(part.part)
            if one is None or part in ANYTHING:
                return None
            return Repeat(
                one, part.minimum, part.minimum + _EXTRA_REPEATS if part.maximum is None else part.maximum, part.counts
            )
        case _:
            return part


def _expanded_size(part: Expression) -> int:
    """Return the size of the expression in characters with every bounded repetition written out."""
    match part:
        case LiteralText():
            return len(part.text)
        case Series():
            return sum(map(_expanded_size, part.parts))
        case Alternation():
            return sum(map(_expanded_size, part.options))
        case Repeat():
            return _expanded_size(part.part) * max(part.minimum, part.maximum or 0, 1)
        case _:
            return 1


def _length_range(part: Expression) -> tuple[int, int | None]:
    """Return the length of the shortest and the longest text in characters; None is unbounded."""
    match part:
        case LiteralText():
            return len(part.text), len(part.text)
        case Series() | Alternation():
            inner = [_length_range(each) for each in (part.parts if isinstance(part, Series) else part.options)]
            lows, highs = [low for low, _ in inner], [high for _, high in inner if high is not None]
            high = None if len(highs) < len(inner) else sum(highs) if isinstance(part, Series) else max(highs)
            return sum(lows) if isinstance(part, Series) else min(lows), high
        case Repeat():
            low, maximum = _length_range(part.part)
            return low * part.minimum, None if maximum is None or part.maximum is None else maximum * part.maximum
        case _:
            return 1, 1


@dataclass(frozen=True, slots=True)
class ExpressionAnalysis:
    """The `first` and `follow` sets of a part, as ranges of code points, and what they say about its repetitions."""

    first: frozenset[tuple[int, int]]
    follow: frozenset[tuple[int, int]]
    nullable: bool = False
    has_long_repeat: bool = False
    ends_determined: bool = True
    """Whether the next character always decides where one long repetition ends and the next begins."""
    restarts_determined: bool = True
    """Whether the next character always decides where a new round of a long repetition begins."""


def analyse_expression(part: Expression) -> ExpressionAnalysis:
    """Analyse an expression without rule references."""
    match part:
        case LiteralText(text=""):
            return ExpressionAnalysis(frozenset(), frozenset(), nullable=True)
        case LiteralText():
            return ExpressionAnalysis(frozenset({(ord(part.text[0]), ord(part.text[0]))}), frozenset())
        case Chars():
            return ExpressionAnalysis(frozenset(part.ranges), frozenset())
        case Series():
            return _in_series([analyse_expression(inner) for inner in part.parts])
        case Alternation():
            return _in_alternation([analyse_expression(inner) for inner in part.options])
        case Repeat():
            return _in_repeat(part, analyse_expression(part.part))
        case RuleRef():
            raise AssertionError("expected an expression without rule references")


def _in_series(parts: list[ExpressionAnalysis]) -> ExpressionAnalysis:
    rest = ExpressionAnalysis(frozenset(), frozenset(), nullable=True)
    for each in reversed(parts):
        ambiguous = _overlap(each.follow, rest.first) and (each.has_long_repeat and rest.has_long_repeat)
        rest = ExpressionAnalysis(
            each.first | (rest.first if each.nullable else frozenset()),
            rest.follow | (rest.first | each.follow if rest.nullable else frozenset()),
            nullable=each.nullable and rest.nullable,
            has_long_repeat=each.has_long_repeat or rest.has_long_repeat,
            ends_determined=each.ends_determined and rest.ends_determined and not ambiguous,
            restarts_determined=each.restarts_determined and rest.restarts_determined,
        )
    return rest


def _in_alternation(parts: list[ExpressionAnalysis]) -> ExpressionAnalysis:
    has_long_repeat = any(each.has_long_repeat for each in parts)
    disjoint = not any(_overlap(one.first, other.first) for at, one in enumerate(parts) for other in parts[:at])
    return ExpressionAnalysis(
        frozenset().union(*(each.first for each in parts)),
        # Alternatives that begin alike: any character may continue one of them where another one ends.
        frozenset().union(*(each.follow for each in parts)) if disjoint else frozenset({(0, _MAX_CODE_POINT)}),
        nullable=any(each.nullable for each in parts),
        has_long_repeat=has_long_repeat,
        ends_determined=all(each.ends_determined for each in parts) and (disjoint or not has_long_repeat),
        restarts_determined=all(each.restarts_determined for each in parts),
    )


def _in_repeat(part: Repeat, inner: ExpressionAnalysis) -> ExpressionAnalysis:
    if part.maximum == 1:
        return replace(inner, nullable=inner.nullable or not part.minimum)
    has_long_repeat = inner.has_long_repeat or part.maximum is None or part.maximum > _MAX_SHORT_REPEAT
    distinct_restart = not inner.nullable and not _overlap(inner.follow, inner.first)
    return ExpressionAnalysis(
        inner.first,
        inner.first | inner.follow,
        nullable=inner.nullable or not part.minimum,
        has_long_repeat=has_long_repeat,
        ends_determined=inner.ends_determined,
        restarts_determined=inner.restarts_determined and (distinct_restart or not has_long_repeat),
    )


def _overlap(one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]) -> bool:
    return any(low <= high_too and low_too <= high for low, high in one for low_too, high_too in other)
