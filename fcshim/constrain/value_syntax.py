"""How a language writes values: its strings, words and brackets, keys and arguments. JSON's is the plain one.

Rule: what is written here, the dialect's own reader reads as the same value; what cannot be said is None.
Neighbours: `literals` and `tagged` are the other languages, `values` knows what is to be written.
"""

import json
from collections.abc import Sequence

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import Expression, LiteralText, Repeat, chars, choice, optional, series
from fcshim.constrain.numbers import NUMBER
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import JSON_ESCAPE, StringSyntax
from fcshim.events import JSON

TypedExpression = tuple[str, Expression]
"""What may be written in one place, and of which of JSON Schema's types it is."""

json_text = json.JSONEncoder(ensure_ascii=False).encode
"""Write JSON in its own characters: one encoder for all, since to make one takes longer than most values."""

COMMA = series(LiteralText(","), optional(LiteralText(" ")))
COLON = series(LiteralText(":"), optional(LiteralText(" ")))
JSON_STRINGS = StringSyntax("string", escape=JSON_ESCAPE)
_MAX_ANY_DEPTH = 2
"""Containers inside one another where the schema says nothing."""


class ValueSyntax:
    """JSON, and what other languages change of it.

    Arguments, the members of the outermost object, may be written otherwise than those of objects inside them.
    """

    strings = JSON_STRINGS
    array = Brackets("[", COMMA, "]")
    members = Brackets("{", COMMA, "}")
    """What stands around the members of an object."""
    arguments = members
    colon: Expression = COLON
    distinguishes_strings = True
    """Whether strings can be told from other values where they are arguments."""
    ambiguous_empties = False
    """Whether an empty object or array may be taken for another value."""
    free_name, free_depth = "any", _MAX_ANY_DEPTH
    """The rules of any value, and how many containers are inside one another there."""

    @property
    def map_value_syntax(self) -> "ValueSyntax":
        """Give the language of the values of objects whose keys are free."""
        return self

    @property
    def union_syntax(self) -> "ValueSyntax":
        """Give the language of containers of which several kinds may stand in one place."""
        return self

    def strings_of(self, *, argument: bool) -> StringSyntax:  # noqa: ARG002 - both are alike in most languages
        """Give how strings are written, as arguments or inside them."""
        return self.strings

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - as above
        """Write one value; None where it cannot be written."""
        text = json_text(value)
        return text if self.strings.can_hold(text) else None

    def can_write_key(self, key: str, *, argument: bool) -> bool:
        """Say whether a key can be written: of an argument, or of a member of an object inside."""
        return self.literal(key, argument=argument) is not None

    def item(self, value: Expression) -> Expression:
        """Write an element of an array."""
        return value

    def member(self, key: str, value: Expression) -> Expression:
        """Write a member of an object."""
        return series(LiteralText(json_text(key)), self.colon, value)

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write an argument whose value is one of these."""
        return self.member(key, choice(value for _, value in values))

    def free_key(self, rules: Rules) -> Expression:
        """Give a key that the schema leaves free."""
        return self.strings.key(rules)

    def map_of(self, rules: Rules, value: Expression, least: int = 0, most: int | None = None) -> Expression:
        """Give an object whose keys are free."""
        part = rules.share(series(self.free_key(rules), self.colon, value))
        return self.members.with_free_keys(part, least, most, rules)

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], least: int = 0, most: int | None = None
    ) -> Expression:
        """Give arguments whose names are free."""
        return self.map_of(rules, choice(value for _, value in values), least, most)

    def any_value(self, rules: Rules) -> Expression:
        """Give the rule of any value inside arguments."""
        return self._any_value(rules, self.free_depth)

    def any_argument(self, rules: Rules) -> list[TypedExpression]:
        """Give any value as an argument."""
        return self._values_of_any_kind(rules, self.strings_of(argument=True), self.free_depth)

    def _any_value(self, rules: Rules, depth: int) -> Expression:
        name = f"{self.free_name}{depth}"
        return rules.once(
            name, lambda: choice(part for _, part in self._values_of_any_kind(rules, self.strings, depth))
        )

    def _values_of_any_kind(self, rules: Rules, strings: StringSyntax, depth: int) -> list[TypedExpression]:
        scalars = [
            ("string", strings.any(rules)),
            ("number", NUMBER),
            *(("boolean", LiteralText(self.literal(value, argument=False) or "")) for value in (True, False)),
            ("null", LiteralText(self.literal(None, argument=False) or "")),
        ]
        if not depth:
            return scalars
        inner = self._any_value(rules, depth - 1)
        listed = self.array.repeated(self.item(inner), 0, None)
        return [*scalars, ("array", listed), ("object", self.map_of(rules, inner))]


class DocumentSyntax(ValueSyntax):
    """JSON of which all is wanted: what is free is as deep as anyone may want."""

    free_name, free_depth = "some", 6


def identifier_key(rules: Rules) -> Expression:
    """Give a key that is a plain word, where they are written without quotes."""
    more = Repeat(chars("AZ", "az", "_", "09"), 0, 63, "characters")
    return rules.share(series(chars("AZ", "_", "az"), more), "word-key")


JSON_SYNTAX = ValueSyntax()
DOCUMENT_SYNTAX = DocumentSyntax()
