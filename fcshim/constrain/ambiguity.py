"""Whether the repetitions of an expression are ambiguous: a grammar sampler keeps a state for every open parse.

Theory of operation. Each part has two character sets: `first`, with which it may begin, and `follow`, with which it may
continue where it could also end. Where the `follow` set of a part overlaps the `first` set of what comes next, two
parses are open; between long repetitions their number grows with each character. `^[a-z]+(-[a-z]+)*$` is unambiguous,
`^(a+)+$` is not. One pass over the expression computes both sets.
"""

from dataclasses import dataclass, replace

from fcshim.constrain.grammar import Alternation, Chars, Expression, LiteralText, Repeat, RuleRef, Series

_MAX_SHORT_REPEAT = 16
"""Repetitions up to this bound may be ambiguous: they add few states."""
_MAX_CODE_POINT = 0x10FFFF


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
