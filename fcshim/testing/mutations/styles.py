"""Ways in which models write JSON values that are not JSON, one by one."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fcshim.events import JSON


def json_string(text: str) -> str:
    """Write a string as JSON does."""
    return json.dumps(text, ensure_ascii=False)


def without_escaped_quotes(text: str) -> str:
    """Write a string whose double quotes are not escaped; everything else is."""
    return '"' + "".join(char if char == '"' else json_string(char)[1:-1] for char in text) + '"'


def bare(text: str) -> str:
    """Write a string in which nothing is escaped."""
    return f'"{text}"'


def with_escaped_line_breaks(text: str) -> str:
    """Write a string in which only line breaks are escaped."""
    return bare(text.replace("\n", "\\n"))


def single_quoted(text: str) -> str:
    """Write a string in single quotes."""
    inner = "".join(char if char == '"' else json_string(char)[1:-1] for char in text)
    return "'" + inner.replace("'", "\\'") + "'"


@dataclass(frozen=True, slots=True)
class Style:
    """How values are written; JSON by default. `comment` follows the first member of an object."""

    string: Callable[[str], str] = json_string
    literals: tuple[str, str, str] = ("true", "false", "null")
    comma: str = ", "
    colon: str = ": "
    braces: str = "{}"
    before_end: str = ""
    comment: str = ""

    def write(self, value: JSON) -> str:
        """Write a value."""
        match value:
            case str():
                return self.string(value)
            case True | False | None:
                return self.literals[(True, False, None).index(value)]
            case dict():
                return self.braces[0] + self._members(value) + self.braces[1]
            case list():
                return "[" + self.comma.join(map(self.write, value)) + (self.before_end if value else "") + "]"
            case _:
                return json.dumps(value)

    def _members(self, value: dict[str, JSON]) -> str:
        members = [f"{self.string(key)}{self.colon}{self.write(member)}" for key, member in value.items()]
        if self.comment and len(members) > 1:
            members[1] = self.comment + members[1]
        return self.comma.join(members) + (self.before_end if members else "")

    def keywords(self, value: dict[str, JSON]) -> str:
        """Write the arguments of a Python call."""
        members = [f"{key}={self.write(member)}" for key, member in value.items()]
        if self.comment and len(members) > 1:
            members[1] = self.comment + members[1]
        return self.comma.join(members) + (self.before_end if members else "")


PYTHON = ("True", "False", "None")

NOTHING_ESCAPED = ("nothing escaped", "only line breaks escaped")
NOT_ESCAPED = ("unescaped quotes", *NOTHING_ESCAPED)
"""The styles in which a quote may be content or the end of its string."""

JSON_STYLES = {
    "unescaped quotes": Style(string=without_escaped_quotes),
    "nothing escaped": Style(string=bare),
    "only line breaks escaped": Style(string=with_escaped_line_breaks),
    "single quotes": Style(string=single_quoted),
    "Python literals": Style(literals=PYTHON),
    "trailing comma": Style(before_end=","),
    "comment": Style(comment="\n  // the second one\n  "),
    "full-width punctuation": Style(comma="，", colon="：", braces="｛｝"),
}
"""Applied to the arguments of dialects that write them as JSON."""
PYTHON_STYLES = {
    "unescaped quotes": Style(string=without_escaped_quotes, literals=PYTHON),
    "nothing escaped": Style(string=bare, literals=PYTHON),
    "only line breaks escaped": Style(string=with_escaped_line_breaks, literals=PYTHON),
    "single quotes": Style(string=single_quoted, literals=PYTHON),
    "Python literals": Style(),
    "trailing comma": Style(literals=PYTHON, before_end=","),
    "comment": Style(literals=PYTHON, comment="\n  # the second one\n  "),
    "full-width punctuation": Style(literals=PYTHON, comma="，"),
}
"""Applied to the arguments of Python calls; `Python literals` writes JSON's instead."""


_SEPARATOR = re.compile(r"\"\s*,\s*\"")
_OPENING = re.compile(r"(?:\A|[\s(\[{<>=:,;!&|+*/%\"'-])\"(?!\s|\Z)|\"\"")
_CLOSING = re.compile(r"\"(?:\Z|[\s)\]}>=:,;.!?&|+*/%\"'-])")
_MOST_SEPARATORS = 10
"""More places at which an array may be cut count as several readings."""


def have_two_readings(values: Sequence[JSON]) -> bool:
    """Return whether one of the arrays of strings in these values may be read as other items, by any parser.

    Quotations inside a string come in pairs of an opening and a closing quote. An array has a second reading where it
    may be cut into other items that keep this rule.
    """
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
