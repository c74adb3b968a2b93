"""Check a value against a tool's JSON Schema.

Rule: bounded work whatever the schema says; no remote reference is fetched; an unusable schema checks nothing.
Neighbours: the parser in `validated` mode, the tool registry.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from fcshim.events import JSON

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_MAX_REFERENCES = 10_000
"""References followed for one value: under `allOf` they double at each step."""
_MAX_NESTED_REFERENCES = 64
"""References inside one another: one that leads to itself ends here, far from the interpreter's own limit, at which the
validator's native parts abort instead of raising an error."""


class ReferenceLimitError(Exception):
    """The schema's references do not end, or not soon enough."""


class SchemaViolation(msgspec.Struct, frozen=True):
    """One thing that is wrong: where, by which keyword of which schema, and with what."""

    path: str
    keyword: str
    expected: JSON
    value: JSON
    schema: dict[str, JSON]
    message: str


def first_violation(schema: JSON, value: JSON) -> str | None:
    """Say what is wrong with `value`, with the path to it, or None.

    An empty or unusable schema admits everything. `pattern` and `patternProperties` are not checked: a client's regular
    expression can take for ever, and Python's cannot be stopped.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - it costs 50 ms, and most parsers never need it

    fault = best_match(_find_errors(schema, value, None))
    return None if fault is None else f"{fault.json_path}: {fault.message}"


def find_violations(schema: JSON, value: JSON, limit: int = 20) -> list[SchemaViolation]:
    """Give up to `most` things that are wrong with `value`, as `first_fault` finds them; paths are like `a.b[0]`."""
    return [
        SchemaViolation(
            path=fault.json_path.removeprefix("$").removeprefix("."),
            keyword=str(fault.validator),
            expected=fault.validator_value,
            value=fault.instance,
            schema=fault.schema if isinstance(fault.schema, dict) else {},
            message=fault.message,
        )
        for fault in _find_errors(schema, value, limit)
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
    """The keyword `$ref` of a validator, as far as it leads in bounded time; raises `EndlessError` beyond."""

    def __init__(self, keyword: JSON) -> None:
        self._keyword = keyword
        self._remaining = _MAX_REFERENCES
        self._depth = 0

    def __call__(self, validator: JSON, reference: JSON, value: JSON, schema: JSON) -> Iterator[JSON]:
        """Give the faults of `value` by the schema that is referred to."""
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
