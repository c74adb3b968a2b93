"""Numbers between two bounds, as an expression over their digits.

Rule: every admitted number lies within the bounds; some fractions between the bounds are not admitted.
"""

import math
from fractions import Fraction

from fcshim.constrain.grammar import Expression, LiteralText, Repeat, chars, choice, one_of_texts, optional, series

DIGIT = chars("09")
_MAX_DIGITS = 15
"""Digits of an integer without bounds: as many as a double holds exactly."""
_MAX_BOUND_DIGITS = 40
"""Longest bound, in digits, that is enforced."""
_MAX_DECIMALS = 4

_NATURAL = series(chars("19"), Repeat(DIGIT, 0, _MAX_DIGITS - 1))
INTEGER = choice([LiteralText("0"), series(optional(LiteralText("-")), _NATURAL)])
NUMBER = series(
    optional(LiteralText("-")),
    choice([LiteralText("0"), _NATURAL]),
    optional(series(LiteralText("."), Repeat(DIGIT, 1, _MAX_DECIMALS))),
)


def integers(least: Fraction | None, most: Fraction | None) -> Expression | None:
    """Admit the integers from `least` to `most`, None being unbounded; None where there is none."""
    if least is None and most is None:
        return INTEGER
    low = None if least is None else math.ceil(least)
    high = None if most is None else math.floor(most)
    reach = 10**_MAX_DIGITS - 1
    if low is None:
        assert high is not None
        low = min(-reach, high * 10 if high < 0 else high)
    if high is None:
        high = max(reach, low * 10 if low > 0 else low)
    return _integer_range(low, high)


def numbers(least: Fraction | None, most: Fraction | None) -> Expression | None:
    """Admit numbers from `least` to `most`, None being unbounded, with and without a fraction; None for no number."""
    if least is None and most is None:
        return NUMBER
    reach = Fraction(10**_MAX_DIGITS)
    low = min(-reach, most * 2 if most is not None else -reach) if least is None else least
    high = max(reach, low * 2) if most is None else most
    whole = integers(low, high)
    return _alternatives([whole, _fractions(low, high), *_near_bounds(low, high, whole=whole)])


def multiples(step: Fraction, low: Fraction | None, high: Fraction | None) -> Expression | None:
    """Admit the multiples of a step between two bounds if they are few, or all multiples of a power of ten.

    None where neither applies.
    """
    if low is not None and high is not None and (high - low) / step <= 256:
        first, last = -(-low // step), high // step
        texts = [_decimal(step * at) for at in range(int(first), int(last) + 1)]
        return one_of_texts([(text, LiteralText("")) for text in texts]) if texts and all(texts) else None
    size = step.numerator
    if low is None and high is None and step.denominator == 1 and str(size).strip("0") == "1":
        return (
            choice([LiteralText("0"), series(INTEGER, LiteralText("0" * (len(str(size)) - 1)))]) if size > 1 else None
        )
    return None


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


def _fractions(low: Fraction, high: Fraction) -> Expression | None:
    """Admit `n.d` for each integer `n` with which all fractions lie within the bounds."""
    decimals = series(LiteralText("."), Repeat(DIGIT, 1, _MAX_DECIMALS))
    positive = _integer_range(max(0, math.ceil(low)), math.floor(high) - 1)
    negative = _integer_range(max(0, math.ceil(-high)), math.floor(-low) - 1)
    return _alternatives(
        [
            None if positive is None else series(positive, decimals),
            None if negative is None else series(LiteralText("-"), negative, decimals),
        ]
    )


def _near_bounds(low: Fraction, high: Fraction, *, whole: Expression | None) -> list[Expression | None]:
    """Admit numbers with a fixed number of decimals, as few as possible, if a bound is not an integer."""
    if low.denominator == 1 and high.denominator == 1:
        return []
    if abs(low) > 10**6 or abs(high) > 10**6:
        return []
    for places in range(1, 12):
        found = [_fixed_point(low, high, places)]
        if found != [None] and (places > 1 or whole is not None or high - low >= Fraction(1, 2)):
            return found
    return []


def _fixed_point(low: Fraction, high: Fraction, places: int) -> Expression | None:
    scale = 10**places
    first, last = math.ceil(low * scale), math.floor(high * scale)
    positive = _fixed_point_range(max(first, 0), last, places)
    negative = _fixed_point_range(max(-last, 1), -first, places)
    return _alternatives([positive, None if negative is None else series(LiteralText("-"), negative)])


def _fixed_point_range(first: int, last: int, places: int) -> Expression | None:
    """Admit the integers from `first` to `last`, written with a point before their last `places` digits."""
    if first > last:
        return None
    options: list[Expression] = []
    while first <= last:
        size = max(len(str(first)), places + 1)
        end = min(last, 10**size - 1)
        options.append(_with_decimal_point(str(first).zfill(size), str(end).zfill(size), size - places))
        first = end + 1
    return choice(options)


def _with_decimal_point(first: str, last: str, point: int) -> Expression:
    if point == 0:
        return series(LiteralText("."), _same_length(first, last))
    if first[0] == last[0]:
        return series(LiteralText(first[0]), _with_decimal_point(first[1:], last[1:], point - 1))
    rest = len(first) - 1
    middle = chr(ord(first[0]) + 1), chr(ord(last[0]) - 1)
    options = [series(LiteralText(first[0]), _with_decimal_point(first[1:], "9" * rest, point - 1))]
    if middle[0] <= middle[1]:
        options.append(series(chars("".join(middle)), _with_decimal_point("0" * rest, "9" * rest, point - 1)))
    options.append(series(LiteralText(last[0]), _with_decimal_point("0" * rest, last[1:], point - 1)))
    return choice(options)


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
        options.append(_first_digit_range(first, last, size - 1))
    return choice([*options, *below])


def _first_digit_range(first: str, last: str, rest: int) -> Expression:
    leading_digit = LiteralText(first) if first == last else chars(first + last)
    return series(leading_digit, Repeat(DIGIT, rest, rest)) if rest else leading_digit
