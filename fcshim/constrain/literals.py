"""Values as Python writes them, and as Gemma does.

Rule: keys and literals come from the functions that the templates write them with.
Neighbours: `prompt.notation` has those, `parse.literals` reads what is written.
"""

import json
from collections.abc import Sequence

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import Expression, Text, choice, series
from fcshim.constrain.notation import COMMA, Notation, Value, word_key
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import LINES, PYTHON_ESCAPE, Strings
from fcshim.events import JSON
from fcshim.prompt.notation import gemma, python, python_arguments

_MARK = "\ue000"
_LONGEST_NAME = 60
"""Characters of an argument's name behind which its `=` is sure to be seen where a string before it ends."""


class PythonNotation(Notation):
    """Python's literals as keyword arguments: `a=1, b="x"`, and `**{"a b": 1}` for a name that is none in Python."""

    strings = Strings("string", escape=PYTHON_ESCAPE)
    arguments = Brackets("", COMMA, "")

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value."""
        return python(value)

    def argument(self, key: str, values: Sequence[Value]) -> Expression:
        """Write a keyword argument."""
        name, _, behind = python_arguments(json.dumps({key: _MARK})).partition(python(_MARK))
        if len(key) > _LONGEST_NAME and not behind:
            name, behind = f"**{{{python(key)}: ", "}"
        return series(Text(name), choice(value for _, value in values), Text(behind))

    def free_arguments(
        self, rules: Rules, values: Sequence[Value], least: int = 0, most: int | None = None
    ) -> Expression:
        """Give arguments whose names are free."""
        value = rules.share(choice(value for _, value in values))
        part = rules.share(series(word_key(rules), Text("="), value))
        return self.arguments.with_free_keys(part, least, most, rules)


class GemmaNotation(Notation):
    """Gemma's values, strings between tokens of their own: `k:<|"|>x<|"|>,n:[1,2]`."""

    array = Brackets("[", Text(","), "]")
    members = arguments = Brackets("{", Text(","), "}")
    colon = Text(":")

    def __init__(self, quote: str) -> None:
        self._quote = quote
        self.strings = Strings("string", quote=quote, ranges=LINES, markers=(quote,))

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value."""
        return gemma(value, self._quote)

    def member(self, key: str, value: Expression) -> Expression:
        """Write a member of an object."""
        return series(Text(gemma({key: 0}, self._quote)[1:-2]), value)

    def free_key(self, rules: Rules) -> Expression:
        """Give a plain word."""
        return word_key(rules)
