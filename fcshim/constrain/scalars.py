"""Expressions of scalar values: strings, numbers, booleans, null, and the values of `enum` and `const`.

Rule: an unquoted string is never written so that the parser takes it for a value of another kind that is also allowed.
"""

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction

from fcshim.constrain.grammar import Expression, LiteralText, Repeat, chars, choice, one_of_texts, optional, series
from fcshim.constrain.keywords import KIND_OF, Keywords
from fcshim.constrain.numbers import DIGIT, INTEGER, NUMBER, integers, multiples, numbers
from fcshim.constrain.patterns import read_pattern, with_length
from fcshim.constrain.rules import Rules
from fcshim.constrain.value_syntax import TypedExpression, ValueSyntax
from fcshim.events import JSON
from fcshim.schema.node import scan

# The values of `format`: each format admits its usual form only; one that is not in the table is not enforced.


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


_HEX = chars("09", "af")
FORMATS: dict[str, Expression] = {
    "date": _date(),
    "time": _time(),
    "date-time": series(_date(), LiteralText("T"), _time()),
    "uuid": series(
        Repeat(_HEX, 8, 8),
        *(part for size in (4, 4, 4, 12) for part in (LiteralText("-"), Repeat(_HEX, size, size))),
    ),
    "email": _email(),
    "hostname": _host(),
    "ipv4": _address(),
    "ipv6": series(Repeat(series(Repeat(_HEX, 1, 4), LiteralText(":")), 7, 7), Repeat(_HEX, 1, 4)),
    "uri": _uri(),
    "duration": _duration(),
}
"""Formats whose strings are written in their usual form; any other is not enforced."""


_FIRST_CHARACTERS = {"integer": "-0123456789", "number": "-0123456789", "array": "[", "object": "{"}
"""First characters by which an unquoted text may be taken for a value of that kind."""
_CONSTANTS = {"boolean": ("true", "false"), "null": ("null",)}


class ScalarWriter:
    """Writes scalar values in a value syntax, as arguments or inside them, with shared rules in `rules`."""

    def __init__(self, syntax: ValueSyntax, rules: Rules, *, argument: bool) -> None:
        self._syntax = syntax
        self._rules = rules
        self._argument = argument
        self._strings = syntax.strings_of(argument=argument)

    def literals(self, values: Sequence[JSON], kinds: frozenset[str]) -> Iterator[TypedExpression]:
        """Return the values of `enum` and `const`, grouped by kind; `kinds` are the kinds that are allowed."""
        texts: dict[str, dict[str, None]] = {}
        for value in values:
            text = self._syntax.literal(value, argument=self._argument)
            raw = isinstance(value, str) and self._strings.is_raw
            if text is None or (raw and _reads_as(text, kinds)):
                self._rules.note(f"{json.dumps(value):.40} cannot be written")
            else:
                texts.setdefault(KIND_OF[type(value)], {})[text] = None
        for kind, group in texts.items():
            yield kind, one_of_texts([(text, LiteralText("")) for text in group])

    def constant(self, value: bool | None) -> Expression:  # noqa: FBT001 - it is the value
        """Return a boolean or null."""
        return LiteralText(self._syntax.literal(value, argument=self._argument) or "")

    def string(self, keywords: Keywords, other_kinds: frozenset[str]) -> Expression | None:
        """Return the strings of an alternative, where values of `other_kinds` are allowed as well."""
        strings = self._strings
        minimum, maximum = keywords.lower_bound("minLength"), keywords.upper_bound("maxLength")
        matched = self._pattern_string(keywords, minimum, maximum) if not (strings.is_raw and other_kinds) else None
        if matched is not None:
            if keywords.excluded_texts:
                self._rules.note("not is not enforced")
            return matched
        if keywords.patterns():
            self._rules.note("pattern is not enforced")
        excluded, different = keywords.excluded_texts, None
        name = keywords.string_format()
        if excluded and not (name or minimum or maximum is not None or strings.is_raw):
            different = strings.any_except(self._rules, excluded)
        if excluded and different is None:
            self._rules.note("not is not enforced")
        form = FORMATS.get(name)
        if form is not None and not minimum and maximum is None:
            return self._rules.once(f"{strings.name}-{name}", lambda: strings.quoted(form))
        if name:
            self._rules.note(f"format {name!r:.40} is not enforced")
        if strings.is_raw and other_kinds and not (self._argument and self._syntax.distinguishes_strings):
            starts = "".join(sorted({char for kind in other_kinds for char in _FIRST_CHARACTERS.get(kind, "")}))
            words = [word for kind in sorted(other_kinds) for word in _CONSTANTS.get(kind, ())]
            return strings.excluding(self._rules, starts, words, minimum, maximum)
        if not minimum and maximum is None:
            return strings.any(self._rules) if different is None else different
        return strings.of_length(self._rules, minimum, maximum)

    def number(self, keywords: Keywords, *, whole: bool) -> Expression | None:
        """Return the numbers of an alternative."""
        low, high = keywords.numbers.ends(whole=whole)
        step = keywords.numbers.step
        if step is not None and step != 1:
            stepped = multiples(step, low, high)
            if stepped is not None:
                return stepped
            self._rules.note("multipleOf is not enforced")
        found = integers(low, high) if whole or step == 1 else numbers(*keywords.numbers.bounds())
        return found if found not in (INTEGER, NUMBER) else self._rules.share(found, "integer" if whole else "number")

    def _pattern_string(self, keywords: Keywords, minimum: int, maximum: int | None) -> Expression | None:
        """Return the strings that match the pattern; None without one, with several, or with an unsupported one."""
        patterns = keywords.patterns()
        found = read_pattern(patterns[0]) if len(patterns) == 1 and self._rules.admit_pattern(patterns[0]) else None
        if found is not None and (minimum or maximum is not None):
            found = with_length(found, minimum, maximum)
        content = None if found is None else self._strings.as_content(found)
        return None if content is None else self._rules.share(self._strings.quoted(content))


def _reads_as(text: str, kinds: frozenset[str]) -> bool:
    """Return whether an unquoted text would be read as a value of one of `kinds` other than a string."""
    node = scan(text.strip(" \t\r\n"))
    if node is None or node.kind == "string":
        return False
    return ("number" if node.kind == "fraction" else node.kind) in kinds or (
        node.kind == "integer" and "number" in kinds
    )
