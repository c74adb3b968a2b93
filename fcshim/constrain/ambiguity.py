"""Whether a sampler can follow an expression: whether it is clear where repetitions end, and where they begin anew.

Theory of operation. A sampler follows every way that is open. Of each part is known with which characters it may begin,
and with which a part that could end here may go on; where these meet, two ways are open, and with long repetitions more
with each character. In `^[a-z]+(-[a-z]+)*$` it is clear, in `^(a+)+$` it is not.
Rule: one walk over the expression.
Neighbours: `patterns` asks, about what `regex` has read.
"""

from dataclasses import dataclass, replace

from fcshim.constrain.grammar import Alternation, Chars, Expression, LiteralText, Repeat, RuleRef, Series

_MAX_SHORT_REPEAT = 16
"""Repetitions that end so soon need not be clear."""
_MAX_CODE_POINT = 0x10FFFF


@dataclass(frozen=True, slots=True)
class ExpressionAnalysis:
    """How a part may begin, and how one that could end here may go on; `wide`: with a long repetition inside."""

    first: frozenset[tuple[int, int]]
    tail: frozenset[tuple[int, int]]
    empty: bool = False
    wide: bool = False
    clear: bool = True
    """Whether it is always clear where one long repetition ends and another begins."""
    turns: bool = True
    """Whether it is always clear where what repeats begins anew."""


def analyse_expression(part: Expression) -> ExpressionAnalysis:
    """Look at an expression without rules."""
    match part:
        case LiteralText(text=""):
            return ExpressionAnalysis(frozenset(), frozenset(), empty=True)
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
            raise AssertionError("an expression without rules is looked at")


def _in_series(parts: list[ExpressionAnalysis]) -> ExpressionAnalysis:
    behind = ExpressionAnalysis(frozenset(), frozenset(), empty=True)
    for each in reversed(parts):
        unclear = _overlap(each.tail, behind.first) and (each.wide and behind.wide)
        behind = ExpressionAnalysis(
            each.first | (behind.first if each.empty else frozenset()),
            behind.tail | (behind.first | each.tail if behind.empty else frozenset()),
            empty=each.empty and behind.empty,
            wide=each.wide or behind.wide,
            clear=each.clear and behind.clear and not unclear,
            turns=each.turns and behind.turns,
        )
    return behind


def _in_alternation(parts: list[ExpressionAnalysis]) -> ExpressionAnalysis:
    wide = any(each.wide for each in parts)
    apart = not any(_overlap(one.first, other.first) for at, one in enumerate(parts) for other in parts[:at])
    return ExpressionAnalysis(
        frozenset().union(*(each.first for each in parts)),
        frozenset().union(*(each.tail for each in parts)) if apart else frozenset({(0, _MAX_CODE_POINT)}),
        empty=any(each.empty for each in parts),
        wide=wide,
        clear=all(each.clear for each in parts) and (apart or not wide),
        turns=all(each.turns for each in parts),
    )


def _in_repeat(part: Repeat, inner: ExpressionAnalysis) -> ExpressionAnalysis:
    if part.most == 1:
        return replace(inner, empty=inner.empty or not part.least)
    wide = inner.wide or part.most is None or part.most > _MAX_SHORT_REPEAT
    again = not inner.empty and not _overlap(inner.tail, inner.first)
    return ExpressionAnalysis(
        inner.first,
        inner.first | inner.tail,
        empty=inner.empty or not part.least,
        wide=wide,
        clear=inner.clear,
        turns=inner.turns and (again or not wide),
    )


def _overlap(one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]) -> bool:
    return any(low <= high_too and low_too <= high for low, high in one for low_too, high_too in other)
