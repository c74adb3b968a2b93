"""Whether a sampler can follow an expression: whether it is clear where repetitions end, and where they begin anew.

Theory of operation. A sampler follows every way that is open. Of each part is known with which characters it may begin,
and with which a part that could end here may go on; where these meet, two ways are open, and with long repetitions more
with each character. In `^[a-z]+(-[a-z]+)*$` it is clear, in `^(a+)+$` it is not.
Rule: one walk over the expression.
Neighbours: `patterns` asks, about what `regex` has read.
"""

from dataclasses import dataclass, replace

from fcshim.constrain.grammar import Chars, Choice, Expression, Repeat, Rule, Series, Text

_WIDE = 16
"""Repetitions that end so soon need not be clear."""
_HIGHEST = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Clarity:
    """How a part may begin, and how one that could end here may go on; `wide`: with a long repetition inside."""

    first: frozenset[tuple[int, int]]
    tail: frozenset[tuple[int, int]]
    empty: bool = False
    wide: bool = False
    clear: bool = True
    """Whether it is always clear where one long repetition ends and another begins."""
    turns: bool = True
    """Whether it is always clear where what repeats begins anew."""


def clarity_of(part: Expression) -> Clarity:
    """Look at an expression without rules."""
    match part:
        case Text(text=""):
            return Clarity(frozenset(), frozenset(), empty=True)
        case Text():
            return Clarity(frozenset({(ord(part.text[0]), ord(part.text[0]))}), frozenset())
        case Chars():
            return Clarity(frozenset(part.ranges), frozenset())
        case Series():
            return _along([clarity_of(inner) for inner in part.parts])
        case Choice():
            return _beside([clarity_of(inner) for inner in part.options])
        case Repeat():
            return _again(part, clarity_of(part.part))
        case Rule():
            raise AssertionError("an expression without rules is looked at")


def _along(parts: list[Clarity]) -> Clarity:
    behind = Clarity(frozenset(), frozenset(), empty=True)
    for each in reversed(parts):
        unclear = _meet(each.tail, behind.first) and (each.wide and behind.wide)
        behind = Clarity(
            each.first | (behind.first if each.empty else frozenset()),
            behind.tail | (behind.first | each.tail if behind.empty else frozenset()),
            empty=each.empty and behind.empty,
            wide=each.wide or behind.wide,
            clear=each.clear and behind.clear and not unclear,
            turns=each.turns and behind.turns,
        )
    return behind


def _beside(parts: list[Clarity]) -> Clarity:
    wide = any(each.wide for each in parts)
    apart = not any(_meet(one.first, other.first) for at, one in enumerate(parts) for other in parts[:at])
    return Clarity(
        frozenset().union(*(each.first for each in parts)),
        frozenset().union(*(each.tail for each in parts)) if apart else frozenset({(0, _HIGHEST)}),
        empty=any(each.empty for each in parts),
        wide=wide,
        clear=all(each.clear for each in parts) and (apart or not wide),
        turns=all(each.turns for each in parts),
    )


def _again(part: Repeat, inner: Clarity) -> Clarity:
    if part.most == 1:
        return replace(inner, empty=inner.empty or not part.least)
    wide = inner.wide or part.most is None or part.most > _WIDE
    again = not inner.empty and not _meet(inner.tail, inner.first)
    return Clarity(
        inner.first,
        inner.first | inner.tail,
        empty=inner.empty or not part.least,
        wide=wide,
        clear=inner.clear,
        turns=inner.turns and (again or not wide),
    )


def _meet(one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]) -> bool:
    return any(low <= high_too and low_too <= high for low, high in one for low_too, high_too in other)
