"""Check a value against a tool's JSON Schema.

Rule: bounded work whatever the schema says; no remote reference is fetched; an unusable schema checks nothing.
Neighbours: the parser in `validated` mode, the tool registry.
"""

from collections.abc import Iterator

from fcshim.events import JSON


def first_fault(schema: JSON, value: JSON) -> str | None:
    """Say what is wrong with `value`, with the path to it, or None.

    An empty or unusable schema admits everything. `pattern` and `patternProperties` are not checked: a client's regular
    expression can take for ever, and Python's cannot be stopped.
    """
    if not isinstance(schema, dict) or not schema:
        return None
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - it costs 50 ms, and most parsers never need it
    from jsonschema.exceptions import SchemaError, best_match  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    unchecked = {"pattern": _unchecked, "patternProperties": _unchecked}
    validator = extend(Draft202012Validator, unchecked)  # type: ignore[no-untyped-call] # its stub has no types
    try:
        Draft202012Validator.check_schema(schema)
        fault = best_match(validator(schema).iter_errors(value))
    except (SchemaError, Unresolvable, RecursionError):
        return None
    return None if fault is None else f"{fault.json_path}: {fault.message}"


def _unchecked(_validator: JSON, _keyword: JSON, _value: JSON, _schema: JSON) -> Iterator[JSON]:
    return iter(())
