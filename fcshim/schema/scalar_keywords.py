"""The keywords of JSON Schema that look at one value only: numbers, sizes and types.

Rule: each returns why the value violates it, or None; an operand of the wrong kind is never passed in.
"""

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

from fcshim.events import JSON
from fcshim.schema.excerpt import excerpt

ScalarCheck = Callable[[JSON, JSON], str | None]
"""Takes the operand and the value; returns the message without the value's excerpt."""
_Sized: TypeAlias = type[str | list[JSON] | dict[str, JSON]]


def is_number(value: JSON) -> bool:
    """Return whether it is a finite number."""
    return _is_numeric(value) and (isinstance(value, int) or math.isfinite(value))


def is_count(value: JSON) -> bool:
    """Return whether it is a size: an integer that is not negative, also as 5.0."""
    if isinstance(value, float):
        return value.is_integer() and value >= 0
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_of_type(value: JSON, name: str) -> bool:
    """Return whether the value is of a type; 5.0 is an integer, as since draft 6."""
    return _TYPE_CHECKS[name](value)


def type_names(operand: JSON) -> list[str]:
    """Return the names in the keyword `type`."""
    return [operand] if isinstance(operand, str) else operand


def names_types(operand: JSON) -> bool:
    """Return whether the operand of `type` names known types only."""
    names = [operand] if isinstance(operand, str) else operand
    return isinstance(names, list) and all(isinstance(name, str) and name in _TYPE_CHECKS for name in names)


def _is_numeric(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPE_CHECKS: Final[dict[str, Callable[[JSON], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_numeric(value) and (isinstance(value, int) or value.is_integer()),
    "number": _is_numeric,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _check_type(operand: JSON, value: JSON) -> str | None:
    names = type_names(operand)
    if any(is_of_type(value, name) for name in names):
        return None
    return f"is not of type {', '.join(map(repr, names))}"


def _number_check(violates: Callable[[JSON, JSON], bool], message: str) -> ScalarCheck:
    def check(operand: JSON, value: JSON) -> str | None:
        return f"{message} {operand!r}" if _is_numeric(value) and violates(value, operand) else None

    return check


def _least_size(kind: _Sized, message: str) -> ScalarCheck:
    def check(operand: JSON, value: JSON) -> str | None:
        if not isinstance(value, kind) or len(value) >= operand:
            return None
        return "should be non-empty" if operand == 1 else message

    return check


def _greatest_size(kind: _Sized, message: str) -> ScalarCheck:
    def check(operand: JSON, value: JSON) -> str | None:
        if not isinstance(value, kind) or len(value) <= operand:
            return None
        return "is expected to be empty" if operand == 0 else message

    return check


def _is_no_multiple(value: JSON, divisor: JSON) -> bool:
    if isinstance(value, int) and isinstance(divisor, int):
        return bool(value % divisor)
    try:
        quotient = value / divisor
        return bool(int(quotient) != quotient)
    except OverflowError:  # beyond a double's range, exact fractions decide; infinity is a multiple of nothing
        return not is_number(value) or (Fraction(value) / Fraction(divisor)).denominator != 1


SCALAR_KEYWORDS: Final[dict[str, tuple[Callable[[JSON], bool], ScalarCheck]]] = {
    "type": (names_types, _check_type),
    "multipleOf": (
        lambda operand: is_number(operand) and operand > 0,
        _number_check(_is_no_multiple, "is not a multiple of"),
    ),
    "minimum": (is_number, _number_check(operator.lt, "is less than the minimum of")),
    "maximum": (is_number, _number_check(operator.gt, "is greater than the maximum of")),
    "exclusiveMinimum": (is_number, _number_check(operator.le, "is less than or equal to the minimum of")),
    "exclusiveMaximum": (is_number, _number_check(operator.ge, "is greater than or equal to the maximum of")),
    "minLength": (is_count, _least_size(str, "is too short")),
    "maxLength": (is_count, _greatest_size(str, "is too long")),
    "minItems": (is_count, _least_size(list, "is too short")),
    "maxItems": (is_count, _greatest_size(list, "is too long")),
    "minProperties": (is_count, _least_size(dict, "does not have enough properties")),
    "maxProperties": (is_count, _greatest_size(dict, "has too many properties")),
}
"""Of each keyword: what its operand must be, and its check."""


def scalar_message(value: JSON, reason: str) -> str:
    """Return the whole message of a violation."""
    return f"{excerpt(value)} {reason}"
