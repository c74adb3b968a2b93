r"""The `pattern` of a string as an expression over characters, for regular expressions that a sampler can follow.

Theory of operation. The restarts of a long repetition must be unambiguous (`ambiguity`). If only its end is ambiguous,
as in `^[a-z.]+\.[a-z]+$`, unbounded repetitions get a small bound.
Rule: every admitted string matches; the work is bounded for any pattern; an unsupported pattern gives None.
"""

import functools

from fcshim.constrain.ambiguity import analyse_expression
from fcshim.constrain.grammar import Alternation, Chars, Expression, LiteralText, Repeat, Series, choice, series
from fcshim.constrain.regex import ANYTHING, UnsupportedRegexError, read_regex

_MAX_PATTERN_LENGTH = 500
"""Longest pattern that is read, in characters."""
_MAX_EXPANDED_SIZE = 20_000
"""Largest expression, in characters with all bounded repetitions written out."""
_EXTRA_REPEATS = 48
"""Repetitions beyond the minimum for one with an ambiguous end: each adds a state to the sampler."""


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
