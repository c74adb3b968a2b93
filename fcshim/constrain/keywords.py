"""The combined keywords of one alternative of a schema: kinds, bounds, members, elements.

Rule: a malformed keyword is ignored; keywords that the grammar cannot express are listed by `relaxed_keywords`.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from fcshim.constrain.conditions import NOT_CONTAINED
from fcshim.constrain.members import (
    NAME_KEYWORDS,
    name_schemas,
    named_members,
    other_members,
    relaxed_name_keywords,
    required_members,
)
from fcshim.constrain.numbers import Bound
from fcshim.constrain.subschemas import first_elements, list_of
from fcshim.constrain.unevaluated import NOT_EVALUATED
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative
from fcshim.schema.node import has_lone_surrogate

EXPRESSIBLE = frozenset(
    [
        "type", "enum", "const", "properties", "additionalProperties", "required", "minProperties", "maxProperties",
        "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "format", "pattern",
        "minLength", "maxLength",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", *NAME_KEYWORDS,
    ]
)  # fmt: skip
"""Keywords that the grammar can express, at least in some forms."""
_INEXPRESSIBLE = frozenset(
    [
        "not", "if", "dependentRequired", "dependentSchemas", "dependencies",
        "unevaluatedProperties", "unevaluatedItems", "$dynamicRef",
    ]
)  # fmt: skip
_BOUND_KEYWORDS = frozenset(
    ["minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
)
RELAXED = frozenset({*_INEXPRESSIBLE, *NAME_KEYWORDS, NOT_EVALUATED})
"""Keywords that the grammar does not enforce, or only in some forms."""
KINDS = ("string", "integer", "number", "boolean", "null", "array", "object")
KIND_OF: dict[type, str] = {
    bool: "boolean",
    type(None): "null",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
"""The kind of a Python value."""
_UNBOUNDED = 10**15
"""A bound beyond this is ignored: unbounded numbers are written with at most 15 digits."""
_EXCLUSIVE_GAP = Fraction(1, 100)
"""Distance of the numbers that are written from an exclusive bound; less where the bounds are closer."""


def relaxed_keywords(part: dict[str, JSON]) -> list[str]:
    """Return the keywords of a part that the grammar does not enforce."""
    if RELAXED.isdisjoint(part):
        return []
    found = {*_INEXPRESSIBLE.intersection(part), *relaxed_name_keywords(part)}
    return sorted(found - {"not"} if excluded_texts(part) else found)


def excluded_texts(part: dict[str, JSON]) -> list[str]:
    """Return the strings that a part lists as those that a string is not; none where its `not` says anything else."""
    match part.get("not"):
        case {"enum": [*values], **others} if not others and all(isinstance(value, str) for value in values):
            return values
    return []


class Contained(NamedTuple):
    """The schemas of the elements that `contains` counts and of the others, and how many of the first there may be."""

    schemas: tuple[JSON, ...]
    others: tuple[JSON, ...]
    least: int
    most: int | None


class Keywords:
    """One alternative: schemas that apply together, with unions and references resolved."""

    def __init__(self, parts: Alternative) -> None:
        self._parts = parts
        self.kinds = set(KINDS)
        self.values: list[JSON] | None = None
        for part in parts:
            self._narrow(part)

    def _narrow(self, part: dict[str, JSON]) -> None:
        types = part.get("type")
        names = {types} if isinstance(types, str) else {name for name in list_of(types) if isinstance(name, str)}
        if names and names <= {*KINDS, "any"} and "any" not in names:
            self.kinds &= names | ({"integer"} if "number" in names else set())
        listed = part.get("enum")
        for values in [listed if isinstance(listed, list) and listed else None, _const(part)]:
            if self.values is None:
                self.values = values
            elif values is not None:
                known = set(map(equality_key, values))
                self.values = [value for value in self.values if equality_key(value) in known]

    @cached_property
    def literals(self) -> list[JSON] | None:
        """The values of `enum` and `const` that satisfy the other keywords; None where there is neither."""
        if self.values is None:
            return None
        excluded = self.excluded_texts
        kept = [
            value
            for value in self.values
            if _kinds_of(value) & self.kinds
            and not (isinstance(value, str) and (has_lone_surrogate(value) or value in excluded))
        ]
        has_bounds = any(not _BOUND_KEYWORDS.isdisjoint(part) for part in self._parts)
        return [value for value in kept if self._within_bounds(value)] if has_bounds else kept

    def _within_bounds(self, value: JSON) -> bool:
        """Return whether a string satisfies the length keywords, or a number the numeric ones."""
        if isinstance(value, str):
            maximum = self.upper_bound("maxLength")
            return self.lower_bound("minLength") <= len(value) and (maximum is None or len(value) <= maximum)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return not is_number or self.numbers.admit(Fraction(repr(value)))

    @property
    def possible_kinds(self) -> set[str]:
        """The kinds that a value may have."""
        return self.kinds if self.literals is None else {KIND_OF[type(value)] for value in self.literals}

    # Strings and numbers.

    def lower_bound(self, keyword: str) -> int:
        """Return the effective minimum, the largest value of a count keyword, or 0."""
        return max((math.ceil(number) for number in _numbers(self._parts, keyword) if number > 0), default=0)

    def upper_bound(self, keyword: str) -> int | None:
        """Return the effective maximum, the smallest value of a count keyword, or None."""
        return min((math.floor(number) for number in _numbers(self._parts, keyword) if number >= 0), default=None)

    def string_format(self) -> str:
        """Return the first `format`, or an empty text."""
        return next((part["format"] for part in self._parts if isinstance(part.get("format"), str)), "")

    @property
    def excluded_texts(self) -> set[str]:
        """The strings that a string must not be."""
        return {text for part in self._parts for text in excluded_texts(part)}

    def patterns(self) -> list[str]:
        """Return the distinct patterns that a string must match."""
        found = (part["pattern"] for part in self._parts if isinstance(part.get("pattern"), str))
        return list(dict.fromkeys(found))

    @cached_property
    def numbers(self) -> "NumberLimits":
        """The numbers that are allowed."""
        return _number_limits(self._parts)

    # Objects.

    @cached_property
    def members(self) -> dict[str, tuple[JSON, ...]]:
        """The named members that are allowed, each with its schemas, in schema order."""
        return named_members(self._parts)

    @property
    def relaxes_names(self) -> bool:
        """Whether a keyword about names is not enforced beside named members."""
        return bool(self.name_schemas) or any(map(relaxed_name_keywords, self._parts))

    @cached_property
    def name_schemas(self) -> list[tuple[str, dict[str, JSON]]]:
        """What names must be that are not listed: the keywords that say so, each with a schema of strings."""
        return name_schemas(self._parts)

    @property
    def all_names(self) -> set[str]:
        """The names that the schema names, also those of members that it forbids."""
        named = (part.get("properties") for part in self._parts)
        return {*self.required, *self.members, *(key for names in named if isinstance(names, dict) for key in names)}

    @cached_property
    def other_members(self) -> tuple[JSON, ...] | None:
        """The schemas of members that are not named; None where such members are not allowed."""
        return other_members(self._parts)

    @property
    def required(self) -> list[str]:
        """The names of the required members."""
        return required_members(self._parts)

    @property
    def required_values(self) -> dict[str, list[JSON]]:
        """The values that `enum` or `const` lists for required members, as far as the parts say so themselves."""
        found: dict[str, list[JSON]] = {}
        for key in self.required:
            for part in self._parts:
                properties = part.get("properties")
                member = properties.get(key) if isinstance(properties, dict) else None
                if isinstance(member, dict) and (listed := _const(member) or list_of(member.get("enum"))):
                    found[key] = listed
        return found

    # Arrays.

    def elements(self) -> tuple[list[tuple[JSON, ...]], tuple[JSON, ...] | None]:
        """Return the schemas of each `prefixItems` element, and those of further elements; None allows no further."""
        fixed = max((len(first_elements(part)) for part in self._parts), default=0)
        first = [tuple(_element(part, at) for part in self._parts) for at in range(fixed)]
        rest = tuple(_element(part, fixed) for part in self._parts)
        return first, None if any(schema is False for schema in rest) else rest

    def contained(self) -> Contained | None:
        """Return what an array contains; None without `contains`, and with several of them or a `prefixItems`."""
        found = [part for part in self._parts if "contains" in part]
        first, rest = self.elements()
        if len(found) != 1 or first or not self.counts_contained():
            return None
        part, most, others = found[0], self.upper_bound("maxContains"), rest or ()
        least = 0 if part.get("minContains") == 0 else self.lower_bound("minContains") or 1
        if NOT_CONTAINED not in part:
            return Contained((part["contains"], *others), others, least, None) if least else None
        return Contained((part["contains"], *others), (part[NOT_CONTAINED], *others), least, most)

    def counts_contained(self) -> bool:
        """Return whether an array must contain elements of one schema, or may contain only so many."""
        found = [part for part in self._parts if "contains" in part]
        return self.limits_contained() or any(part.get("minContains") != 0 for part in found)

    def limits_contained(self) -> bool:
        """Return whether an array may contain only so many elements of one schema."""
        return any("contains" in part and "maxContains" in part for part in self._parts)

    def is_unique(self) -> bool:
        """Return whether elements must be distinct."""
        return any(part.get("uniqueItems") is True for part in self._parts)


@dataclass(frozen=True, slots=True)
class NumberLimits:
    """The numbers that several schemas admit together: the effective values of the numeric keywords."""

    low: Fraction | None
    above: Fraction | None
    high: Fraction | None
    below: Fraction | None
    step: Fraction | None
    """The effective `multipleOf`."""

    def admit(self, number: Fraction) -> bool:
        """Return whether a number satisfies all keywords."""
        return (
            (self.low is None or number >= self.low)
            and (self.above is None or number > self.above)
            and (self.high is None or number <= self.high)
            and (self.below is None or number < self.below)
            and (self.step is None or (number / self.step).denominator == 1)
        )

    def ends(self, *, whole: bool) -> tuple[Fraction | None, Fraction | None]:
        """Return the smallest and the largest number to write, None where unbounded; `whole` means integers."""
        low, above, high, below = self.low, self.above, self.high, self.below
        ends = [end for end in (low, above) if end is not None], [end for end in (high, below) if end is not None]
        gap = min(ends[1]) - max(ends[0]) if all(ends) else Fraction(1)
        step = min(_EXCLUSIVE_GAP, gap / 1000) if gap > 0 else _EXCLUSIVE_GAP
        if above is not None and (low is None or above >= low):
            low = Fraction(math.floor(above) + 1) if whole else above + step
        if below is not None and (high is None or below <= high):
            high = Fraction(math.ceil(below) - 1) if whole else below - step
        return (
            None if low is not None and low <= -_UNBOUNDED else low,
            None if high is not None and high >= _UNBOUNDED else high,
        )

    def bounds(self) -> tuple[Bound | None, Bound | None]:
        """Return the lower and the upper bound, None where unbounded."""
        lowest = max(_bounds(self.low, self.above), key=lambda bound: (bound.value, bound.is_open), default=None)
        highest = max(_bounds(self.high, self.below), key=lambda bound: (-bound.value, bound.is_open), default=None)
        return (
            None if lowest is not None and lowest.value <= -_UNBOUNDED else lowest,
            None if highest is not None and highest.value >= _UNBOUNDED else highest,
        )


def _number_limits(parts: Alternative) -> NumberLimits:
    low, high = max(_numbers(parts, "minimum"), default=None), min(_numbers(parts, "maximum"), default=None)
    above = max(_numbers(parts, "exclusiveMinimum"), default=None)
    below = min(_numbers(parts, "exclusiveMaximum"), default=None)
    for part in parts:  # draft 4: a boolean that makes `minimum` or `maximum` exclusive
        above = low if part.get("exclusiveMinimum") is True else above
        below = high if part.get("exclusiveMaximum") is True else below
    steps = [number for number in _numbers(parts, "multipleOf") if number > 0]
    denominator = math.lcm(*(number.denominator for number in steps))
    step = Fraction(math.lcm(*(int(number * denominator) for number in steps)), denominator) if steps else None
    return NumberLimits(low, above, high, below, step)


def _numbers(parts: Alternative, keyword: str) -> Iterator[Fraction]:
    for part in parts:
        value = part.get(keyword)
        if isinstance(value, int) and not isinstance(value, bool):
            yield Fraction(value)
        elif isinstance(value, float) and math.isfinite(value):
            yield Fraction(repr(value))


def _bounds(closed: Fraction | None, opened: Fraction | None) -> list[Bound]:
    both = Bound(closed) if closed is not None else None, Bound(opened, is_open=True) if opened is not None else None
    return [bound for bound in both if bound is not None]


def _const(part: dict[str, JSON]) -> list[JSON] | None:
    return [part["const"]] if "const" in part else None


def equality_key(value: JSON) -> tuple[str, JSON]:
    """Return a key that is equal for equal JSON values: 1 equals 1.0, but not true, unlike in Python."""
    if isinstance(value, list | dict):
        return "container", json.dumps(value, sort_keys=True)
    return "word" if isinstance(value, bool) else "", value


def _kinds_of(value: JSON) -> set[str]:
    kind = KIND_OF.get(type(value), "")
    finite = not isinstance(value, float) or math.isfinite(value)
    return {kind, *(["number"] if kind == "integer" else [])} if finite else set()


def _element(part: dict[str, JSON], at: int) -> JSON:
    prefix = first_elements(part)
    if at < len(prefix):
        return prefix[at]
    key = "additionalItems" if isinstance(part.get("items"), list) else "items"
    return part.get(key, True)
