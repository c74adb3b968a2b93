"""Count the readings of strings whose quotes are not escaped, without the parser.

Rule: quotations inside a string come in pairs of an opening and a closing quote. An array has a second reading where it
may be cut into other items that keep this rule.
"""

import itertools
import re
from collections.abc import Iterator, Sequence

from fcshim.events import JSON

_SEPARATOR = re.compile(r"\"\s*,\s*\"")
_OPENING = re.compile(r"(?:\A|[\s(\[{<>=:,;!&|+*/%\"'-])\"(?!\s|\Z)|\"\"")
_CLOSING = re.compile(r"\"(?:\Z|[\s)\]}>=:,;.!?&|+*/%\"'-])")
_MOST_SEPARATORS = 10
"""More places at which an array may be cut count as several readings."""


def have_two_readings(values: Sequence[JSON]) -> bool:
    """Return whether one of the arrays of strings in these values may be read as other items."""
    return any(_readings(items) != 1 for items in _arrays(values) if any('"' in item for item in items))


def _arrays(value: JSON) -> Iterator[list[str]]:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        yield value
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for member in members:
        yield from _arrays(member)


def _readings(items: Sequence[str]) -> int:
    text = '", "'.join(items)
    cuts = list(_SEPARATOR.finditer(text))
    if len(cuts) > _MOST_SEPARATORS:
        return 2
    chosen = (each for size in range(len(cuts) + 1) for each in itertools.combinations(cuts, size))
    return sum(all(map(_has_pairs, _pieces(text, each))) for each in chosen)


def _pieces(text: str, cuts: Sequence[re.Match[str]]) -> Iterator[str]:
    start = 0
    for cut in cuts:
        yield text[start : cut.start()]
        start = cut.end()
    yield text[start:]


def _has_pairs(text: str) -> bool:
    """Return whether the quotes of a text open and close in turn."""
    quotes = [found.start() for found in re.finditer('"', text)]
    opening = all(at == 0 or _OPENING.match(text, at - 1) for at in quotes[::2])
    return len(quotes) % 2 == 0 and opening and all(_CLOSING.match(text, at) for at in quotes[1::2])
