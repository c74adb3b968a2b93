"""Values as Python writes them, and as Gemma does.

Rule: keys and literals come from the functions that the templates write them with.
Neighbours: `prompt.notation` has those, `parse.literals` reads what is written.
"""

import json
from collections.abc import Sequence

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import Expression, LiteralText, choice, series
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import MULTILINE, PYTHON_ESCAPE, StringSyntax
from fcshim.constrain.value_syntax import COMMA, TypedExpression, ValueSyntax, identifier_key
from fcshim.events import JSON
from fcshim.prompt.notation import gemma_literal, python_arguments, python_literal

_PLACEHOLDER = "\ue000"
_MAX_PLAIN_NAME = 60
"""Characters of an argument's name behind which its `=` is sure to be seen where a string before it ends."""


class PythonSyntax(ValueSyntax):
    """Python's literals as keyword arguments: `a=1, b="x"`, and `**{"a b": 1}` for a name that is none in Python."""

    strings = StringSyntax("string", escape=PYTHON_ESCAPE)
    arguments = Brackets("", COMMA, "")

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value."""
        return python_literal(value)

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write a keyword argument."""
        name, _, behind = python_arguments(json.dumps({key: _PLACEHOLDER})).partition(python_literal(_PLACEHOLDER))
        if len(key) > _MAX_PLAIN_NAME and not behind:
            name, behind = f"**{{{python_literal(key)}: ", "}"
        return series(LiteralText(name), choice(value for _, value in values), LiteralText(behind))

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], least: int = 0, most: int | None = None
    ) -> Expression:
        """Give arguments whose names are free."""
        value = rules.share(choice(value for _, value in values))
        part = rules.share(series(identifier_key(rules), LiteralText("="), value))
        return self.arguments.with_free_keys(part, least, most, rules)


class GemmaSyntax(ValueSyntax):
    """Gemma's values, strings between tokens of their own: `k:<|"|>x<|"|>,n:[1,2]`."""

    array = Brackets("[", LiteralText(","), "]")
    members = arguments = Brackets("{", LiteralText(","), "}")
    colon = LiteralText(":")

    def __init__(self, quote: str) -> None:
        self._quote = quote
        self.strings = StringSyntax("string", quote=quote, ranges=MULTILINE, markers=(quote,))

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value."""
        return gemma_literal(value, self._quote)

    def member(self, key: str, value: Expression) -> Expression:
        """Write a member of an object."""
        return series(LiteralText(gemma_literal({key: 0}, self._quote)[1:-2]), value)

    def free_key(self, rules: Rules) -> Expression:
        """Give a plain word."""
        return identifier_key(rules)
