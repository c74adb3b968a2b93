r"""The `pattern` of a string, as an expression over its characters: of regular expressions, what a sampler can follow.

Theory of operation. It must be clear whether a long repetition goes on (`clarity`). Where only its end is unclear
(`^[a-z.]+\.[a-z]+$`), long repetitions are made short.
Rule: what is admitted always matches; bounded work whatever the pattern; what is not read or not followed is None.
Neighbours: `regex` reads, `scalars` asks for the strings of a schema, `strings` writes them.
"""

import functools

from fcshim.constrain.ambiguity import analyse_expression
from fcshim.constrain.grammar import Alternation, Chars, Expression, LiteralText, Repeat, Series, choice, series
from fcshim.constrain.regex import ANYTHING, UnsupportedRegexError, read_regex

_MAX_PATTERN_LENGTH = 500
"""Characters of a pattern that is read."""
_MAX_EXPANDED_SIZE = 20_000
"""Characters that a text must have room for, all bounded repetitions multiplied."""
_EXTRA_REPEATS = 48
"""More of what has no end, where it is unclear where it ends: each is a way that a sampler follows."""


@functools.lru_cache(maxsize=256)
def read_pattern(text: str) -> Expression | None:
    """Give the strings that match a regular expression; None where it is not read, or not followed."""
    if len(text) > _MAX_PATTERN_LENGTH:
        return None
    try:
        found = read_regex(text)
    except UnsupportedRegexError:
        return None
    clarity = analyse_expression(found)
    if _expanded_size(found) > _MAX_EXPANDED_SIZE or not clarity.turns:
        return None
    return found if clarity.clear else _with_bounded_repeats(found)


def with_length(found: Expression, least: int, most: int | None) -> Expression | None:
    """Give those of a pattern's strings that have so many characters; None where that cannot be said."""
    if isinstance(found, Repeat) and isinstance(found.part, Chars):
        ends = [end for end in (found.most, most) if end is not None]
        least, highest = max(least, found.least), min(ends) if ends else None
        return None if highest is not None and highest < least else Repeat(found.part, least, highest, "characters")
    low, high = _length_range(found)
    fits = low >= least and (most is None or (high is not None and high <= most))
    return found if fits else None


def _with_bounded_repeats(part: Expression) -> Expression | None:
    """Let every repetition end soon; None where that would cut off text that may be anything."""
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
            return Repeat(one, part.least, part.least + _EXTRA_REPEATS if part.most is None else part.most, part.counts)
        case _:
            return part


def _expanded_size(part: Expression) -> int:
    """Give how much there is where every bounded repetition is written out."""
    match part:
        case LiteralText():
            return len(part.text)
        case Series():
            return sum(map(_expanded_size, part.parts))
        case Alternation():
            return sum(map(_expanded_size, part.options))
        case Repeat():
            return _expanded_size(part.part) * max(part.least, part.most or 0, 1)
        case _:
            return 1


def _length_range(part: Expression) -> tuple[int, int | None]:
    """Give the least and the most characters."""
    match part:
        case LiteralText():
            return len(part.text), len(part.text)
        case Series() | Alternation():
            inner = [_length_range(each) for each in (part.parts if isinstance(part, Series) else part.options)]
            lows, highs = [low for low, _ in inner], [high for _, high in inner if high is not None]
            high = None if len(highs) < len(inner) else sum(highs) if isinstance(part, Series) else max(highs)
            return sum(lows) if isinstance(part, Series) else min(lows), high
        case Repeat():
            low, most = _length_range(part.part)
            return low * part.least, None if most is None or part.most is None else most * part.most
        case _:
            return 1, 1
