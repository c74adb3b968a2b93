"""Values as they stand between the tags of parameters: text raw, everything else as JSON, or as elements in elements.

Rule: no marker of the dialect occurs in a value, so that each ends where its closing tag stands.
Neighbours: `parse.tagged.tags` writes the tags and knows the markers, `frames` learns what stands around a value.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from fcshim.constrain.containers import Brackets
from fcshim.constrain.grammar import EMPTY, Expression, Text, choice, one_of_texts, series
from fcshim.constrain.notation import JSON_STRINGS, Notation, Value, json_text, word_key
from fcshim.constrain.rules import Rules
from fcshim.constrain.strings import LINES, Strings
from fcshim.events import JSON
from fcshim.parse.tagged.tags import CompiledTags

_SAMPLES: dict[str, JSON] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": True,
    "null": None,
    "array": [],
    "object": {},
}
MARK = "\ue000"
"""Stands for a key where one is to be filled in."""
_PLAIN_KEY = re.compile(r"[^<>\s/]{1,128}")


class TaggedNotation(Notation):
    """Each argument between tags; inside its value everything is JSON."""

    arguments = Brackets("", EMPTY, "")

    def __init__(self, spelling: CompiledTags, before: str, behind: str) -> None:
        """Take what stands between the opening tag and the value, and what stands behind the value."""
        tags = spelling.tags
        markers = tuple(filter(None, (*spelling.value_marker_kinds, tags.quote_open)))
        self._spelling = spelling
        self._before = before
        self._behind = behind
        self._raw = Strings("text", quote="", ranges=LINES, markers=markers)
        self.strings = replace(JSON_STRINGS, markers=markers)
        self.tells_text = bool(tags.parameter.type_attribute)
        """Whether the opening tag says that a value is text."""

    def strings_of(self, *, argument: bool) -> Strings:
        """Give how strings are written: raw as arguments."""
        return self._raw if argument else self.strings

    def literal(self, value: JSON, *, argument: bool) -> str | None:
        """Write one value; None where it would hold a marker."""
        text = value if argument and isinstance(value, str) else json_text(value)
        return text if self._raw.holds(text) else None

    def says(self, key: str, *, argument: bool) -> bool:
        """Say whether a key fits into the tag of a parameter, or is JSON without a marker."""
        if not argument:
            return super().says(key, argument=argument)
        found = self._spelling.read_parameter(self._opening(key, "string") + "x", 0)
        return found is not None and found is not False and found.name == key

    def argument(self, key: str, values: Sequence[Value]) -> Expression:
        """Write a parameter."""
        by_opening: dict[str, list[Expression]] = {}
        for kind, value in values:
            by_opening.setdefault(self._opening(key, kind), []).append(value)
        behind = Text(self._behind)
        return one_of_texts([(opening, series(choice(parts), behind)) for opening, parts in by_opening.items()])

    def free_arguments(
        self, rules: Rules, values: Sequence[Value], least: int = 0, most: int | None = None
    ) -> Expression:
        """Give parameters whose names are free."""
        head = self._opening(MARK, "string").partition(MARK)[0]
        openings = ((self._opening(MARK, kind).partition(MARK)[2], value) for kind, value in values)
        branches = [(opening, series(value, Text(self._behind))) for opening, value in openings]
        value = rules.share(one_of_texts(branches))
        part = rules.share(series(Text(head), word_key(rules), value))
        return self.arguments.with_free_keys(part, least, most, rules)

    def any_argument(self, rules: Rules) -> list[Value]:
        """Give any value; where nothing tells text from JSON, text is both."""
        return super().any_argument(rules) if self.tells_text else [("string", self._raw.any(rules))]

    def _opening(self, key: str, kind: str) -> str:
        return self._spelling.tags.parameter_opening(key, _SAMPLES[kind]) + self._before


class ElementsNotation(TaggedNotation):
    """Elements in elements: an object has one for each member, an array one for each item, a leaf is raw text.

    What has free keys is written as a leaf of JSON: its closing tags could not be told.
    """

    array = members = Brackets("", EMPTY, "")
    empties_blur = True

    def __init__(self, spelling: CompiledTags, before: str, behind: str) -> None:
        """Take, as `behind`, the closing tag with a mark for the key."""
        super().__init__(spelling, before, behind)
        self._json = _InElements(self.strings)
        self.strings = self._raw

    def literal(self, value: JSON, *, argument: bool) -> str | None:  # noqa: ARG002 - both are alike
        """Write one value as a leaf."""
        return super().literal(value, argument=True)

    def item(self, value: Expression) -> Expression:
        """Write an element of an array."""
        return self._element("item", value)

    def says(self, key: str, *, argument: bool) -> bool:  # noqa: ARG002 - both are alike
        """Say whether a key fits into a tag."""
        return _PLAIN_KEY.fullmatch(key) is not None

    def member(self, key: str, value: Expression) -> Expression:
        """Write a member."""
        return self._element(key, value)

    def argument(self, key: str, values: Sequence[Value]) -> Expression:
        """Write an argument as any member."""
        return self.member(key, choice(value for _, value in values))

    def map_of(self, rules: Rules, value: Expression, least: int = 0, most: int | None = None) -> Expression:
        """Give an object whose keys are free, of values as `in_maps` writes them."""
        return self._json.map_of(rules, value, least, most)

    def free_arguments(
        self, rules: Rules, values: Sequence[Value], least: int = 0, most: int | None = None
    ) -> Expression:
        """Give arguments whose names are free, all of them as one object."""
        return self.map_of(rules, choice(value for _, value in values), least, most)

    @property
    def in_maps(self) -> Notation:
        """JSON."""
        return self._json

    @property
    def in_unions(self) -> Notation:
        """JSON: of elements it must be known what they mean while they come."""
        return self._json

    def anything(self, rules: Rules) -> Expression:
        """Give any text: it may be JSON."""
        return self._raw.any(rules)

    def any_argument(self, rules: Rules) -> list[Value]:
        """Give the same."""
        return [("string", self._raw.any(rules))]

    def _element(self, key: str, value: Expression) -> Expression:
        return series(Text(self._opening(key, "string")), value, Text(self._behind.replace(MARK, key)))


class _InElements(Notation):
    def __init__(self, strings: Strings) -> None:
        self.strings = strings
