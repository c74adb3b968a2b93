"""The one grammar that every writer writes: a finite language of texts, as an expression over named rules.

Rule: rules never lead back to themselves and every repetition ends, so that each reply has a longest length.
Neighbours: `values` and `calls` build grammars, `fitting` limits them, `gbnf` and `lark` write them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import Struct


class LiteralText(Struct, frozen=True, cache_hash=True, gc=False):
    """Exactly this."""

    text: str


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Characters by their code points: first and last of each range, in order."""


class Chars(Struct, frozen=True, cache_hash=True, gc=False):
    """One character of these ranges, both ends included."""

    ranges: Ranges


class Series(Struct, frozen=True, cache_hash=True, gc=False):
    """One after the other."""

    parts: tuple["Expression", ...]


class Alternation(Struct, frozen=True, cache_hash=True, gc=False):
    """One of them."""

    options: tuple["Expression", ...]


CountedUnit: TypeAlias = Literal["", "characters", "items", "further", "thoughts"]


class Repeat(Struct, frozen=True, cache_hash=True, gc=False):
    """So many of one; `most` None has no end. What `counts` names is held to the limits, too."""

    part: "Expression"
    least: int
    most: int | None
    counts: CountedUnit = ""
    preceding: int = 0
    """How many of what is counted stand before it."""


class RuleRef(Struct, frozen=True, cache_hash=True, gc=False):
    """What a named rule says."""

    name: str


Expression: TypeAlias = LiteralText | Chars | Series | Alternation | Repeat | RuleRef

EMPTY = LiteralText("")
ROOT = "root"


@dataclass(frozen=True, slots=True)
class GrammarLimits:
    """How much of what a schema leaves open may be written."""

    characters: int
    """Of one string."""
    items: int
    """Of one array, and members of an object whose keys are free."""
    further: int
    """Calls after the first."""

    @property
    def thoughts(self) -> int:
        """Characters of what a model thinks before it calls."""
        return 4 * self.characters


DEFAULT_LIMITS = GrammarLimits(characters=8_192, items=32, further=7)
"""Where nothing says how many tokens there are: room for a file of two hundred lines."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name, each behind those that it leads to; `root` is where a text begins.

    `notes` say what of the schemas could not be expressed.
    """

    rules: Mapping[str, Expression]
    notes: tuple[str, ...] = ()
    limits: GrammarLimits = field(default=DEFAULT_LIMITS)


def series(*parts: Expression) -> Expression:
    """Put one after the other; neighbouring texts become one."""
    joined: list[Expression] = []
    for part in parts:
        for inner in part.parts if isinstance(part, Series) else (part,):
            if not isinstance(inner, LiteralText):
                joined.append(inner)
            elif joined and isinstance(joined[-1], LiteralText):
                joined[-1] = LiteralText(joined[-1].text + inner.text)
            elif inner.text:
                joined.append(inner)
    if not joined:
        return EMPTY
    return joined[0] if len(joined) == 1 else Series(tuple(joined))


def choice(options: Iterable[Expression]) -> Expression:
    """Admit one of `options`, of which there must be one at least."""
    flat: list[Expression] = []
    for option in options:
        flat += option.options if isinstance(option, Alternation) else (option,)
    assert flat
    return flat[0] if len(flat) == 1 else Alternation(tuple(flat))


def optional(part: Expression) -> Expression:
    """Admit it, or nothing."""
    return Repeat(part, 0, 1)


def chars(*ranges: str) -> Chars:
    """Give the characters of ranges, each written as its first and its last one, or as a single one."""
    return Chars(tuple((ord(each[0]), ord(each[-1])) for each in ranges))


def without(ranges: Ranges, holes: Iterable[int | tuple[int, int]]) -> Ranges:
    """Give the ranges without some characters, single ones and ranges of them."""
    cuts = sorted((hole, hole) if isinstance(hole, int) else hole for hole in holes)
    left: list[tuple[int, int]] = []
    for begin, high in ranges:
        low = begin
        for first, last in cuts:
            if first > high:
                break
            if low < first:
                left.append((low, first - 1))
            low = max(low, last + 1)
        if low <= high:
            left.append((low, high))
    return tuple(left)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """Give the characters that are in both."""
    parts = ((max(low, first), min(high, last)) for low, high in one for first, last in other)
    return tuple((low, high) for low, high in parts if low <= high)


_MAX_PREFIX_DEPTH = 32
"""Beginnings inside one another that texts have in common and that are written once."""


def one_of_texts(branches: Sequence[tuple[str, Expression]], depth: int = _MAX_PREFIX_DEPTH) -> Expression:
    """Admit one of the texts, each with what follows it; what they begin with in common is written once.

    A sampler keeps one state for each option that is open: a hundred names would be a hundred.
    """
    groups: dict[str, list[tuple[str, Expression]]] = {}
    for text, rest in branches:
        groups.setdefault(text[:1], []).append((text, rest))
    return choice(_with_common_prefix(group, depth) for group in groups.values())


def _with_common_prefix(branches: Sequence[tuple[str, Expression]], depth: int) -> Expression:
    if len(branches) == 1 or not branches[0][0] or not depth:
        return choice(series(LiteralText(text), rest) for text, rest in branches)
    shared = _common_prefix([text for text, _ in branches])
    inner = [(text[len(shared) :], rest) for text, rest in branches]
    return series(LiteralText(shared), one_of_texts(inner, depth - 1))


def _common_prefix(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    size = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:size]


def repeat_limit(repeat: Repeat, limits: GrammarLimits) -> int | None:
    """Give how often a repetition may repeat within the limits; never less than it must."""
    limit = max(getattr(limits, repeat.counts) - repeat.preceding, 0) if repeat.counts else None
    ends = [end for end in (repeat.most, limit) if end is not None]
    return max(repeat.least, min(ends)) if ends else None
