"""Validate a value against a tool's JSON Schema.

Rule: the work is bounded for every schema; no remote reference is fetched; an unusable schema admits everything.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from fcshim.events import JSON

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MAX_REFERENCES = 10_000
"""References followed for one value: a hostile schema doubles them at each step with `allOf`."""
_MAX_NESTED_REFERENCES = 64
"""Nesting of references, which stops one that refers to itself. The interpreter's own recursion limit is no safe stop:
there, the validator's native parts abort the process instead of raising an error."""


class ReferenceLimitError(Exception):
    """The references of the schema exceed a limit."""


class SchemaViolation(msgspec.Struct, frozen=True):
    """One violation: its path, the keyword and schema that it violates, and the invalid value."""

    path: str
    keyword: str
    expected: JSON
    value: JSON
    schema: dict[str, JSON]
    message: str


def first_violation(schema: JSON, value: JSON) -> str | None:
    """Return the best description of why `value` is invalid, with its path, or None where it is valid.

    An empty or unusable schema admits everything. `pattern` and `patternProperties` are not checked: a client's regular
    expression can backtrack catastrophically, and Python cannot interrupt a match.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - it costs 50 ms, and most parsers never need it

    error = best_match(_find_errors(schema, value, None))
    return None if error is None else f"{error.json_path}: {error.message}"


def find_violations(schema: JSON, value: JSON, limit: int = 20) -> list[SchemaViolation]:
    """Return up to `limit` violations, found as in `first_violation`; paths are like `a.b[0]`."""
    return [
        SchemaViolation(
            path=error.json_path.removeprefix("$").removeprefix("."),
            keyword=str(error.validator),
            expected=error.validator_value,
            value=error.instance,
            schema=error.schema if isinstance(error.schema, dict) else {},
            message=error.message,
        )
        for error in _find_errors(schema, value, limit)
    ]


def _find_errors(schema: JSON, value: JSON, limit: int | None) -> "list[ValidationError]":
    if not isinstance(schema, dict) or not schema:
        return []
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    follow = BoundedReferences(Draft202012Validator.VALIDATORS["$ref"])
    keywords = {
        "pattern": _skip_keyword,
        "patternProperties": _skip_keyword,
        "$ref": follow,
        "$dynamicRef": _skip_keyword,
    }
    validator = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call] # its stub has no types
    try:
        Draft202012Validator.check_schema(schema)
        return list(islice(validator(schema).iter_errors(value), limit))
    except (SchemaError, Unresolvable, ReferenceLimitError, RecursionError):
        return []


class BoundedReferences:
    """The keyword `$ref` of a validator, with limits; raises `ReferenceLimitError` beyond them."""

    def __init__(self, keyword: JSON) -> None:
        self._keyword = keyword
        self._remaining = _MAX_REFERENCES
        self._depth = 0

    def __call__(self, validator: JSON, reference: JSON, value: JSON, schema: JSON) -> Iterator[JSON]:
        """Yield the errors of `value` under the referenced schema."""
        self._remaining -= 1
        if self._remaining < 0 or self._depth == _MAX_NESTED_REFERENCES:
            raise ReferenceLimitError
        self._depth += 1
        try:
            yield from self._keyword(validator, reference, value, schema)
        finally:
            self._depth -= 1


def _skip_keyword(_validator: JSON, _keyword: JSON, _value: JSON, _schema: JSON) -> Iterator[JSON]:
    return iter(())
