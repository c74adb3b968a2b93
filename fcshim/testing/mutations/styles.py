"""Ways in which models write JSON values that are not JSON, one by one."""

import json
from collections.abc import Callable
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
