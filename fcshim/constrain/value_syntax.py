"""How a dialect writes values: strings, literals, brackets, keys and arguments. The base class writes JSON.

Rule: the dialect's parser reads every written text as the same value; a value that cannot be written gives None. The
keys and literals of Python and Gemma are written by the functions that the prompt's templates use (`prompt.notation`).
"""

import json
from collections.abc import Collection, Sequence

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import Expression, LiteralText, Repeat, chars, choice, optional, series
from fcshim.constrain.numbers import NUMBER
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import JSON_ESCAPE, MULTILINE, PYTHON_ESCAPE, StringSyntax
from fcshim.events import JSON
from fcshim.prompt.notation import gemma_literal, python_arguments, python_literal

TypedExpression = tuple[str, Expression]
"""A JSON Schema type, and the expression of values of this type."""

json_text = json.JSONEncoder(ensure_ascii=False).encode
"""Encodes JSON without ASCII escapes. One shared encoder: creating one takes longer than encoding most values."""

COMMA = series(LiteralText(","), optional(LiteralText(" ")))
COLON = series(LiteralText(":"), optional(LiteralText(" ")))
JSON_STRINGS = StringSyntax("string", escape=JSON_ESCAPE)
_MAX_ANY_DEPTH = 2
"""Nesting of containers where the schema allows any value."""
_MAX_EXCLUDED_KEYS = 1_000
"""Characters of the names of one object that other keys are kept apart from: each becomes a rule."""
_PLACEHOLDER = "\ue000"
_MAX_PLAIN_NAME = 60
"""Longest argument name that is written as `name=`. The parser decides where a string ends by the next `name=`, and
looks only so far; a longer name is written as `**{"name": value}`."""


class ValueSyntax:
    """The syntax of JSON, which the subclasses change.

    Arguments, the members of the outermost object, may have another syntax than values inside them.
    """

    strings = JSON_STRINGS
    array = Brackets("[", COMMA, "]")
    members = Brackets("{", COMMA, "}")
    arguments = members
    colon: Expression = COLON
    distinguishes_strings = True
    """Whether the parser can distinguish string arguments from other values."""
    has_string_keys = True
    """Whether keys that the schema does not name are written like strings."""
    ambiguous_empties = False
    """Whether the parser may take an empty object or array for another value."""
    any_rule_name, any_depth = "any", _MAX_ANY_DEPTH
    """The name prefix of the rules of any value, and their nesting of containers."""

    @property
    def map_value_syntax(self) -> "ValueSyntax":
        """The syntax of values in objects whose keys the schema does not name."""
        return self

    @property
    def union_syntax(self) -> "ValueSyntax":
        """The syntax of containers where the schema allows several different ones."""
        return self

    def strings_of(self, *, argument: bool) -> StringSyntax:  # noqa: ARG002 - both are alike in most languages
        """Return the syntax of strings, as arguments or inside them."""
        return self.strings

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - as above
        """Write one value; None where it cannot be written."""
        text = json_text(value)
        return text if self.strings.can_hold(text) else None

    def can_write_key(self, key: str, *, argument: bool) -> bool:
        """Return whether a key can be written, as the name of an argument or of a member inside one."""
        return self.literal(key, argument=argument) is not None

    def item(self, value: Expression) -> Expression:
        """Write an element of an array."""
        return value

    def member(self, key: str, value: Expression) -> Expression:
        """Write a member of an object."""
        return series(LiteralText(json_text(key)), self.colon, value)

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write an argument with one of these values."""
        return self.member(key, choice(value for _, value in values))

    def free_key(self, rules: Rules) -> Expression:
        """Admit a key that the schema does not name."""
        return self.strings.key(rules)

    def other_key(self, rules: Rules, names: Collection[str], *, argument: bool) -> Expression | None:
        """Admit a key that is none of `names`, beside these; None where the syntax cannot express that."""
        if argument and self.arguments is not self.members:
            return None
        return self.strings.key_except(rules, names) if sum(map(len, names)) <= _MAX_EXCLUDED_KEYS else None

    def map_of(
        self,
        rules: Rules,
        value: Expression,
        minimum: int = 0,
        maximum: int | None = None,
        key: Expression | None = None,
    ) -> Expression:
        """Admit an object whose keys the schema does not name; each is a `key`, if that is given."""
        part = rules.share(series(key or self.free_key(rules), self.colon, value))
        return self.members.with_free_keys(part, minimum, maximum, rules)

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], minimum: int = 0, maximum: int | None = None
    ) -> Expression:
        """Admit arguments with names that the schema does not list."""
        return self.map_of(rules, choice(value for _, value in values), minimum, maximum)

    def any_value(self, rules: Rules) -> Expression:
        """Admit any value inside arguments."""
        return self._any_value(rules, self.any_depth)

    def any_argument(self, rules: Rules) -> list[TypedExpression]:
        """Admit any value as an argument."""
        return self._values_of_any_kind(rules, self.strings_of(argument=True), self.any_depth)

    def _any_value(self, rules: Rules, depth: int) -> Expression:
        name = f"{self.any_rule_name}{depth}"
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
            rules.note(f"values that the schema leaves free are nested at most {self.any_depth} levels deep")
            return scalars
        inner = self._any_value(rules, depth - 1)
        array = self.array.repeated(self.item(inner), 0, None)
        return [*scalars, ("array", array), ("object", self.map_of(rules, inner))]


class DocumentSyntax(ValueSyntax):
    """JSON documents: any value may be nested deeper than in arguments."""

    any_rule_name, any_depth = "some", 6


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


def identifier_key(rules: Rules) -> Expression:
    """Admit a key that is an identifier, for syntaxes that write keys without quotes."""
    more = Repeat(chars("AZ", "az", "_", "09"), 0, 63, "characters")
    return rules.share(series(chars("AZ", "_", "az"), more), "word-key")


JSON_SYNTAX = ValueSyntax()
DOCUMENT_SYNTAX = DocumentSyntax()
