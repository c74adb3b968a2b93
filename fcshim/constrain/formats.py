"""JSON Schema's `format` values as expressions over characters.

Rule: each format admits its usual form only; a format that is not in the table is not enforced.
"""

from fractions import Fraction

from fcshim.constrain.grammar import Expression, LiteralText, Repeat, chars, choice, one_of_texts, optional, series
from fcshim.constrain.numbers import DIGIT, integers


def _two_digits(first: int, last: int) -> Expression:
    found = [f"{number:02}" for number in range(first, last + 1)]
    return one_of_texts([(text, LiteralText("")) for text in found])


def _date() -> Expression:
    century = series(chars("12"), DIGIT)
    year = series(century, DIGIT, DIGIT)
    fourth = choice(
        [
            series(LiteralText("0"), chars("4", "8")),
            series(chars("2", "4", "6", "8"), chars("0", "4", "8")),
            series(chars("1", "3", "5", "7", "9"), chars("2", "6")),
        ]
    )
    thirty = series(choice(map(LiteralText, ("04-", "06-", "09-", "11-"))), _two_digits(1, 30))
    thirty_one = series(choice(LiteralText(f"{month:02}-") for month in (1, 3, 5, 7, 8, 10, 12)), _two_digits(1, 31))
    february = series(LiteralText("02-"), _two_digits(1, 28))
    leap = choice([series(century, fourth), LiteralText("2000")])
    return choice(
        [series(year, LiteralText("-"), choice([thirty_one, thirty, february])), series(leap, LiteralText("-02-29"))],
    )


def _time() -> Expression:
    zone = choice([LiteralText("Z"), series(chars("+", "-"), _two_digits(0, 23), LiteralText(":"), _two_digits(0, 59))])
    fraction = optional(series(LiteralText("."), Repeat(DIGIT, 1, 6)))
    return series(
        _two_digits(0, 23), LiteralText(":"), _two_digits(0, 59), LiteralText(":"), _two_digits(0, 59), fraction, zone
    )


def _uuid() -> Expression:
    hexadecimal = chars("09", "af")
    others = (part for size in (4, 4, 4, 12) for part in (LiteralText("-"), Repeat(hexadecimal, size, size)))
    return series(Repeat(hexadecimal, 8, 8), *others)


def _host() -> Expression:
    inner = series(Repeat(chars("az", "09", "-"), 0, 20), chars("az", "09"))
    label = series(chars("az", "09"), optional(inner))
    return series(Repeat(series(label, LiteralText(".")), 1, 3), Repeat(chars("az"), 2, 6))


def _email() -> Expression:
    word = Repeat(chars("az", "AZ", "09", "_", "+", "-"), 1, 30)
    return series(word, Repeat(series(LiteralText("."), word), 0, 2), LiteralText("@"), _host())


def _address() -> Expression:
    octet = integers(Fraction(0), Fraction(255))
    assert octet is not None
    return series(octet, *(part for _ in range(3) for part in (LiteralText("."), octet)))


def _uri() -> Expression:
    segment = Repeat(chars("az", "AZ", "09", "_", "-", ".", "~"), 1, 40)
    path = Repeat(series(LiteralText("/"), segment), 0, 8)
    query = optional(series(LiteralText("?"), Repeat(chars("az", "AZ", "09", "_", "-", ".", "=", "&"), 1, 80)))
    return series(
        choice([LiteralText("https://"), LiteralText("http://")]), _host(), path, optional(LiteralText("/")), query
    )


def _duration() -> Expression:
    number = Repeat(DIGIT, 1, 4)
    days = series(number, chars("D"))
    hours = series(LiteralText("T"), number, chars("H", "M", "S"))
    return series(
        LiteralText("P"), choice([series(days, optional(hours)), hours, series(number, chars("W", "M", "Y"))])
    )


FORMATS: dict[str, Expression] = {
    "date": _date(),
    "time": _time(),
    "date-time": series(_date(), LiteralText("T"), _time()),
    "uuid": _uuid(),
    "email": _email(),
    "hostname": _host(),
    "ipv4": _address(),
    "ipv6": series(
        Repeat(series(Repeat(chars("09", "af"), 1, 4), LiteralText(":")), 7, 7), Repeat(chars("09", "af"), 1, 4)
    ),
    "uri": _uri(),
    "duration": _duration(),
}
"""Formats whose strings are written in their usual form; any other is not enforced."""
