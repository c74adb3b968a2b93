"""The grammar model that all writers share: expressions over named rules, without recursion.

Rule: no rule refers to itself, directly or not, and every repetition outside free text has a limit, so that each call
has a maximum length.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import Struct


class LiteralText(Struct, frozen=True, cache_hash=True, gc=False):
    """Exactly this text."""

    text: str


Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""A set of characters: the first and last code point of each range, both included, in order."""


class Chars(Struct, frozen=True, cache_hash=True, gc=False):
    """One character of these ranges."""

    ranges: Ranges


class Series(Struct, frozen=True, cache_hash=True, gc=False):
    """A concatenation."""

    parts: tuple["Expression", ...]


class Alternation(Struct, frozen=True, cache_hash=True, gc=False):
    """One of several alternatives."""

    options: tuple["Expression", ...]


CountedUnit: TypeAlias = Literal["", "characters", "items", "further_calls", "reasoning"]
"""The unit that a repetition counts: the attribute of `GrammarLimits` that bounds it. Empty: only `maximum` does."""


class Repeat(Struct, frozen=True, cache_hash=True, gc=False):
    """`minimum` to `maximum` repetitions of a part; None is unbounded, except by the limit that `counts` names."""

    part: "Expression"
    minimum: int
    maximum: int | None
    counts: CountedUnit = ""
    preceding: int = 0
    """Units of `counts` that come before this repetition and use up part of its limit."""


class RuleRef(Struct, frozen=True, cache_hash=True, gc=False):
    """A reference to a named rule."""

    name: str


Expression: TypeAlias = LiteralText | Chars | Series | Alternation | Repeat | RuleRef

EMPTY = LiteralText("")
ROOT = "root"


@dataclass(frozen=True, slots=True)
class GrammarLimits:
    """Bounds on repetitions that the schema leaves unbounded."""

    characters: int
    """Characters of one string."""
    items: int
    """Items of one array, and members of an object whose keys the schema does not name."""
    further_calls: int
    """Calls after the first."""

    @property
    def reasoning(self) -> int:
        """Characters of reasoning before a call."""
        return 4 * self.characters


DEFAULT_LIMITS = GrammarLimits(characters=8_192, items=32, further_calls=7)
"""The limits of a request without a token limit: enough for an argument that holds a file of two hundred lines."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name, each after the rules that it refers to; `root` is the start symbol.

    `notes` list what the grammar does not enforce of the schemas.
    """

    rules: Mapping[str, Expression]
    notes: tuple[str, ...] = ()
    limits: GrammarLimits = field(default=DEFAULT_LIMITS)


def series(*parts: Expression) -> Expression:
    """Concatenate the parts; adjacent literal texts become one."""
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
    """Admit one of `options`, which must not be empty."""
    flat: list[Expression] = []
    for option in options:
        flat += option.options if isinstance(option, Alternation) else (option,)
    assert flat
    return flat[0] if len(flat) == 1 else Alternation(tuple(flat))


def optional(part: Expression) -> Expression:
    """Admit the part or the empty text."""
    return Repeat(part, 0, 1)


def chars(*ranges: str) -> Chars:
    """Return a character set; each range is written as its two ends, or as a single character (`"az", "_"`)."""
    return Chars(tuple((ord(each[0]), ord(each[-1])) for each in ranges))


def without(ranges: Ranges, holes: Iterable[int | tuple[int, int]]) -> Ranges:
    """Remove code points, or ranges of code points, from a character set."""
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
    """Return the characters that are in both sets."""
    parts = ((max(low, first), min(high, last)) for low, high in one for first, last in other)
    return tuple((low, high) for low, high in parts if low <= high)


_MAX_PREFIX_DEPTH = 32
"""Levels of common prefixes that are factored out."""


def one_of_texts(branches: Sequence[tuple[str, Expression]], depth: int = _MAX_PREFIX_DEPTH) -> Expression:
    """Admit one of the texts, each followed by its expression, with common prefixes factored out.

    A sampler keeps a state for each open alternative: without factoring, a hundred tool names would be a hundred
    states.
    """
    groups: dict[str, list[tuple[str, Expression]]] = {}
    for text, rest in branches:
        groups.setdefault(text[:1], []).append((text, rest))
    return choice(_with_common_prefix(group, depth) for group in groups.values())


def _with_common_prefix(branches: Sequence[tuple[str, Expression]], depth: int) -> Expression:
    if len(branches) == 1 or not branches[0][0] or not depth:
        return choice(series(LiteralText(text), rest) for text, rest in branches)
    texts = [text for text, _ in branches]
    first, last = min(texts), max(texts)  # all others begin with what these two have in common
    size = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    inner = [(text[size:], rest) for text, rest in branches]
    return series(LiteralText(first[:size]), one_of_texts(inner, depth - 1))


def repeat_limit(repeat: Repeat, limits: GrammarLimits) -> int | None:
    """Return the upper bound of a repetition under the limits, never below `repeat.minimum`; None is unbounded."""
    limit = max(getattr(limits, repeat.counts) - repeat.preceding, 0) if repeat.counts else None
    ends = [end for end in (repeat.maximum, limit) if end is not None]
    return max(repeat.minimum, min(ends)) if ends else None
