"""Values as they stand between the tags of parameters: text raw, everything else as JSON, or as elements in elements.

Rule: no marker of the dialect occurs in a value, so that each ends where its closing tag stands.
Neighbours: `parse.tagged.tags` writes the tags and knows the markers, `frames` learns what stands around a value.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import EMPTY, Expression, LiteralText, choice, one_of_texts, series
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import MULTILINE, StringSyntax
from fcshim.constrain.value_syntax import JSON_STRINGS, TypedExpression, ValueSyntax, identifier_key, json_text
from fcshim.events import JSON
from fcshim.parse.tagged.tags import CompiledTags

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
"""Stands for a key where one is to be filled in."""
_PLAIN_KEY = re.compile(r"[^<>\s/]{1,128}")


class TaggedSyntax(ValueSyntax):
    """Each argument between tags; inside its value everything is JSON."""

    arguments = Brackets("", EMPTY, "")

    def __init__(self, spelling: CompiledTags, value_prefix: str, value_suffix: str) -> None:
        """Take what stands between the opening tag and the value, and what stands behind the value."""
        tags = spelling.tags
        markers = tuple(filter(None, (*spelling.value_marker_kinds, tags.quote_open)))
        self._spelling = spelling
        self._value_prefix = value_prefix
        self._value_suffix = value_suffix
        self._raw_strings = StringSyntax("text", quote="", ranges=MULTILINE, markers=markers)
        self.strings = replace(JSON_STRINGS, markers=markers)
        self.distinguishes_strings = bool(tags.parameter.type_attribute)
        """Whether the opening tag says that a value is text."""

    def strings_of(self, *, argument: bool) -> StringSyntax:
        """Give how strings are written: raw as arguments."""
        return self._raw_strings if argument else self.strings

    def literal(self, value: JSON, *, argument: bool) -> str | None:
        """Write one value; None where it would hold a marker."""
        text = value if argument and isinstance(value, str) else json_text(value)
        return text if self._raw_strings.can_hold(text) else None

    def can_write_key(self, key: str, *, argument: bool) -> bool:
        """Say whether a key fits into the tag of a parameter, or is JSON without a marker."""
        if not argument:
            return super().can_write_key(key, argument=argument)
        found = self._spelling.read_parameter(self._opening(key, "string") + "x", 0)
        return found is not None and found is not False and found.name == key

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write a parameter."""
        by_opening: dict[str, list[Expression]] = {}
        for kind, value in values:
            by_opening.setdefault(self._opening(key, kind), []).append(value)
        behind = LiteralText(self._value_suffix)
        return one_of_texts([(opening, series(choice(parts), behind)) for opening, parts in by_opening.items()])

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], least: int = 0, most: int | None = None
    ) -> Expression:
        """Give parameters whose names are free."""
        head = self._opening(KEY_PLACEHOLDER, "string").partition(KEY_PLACEHOLDER)[0]
        openings = (
            (self._opening(KEY_PLACEHOLDER, kind).partition(KEY_PLACEHOLDER)[2], value) for kind, value in values
        )
        branches = [(opening, series(value, LiteralText(self._value_suffix))) for opening, value in openings]
        value = rules.share(one_of_texts(branches))
        part = rules.share(series(LiteralText(head), identifier_key(rules), value))
        return self.arguments.with_free_keys(part, least, most, rules)

    def any_argument(self, rules: Rules) -> list[TypedExpression]:
        """Give any value; where nothing tells text from JSON, text is both."""
        return super().any_argument(rules) if self.distinguishes_strings else [("string", self._raw_strings.any(rules))]

    def _opening(self, key: str, kind: str) -> str:
        return self._spelling.tags.parameter_opening(key, _SAMPLE_VALUES[kind]) + self._value_prefix


class ElementSyntax(TaggedSyntax):
    """Elements in elements: an object has one for each member, an array one for each item, a leaf is raw text.

    What has free keys is written as a leaf of JSON: its closing tags could not be told.
    """

    array = members = Brackets("", EMPTY, "")
    ambiguous_empties = True

    def __init__(self, spelling: CompiledTags, value_prefix: str, value_suffix: str) -> None:
        """Take, as `behind`, the closing tag with a mark for the key."""
        super().__init__(spelling, value_prefix, value_suffix)
        self._json = _JsonInElements(self.strings)
        self.strings = self._raw_strings

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value as a leaf."""
        return super().literal(value, argument=True)

    def item(self, value: Expression) -> Expression:
        """Write an element of an array."""
        return self._element("item", value)

    def can_write_key(self, key: str, *, argument: bool) -> bool:  # noqa: ARG002 - both are alike
        """Say whether a key fits into a tag."""
        return _PLAIN_KEY.fullmatch(key) is not None

    def member(self, key: str, value: Expression) -> Expression:
        """Write a member."""
        return self._element(key, value)

    def argument(self, key: str, values: Sequence[TypedExpression]) -> Expression:
        """Write an argument as any member."""
        return self.member(key, choice(value for _, value in values))

    def map_of(self, rules: Rules, value: Expression, least: int = 0, most: int | None = None) -> Expression:
        """Give an object whose keys are free, of values as `in_maps` writes them."""
        return self._json.map_of(rules, value, least, most)

    def free_arguments(
        self, rules: Rules, values: Sequence[TypedExpression], least: int = 0, most: int | None = None
    ) -> Expression:
        """Give arguments whose names are free, all of them as one object."""
        return self.map_of(rules, choice(value for _, value in values), least, most)

    @property
    def map_value_syntax(self) -> ValueSyntax:
        """JSON."""
        return self._json

    @property
    def union_syntax(self) -> ValueSyntax:
        """JSON: of elements it must be known what they mean while they come."""
        return self._json

    def any_value(self, rules: Rules) -> Expression:
        """Give any text: it may be JSON."""
        return self._raw_strings.any(rules)

    def any_argument(self, rules: Rules) -> list[TypedExpression]:
        """Give the same."""
        return [("string", self._raw_strings.any(rules))]

    def _element(self, key: str, value: Expression) -> Expression:
        return series(
            LiteralText(self._opening(key, "string")),
            value,
            LiteralText(self._value_suffix.replace(KEY_PLACEHOLDER, key)),
        )


class _JsonInElements(ValueSyntax):
    def __init__(self, strings: StringSyntax) -> None:
        self.strings = strings
