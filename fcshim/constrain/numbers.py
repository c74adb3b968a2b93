"""Numbers between two bounds, as an expression over their digits.

Rule: every admitted number lies within the bounds, and every number within is admitted that has no more decimals than
`_MAX_DECIMALS`, or than the bounds need.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from fcshim.constrain.grammar import (
    EMPTY,
    Expression,
    LiteralText,
    Repeat,
    chars,
    choice,
    one_of_texts,
    optional,
    series,
)

DIGIT = chars("09")
_MAX_DIGITS = 15
"""Digits of an integer without bounds: as many as a double holds exactly."""
_MAX_BOUND_DIGITS = 40
"""Longest bound, in digits, that is enforced."""
_MAX_DIGITS_BEFORE_DECIMALS = 11
"""Longer integers get no decimals beside a bound: a double keeps 15 digits, and would be rounded to the bound."""
_MAX_ENDS = 1_000
"""Ends of digits that are listed, by which the multiples of a step are told from other numbers."""
_MAX_DECIMALS = 4
_MAX_BOUND_DECIMALS = 20
"""Decimals of a bound that are compared; a longer bound is rounded inwards."""

_NATURAL = series(chars("19"), Repeat(DIGIT, 0, _MAX_DIGITS - 1))
INTEGER = choice([LiteralText("0"), series(optional(LiteralText("-")), _NATURAL)])
NUMBER = series(
    optional(LiteralText("-")),
    choice([LiteralText("0"), _NATURAL]),
    optional(series(LiteralText("."), Repeat(DIGIT, 1, _MAX_DECIMALS))),
)


def integers(minimum: Fraction | None, maximum: Fraction | None) -> Expression | None:
    """Admit the integers from `minimum` to `maximum`, None being unbounded; None where there is none."""
    if minimum is None and maximum is None:
        return INTEGER
    low = None if minimum is None else math.ceil(minimum)
    high = None if maximum is None else math.floor(maximum)
    reach = 10**_MAX_DIGITS - 1
    if low is None:
        assert high is not None
        low = min(-reach, high * 10 if high < 0 else high)
    if high is None:
        high = max(reach, low * 10 if low > 0 else low)
    return _integer_range(low, high)


@dataclass(frozen=True, slots=True)
class Bound:
    """The end of a range of numbers, which is in the range unless it is open."""

    value: Fraction
    is_open: bool = False

    def __neg__(self) -> "Bound":
        return Bound(-self.value, self.is_open)


def numbers(minimum: Bound | None, maximum: Bound | None) -> Expression | None:
    """Admit numbers from `minimum` to `maximum` (None: unbounded), with and without a fraction; None for no number."""
    if minimum is None and maximum is None:
        return NUMBER
    reach = Fraction(10**_MAX_DIGITS)
    low = minimum or Bound(min(-reach, maximum.value * 2 if maximum is not None else -reach))
    high = maximum or Bound(max(reach, low.value * 2))
    whole = integers(Fraction(_first_integer(low)), Fraction(-_first_integer(-high)))
    negative = [series(LiteralText("-"), part) for part in _magnitudes(-high, -low)] if low.value < 0 else []
    return _alternatives([whole, *_magnitudes(low, high), *negative])


def _first_integer(low: Bound) -> int:
    """Return the smallest integer above a lower bound; negated bounds give the largest below an upper one."""
    return math.floor(low.value) + 1 if low.is_open else math.ceil(low.value)


def _magnitudes(low: Bound, high: Bound) -> Iterator[Expression]:
    """Yield the numbers with a fraction, without a sign, from `low` (or zero) to `high`."""
    low = Bound(Fraction(0)) if low.value < 0 else low
    if high.value < low.value:
        return
    first, last = math.floor(low.value), math.floor(high.value)
    lowest, highest = _bound_decimals(low, up=True), _bound_decimals(high, up=False)
    decimals = _Decimals(low.is_open, high.is_open)
    if first == last:
        yield from _unit(first, decimals.between(lowest, highest))
        return
    if lowest or low.is_open:
        yield from _unit(first, decimals.between(lowest, None))
        first += 1
    units = _integer_range(first, last - 1)
    if units is not None:
        yield series(units, LiteralText("."), Repeat(DIGIT, 1, _MAX_DECIMALS))
    yield from _unit(last, decimals.between(None, highest))


def _unit(number: int, decimals: Expression | None) -> Iterator[Expression]:
    """Yield an integer with decimals, if there are any."""
    if decimals is not None and len(str(number)) <= _MAX_DIGITS_BEFORE_DECIMALS:
        yield series(LiteralText(f"{number}."), decimals)


def _bound_decimals(bound: Bound, *, up: bool) -> str:
    """Return the decimals of a bound without trailing zeros, rounded up or down; all nines where it rounds to one."""
    scale = 10**_MAX_BOUND_DECIMALS
    part = (bound.value - math.floor(bound.value)) * scale
    digits = min(math.ceil(part) if up else math.floor(part), scale - 1)
    return f"{digits:0{_MAX_BOUND_DECIMALS}}".rstrip("0")


@dataclass(frozen=True, slots=True)
class _Decimals:
    """Decimals between two bounds, digit by digit: None as a bound means that the digits so far are past it already."""

    is_low_open: bool
    is_high_open: bool

    def between(self, low: str | None, high: str | None) -> Expression | None:
        """Admit one or more decimals, at most `_MAX_DECIMALS` or one more than the bounds have."""
        return self.digits(low, high, max(_MAX_DECIMALS, len(low or "") + 1, len(high or "") + 1))

    def digits(self, low: str | None, high: str | None, places: int) -> Expression | None:
        """Admit at least one digit."""
        if low is None and high is None:
            return Repeat(DIGIT, 1, places)
        first, last = int((low or "0")[0]), 9 if high is None else int((high or "0")[0])
        bound_digits = {first} if low is not None else set()
        bound_digits |= {last} if high is not None else set()
        free_digits = [digit for digit in range(first, last + 1) if digit not in bound_digits]
        options: list[Expression | None] = []
        if free_digits:
            options.append(series(chars(f"{free_digits[0]}{free_digits[-1]}"), Repeat(DIGIT, 0, places - 1)))
        for digit in sorted(bound_digits) if first <= last else []:
            further_low = low[1:] if low is not None and digit == first else None
            further_high = high[1:] if high is not None and digit == last else None
            rest = self._rest(further_low, further_high, places - 1)
            options.append(None if rest is None else series(LiteralText(str(digit)), rest))
        return _alternatives(options)

    def _rest(self, low: str | None, high: str | None, places: int) -> Expression | None:
        """Admit the digits after the first, also none where the number so far is within."""
        may_end = (low is None or (not low and not self.is_low_open)) and (high != "" or not self.is_high_open)
        more = self.digits(low, high, places) if places else None
        if more is None:
            return EMPTY if may_end else None
        return optional(more) if may_end else more


def multiples(step: Fraction, low: Fraction | None, high: Fraction | None) -> Expression | None:
    """Admit the multiples of a step between two bounds if they are few, or all, or those from 0 or the step on.

    None where neither applies. Multiples without an upper bound must be told by their last digits: of 5, 20, 0.25.
    """
    if low is not None and high is not None and (high - low) / step <= 256:
        first, last = -(-low // step), high // step
        texts = [_decimal(step * at) for at in range(int(first), int(last) + 1)]
        return one_of_texts([(text, LiteralText("")) for text in texts]) if texts and all(texts) else None
    if high is not None or (low is not None and not 0 <= low <= step):
        return None
    positive = _integer_multiples(int(step)) if step.denominator == 1 else _decimal_multiples(step)
    if positive is None:
        return None
    signed = positive if low is not None else series(optional(LiteralText("-")), positive)
    return signed if low else choice([LiteralText("0"), signed])


def _integer_multiples(step: int) -> Expression | None:
    """Admit the positive multiples of a step that divides a power of ten."""
    digits = _ending_digits(step)
    if not digits or 10**digits // step > _MAX_ENDS:
        return None
    ends = range(0, 10**digits, step)
    small = [LiteralText(str(end)) for end in ends if end]
    before = series(chars("19"), Repeat(DIGIT, 0, _MAX_DIGITS - 1 - digits))
    return choice([*small, series(before, one_of_texts([(f"{end:0{digits}}", LiteralText("")) for end in ends]))])


def _decimal_multiples(step: Fraction) -> Expression | None:
    """Admit the positive multiples of a step of which a whole number is one."""
    digits = _ending_digits(step.denominator)
    if not digits or step.numerator != 1 or step.denominator > _MAX_ENDS:
        return None
    ends = [f"{int(step * at * 10**digits):0{digits}}".rstrip("0") for at in range(1, step.denominator)]
    point = series(LiteralText("."), one_of_texts([(end, LiteralText("")) for end in ends]))
    whole = series(chars("19"), Repeat(DIGIT, 0, _MAX_DIGITS_BEFORE_DECIMALS - 1))
    return choice([series(LiteralText("0"), point), series(whole, optional(point))])


def _ending_digits(step: int) -> int:
    """Return how many last digits show whether an integer is a multiple of a step; 0 where no number of them does."""
    return next((count for count in range(1, _MAX_DIGITS) if 10**count % step == 0), 0)


def _decimal(number: Fraction) -> str:
    """Write a number with at most six decimals; an empty text where it has more."""
    scaled = number * 10**6
    if scaled.denominator != 1:
        return ""
    text = f"{abs(scaled.numerator):07}"
    fraction = text[-6:].rstrip("0")
    sign = "-" if number < 0 else ""
    return sign + text[:-6] + ("." + fraction if fraction else "")


def _alternatives(options: list[Expression | None]) -> Expression | None:
    found = [option for option in options if option is not None]
    return choice(found) if found else None


def _integer_range(low: int, high: int) -> Expression | None:
    if low > high or len(str(low)) > _MAX_BOUND_DIGITS or len(str(high)) > _MAX_BOUND_DIGITS:
        return None
    options: list[Expression] = []
    if low < 0:
        options += [series(LiteralText("-"), part) for part in _natural_ranges(max(-high, 1), -low)]
    if high >= 0:
        options += _natural_ranges(max(low, 0), high)
    return choice(options)


def _natural_ranges(low: int, high: int) -> list[Expression]:
    options: list[Expression] = []
    while low <= high:
        end = min(high, 10 ** len(str(low)) - 1)
        options.append(_same_length(str(low), str(end)))
        low = end + 1
    return options


def _same_length(low: str, high: str) -> Expression:
    """Admit the digit strings from `low` to `high`, which have the same length."""
    size = len(low)
    if low == high:
        return LiteralText(low)
    if low == "0" * size and high == "9" * size:
        return Repeat(DIGIT, size, size)
    if low[0] == high[0]:
        return series(LiteralText(low[0]), _same_length(low[1:], high[1:]))
    first, last = low[0], high[0]
    options: list[Expression] = []
    if low[1:] != "0" * (size - 1):
        options.append(series(LiteralText(first), _same_length(low[1:], "9" * (size - 1))))
        first = chr(ord(first) + 1)
    below: list[Expression] = []
    if high[1:] != "9" * (size - 1):
        below = [series(LiteralText(last), _same_length("0" * (size - 1), high[1:]))]
        last = chr(ord(last) - 1)
    if first <= last:
        rest = size - 1
        leading_digit = LiteralText(first) if first == last else chars(first + last)
        options.append(series(leading_digit, Repeat(DIGIT, rest, rest)) if rest else leading_digit)
    return choice([*options, *below])
