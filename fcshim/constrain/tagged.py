"""The value syntaxes of tagged dialects: raw strings between tags, and other values as JSON or as nested elements.

Rule: no value contains a marker of the dialect, so that each ends at its closing tag.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import EMPTY, Expression, LiteralText, choice, one_of_texts, series
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import MULTILINE, StringSyntax
from fcshim.constrain.value_syntax import JSON_STRINGS, TypedExpression, ValueSyntax, identifier_key, json_text
from fcshim.events import JSON
from fcshim.parse.scanner import none_if_more_needed
from fcshim.parse.tagged.tag_reading import CompiledTags

_SAMPLE_VALUES: dict[str, JSON] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": True,
    "null": None,
    "array": [],
    "object": {},
}
KEY_PLACEHOLDER = "\ue000"
"""Stands for a key in the text around a value."""
_PLAIN_KEY = re.compile(r"[^<>\s/]{1,128}")


class TaggedSyntax(ValueSyntax):
    """Each argument is between tags: a string raw, any other value as JSON."""

    arguments = Brackets("", EMPTY, "")

    def __init__(self, compiled_tags: CompiledTags, value_prefix: str, value_suffix: str) -> None:
        """Store the text between the opening tag and the value, and the text after the value."""
        tags = compiled_tags.tags
        markers = tuple(filter(None, (*compiled_tags.value_marker_kinds, tags.quote_open)))
        self._compiled_tags = compiled_tags
        self._value_prefix = value_prefix
        self._value_suffix = value_suffix
        self._raw_strings = StringSyntax("text", quote="", ranges=MULTILINE, markers=markers)
        self.strings = replace(JSON_STRINGS, markers=markers)
        self.distinguishes_strings = bool(tags.parameter.type_attribute)
        """Whether the opening tag has a type attribute, which distinguishes strings from other values."""

    def strings_of(self, *, argument: bool) -> StringSyntax:
        """Return the syntax of strings: raw as arguments, JSON inside them."""
        return self._raw_strings if argument else self.strings

    def literal(self, value: JSON, *, argument: bool) -> str | None:
        """Write one value; None where it contains a marker."""
        text = value if argument and isinstance(value, str) else json_text(value)
        return text if self._raw_strings.can_hold(text) else None

    def can_write_key(self, key: str, *, argument: bool) -> bool:
        """Return whether a key can be written: as an argument in the opening tag, inside arguments in JSON."""
        if not argument:
            return super().can_write_key(key, argument=argument)
        read = none_if_more_needed(self._compiled_tags.read_parameter)
        found = read(self._opening(key, "string") + "x", 0)
        return found is not None and found.name == key

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write a parameter."""
        by_opening: dict[str, list[Expression]] = {}
        for kind, value in values:
            by_opening.setdefault(self._opening(key, kind), []).append(value)
        closing = LiteralText(self._value_suffix)
        return one_of_texts([(opening, series(choice(parts), closing)) for opening, parts in by_opening.items()])

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], minimum: int = 0, maximum: int | None = None
    ) -> Expression:
        """Admit parameters with names that the schema does not list."""
        head = self._opening(KEY_PLACEHOLDER, "string").partition(KEY_PLACEHOLDER)[0]
        openings = (
            (self._opening(KEY_PLACEHOLDER, kind).partition(KEY_PLACEHOLDER)[2], value) for kind, value in values
        )
        branches = [(opening, series(value, LiteralText(self._value_suffix))) for opening, value in openings]
        value = rules.share(one_of_texts(branches))
        part = rules.share(series(LiteralText(head), identifier_key(rules), value))
        return self.arguments.with_free_keys(part, minimum, maximum, rules)

    def any_argument(self, rules: Rules) -> list[TypedExpression]:
        """Admit any value; where tags do not distinguish strings, raw text covers all values."""
        return super().any_argument(rules) if self.distinguishes_strings else [("string", self._raw_strings.any(rules))]

    def _opening(self, key: str, kind: str) -> str:
        return self._compiled_tags.tags.parameter_opening(key, _SAMPLE_VALUES[kind]) + self._value_prefix


class ElementSyntax(TaggedSyntax):
    """Nested elements: an object has one for each member, an array one for each item, a scalar is raw text.

    An object with keys that the schema does not name is written as JSON inside its element: a context-free grammar
    cannot match a closing tag to a key that it does not know.
    """

    array = members = Brackets("", EMPTY, "")
    ambiguous_empties = True

    def __init__(self, compiled_tags: CompiledTags, value_prefix: str, value_suffix: str) -> None:
        """Store the text around a value; `value_suffix` has a placeholder for the key in its closing tag."""
        super().__init__(compiled_tags, value_prefix, value_suffix)
        self._json = _JsonInElements(self.strings)
        self.strings = self._raw_strings

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value as the text of an element."""
        return super().literal(value, argument=True)

    def item(self, value: Expression) -> Expression:
        """Write an element of an array."""
        return self._element("item", value)

    def can_write_key(self, key: str, *, argument: bool) -> bool:  # noqa: ARG002 - both are alike
        """Return whether a key can be the name of an element."""
        return _PLAIN_KEY.fullmatch(key) is not None

    def member(self, key: str, value: Expression) -> Expression:
        """Write a member."""
        return self._element(key, value)

    def other_key(self, rules: Rules, names: Collection[str], *, argument: bool) -> Expression | None:  # noqa: ARG002
        """Admit none: a grammar cannot match a closing tag to an unknown key."""
        return None

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write an argument like any other member."""
        return self.member(key, choice(value for _, value in values))

    def map_of(
        self,
        rules: Rules,
        value: Expression,
        minimum: int = 0,
        maximum: int | None = None,
        key: Expression | None = None,
    ) -> Expression:
        """Admit an object whose keys the schema does not name, as JSON."""
        return self._json.map_of(rules, value, minimum, maximum, key)

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], minimum: int = 0, maximum: int | None = None
    ) -> Expression:
        """Admit arguments with names that the schema does not list, as one JSON object."""
        return self.map_of(rules, choice(value for _, value in values), minimum, maximum)

    @property
    def map_value_syntax(self) -> ValueSyntax:
        """JSON."""
        return self._json

    @property
    def union_syntax(self) -> ValueSyntax:
        """JSON: the parser needs the schema of an element while it reads it, and a union does not determine it."""
        return self._json

    def any_value(self, rules: Rules) -> Expression:
        """Admit any text, JSON included."""
        return self._raw_strings.any(rules)

    def any_argument(self, rules: Rules) -> list[TypedExpression]:
        """Admit any text, JSON included."""
        return [("string", self._raw_strings.any(rules))]

    def _element(self, key: str, value: Expression) -> Expression:
        return series(
            LiteralText(self._opening(key, "string")),
            value,
            LiteralText(self._value_suffix.replace(KEY_PLACEHOLDER, key)),
        )


class _JsonInElements(ValueSyntax):
    """JSON whose strings contain no marker of the dialect."""

    def __init__(self, strings: StringSyntax) -> None:
        self.strings = strings
