"""The value syntaxes of Python literals and of Gemma.

Rule: keys and literals are written by the functions that the prompt's templates use, in `prompt.notation`.
"""

import json
from collections.abc import Collection, Sequence

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import Expression, LiteralText, choice, series
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import MULTILINE, PYTHON_ESCAPE, StringSyntax
from fcshim.constrain.value_syntax import COMMA, TypedExpression, ValueSyntax, identifier_key
from fcshim.events import JSON
from fcshim.prompt.notation import gemma_literal, python_arguments, python_literal

_PLACEHOLDER = "\ue000"
_MAX_PLAIN_NAME = 60
"""Longest argument name that is written as `name=`. The parser decides where a string ends by the next `name=`, and
looks only so far; a longer name is written as `**{"name": value}`."""


class PythonSyntax(ValueSyntax):
    """Python literals as keyword arguments: `a=1, b="x"`, and `**{"a b": 1}` for a name that is not an identifier."""

    strings = StringSyntax("string", escape=PYTHON_ESCAPE)
    arguments = Brackets("", COMMA, "")

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value."""
        return python_literal(value)

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write a keyword argument."""
        name, _, closing = python_arguments(json.dumps({key: _PLACEHOLDER})).partition(python_literal(_PLACEHOLDER))
        if len(key) > _MAX_PLAIN_NAME and not closing:
            name, closing = f"**{{{python_literal(key)}: ", "}"
        return series(LiteralText(name), choice(value for _, value in values), LiteralText(closing))

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], minimum: int = 0, maximum: int | None = None
    ) -> Expression:
        """Admit arguments with names that the schema does not list."""
        value = rules.share(choice(value for _, value in values))
        part = rules.share(series(identifier_key(rules), LiteralText("="), value))
        return self.arguments.with_free_keys(part, minimum, maximum, rules)


class GemmaSyntax(ValueSyntax):
    """Gemma's values, with strings between special tokens: `k:<|"|>x<|"|>,n:[1,2]`."""

    array = Brackets("[", LiteralText(","), "]")
    members = arguments = Brackets("{", LiteralText(","), "}")
    colon = LiteralText(":")
    has_string_keys = False

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
        """Admit an identifier, written without quotes."""
        return identifier_key(rules)

    def other_key(self, rules: Rules, names: Collection[str], *, argument: bool) -> Expression | None:  # noqa: ARG002
        """Admit none: keys have no quotes."""
        return None
