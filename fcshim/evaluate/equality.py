"""Equality of JSON values: numbers by value, objects in any order, with the defaults of a schema filled in.

Rule: strings are compared exactly; 1 equals 1.0, but not true.
"""

import json

from fcshim.events import JSON


def canonical(value: JSON) -> str:
    """Return a text that is equal for equal values."""
    return json.dumps(_normalize_numbers(value), sort_keys=True, ensure_ascii=False)


def fill_defaults(value: JSON, schema: JSON) -> JSON:
    """Return the value with the defaults of its schema filled in, also inside objects and arrays."""
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        return _fill_object(value, schema.get("properties") or {})
    if isinstance(value, list):
        return [fill_defaults(item, schema.get("items")) for item in value]
    return value


def _fill_object(value: dict[str, JSON], properties: dict[str, JSON]) -> dict[str, JSON]:
    defaults = {key: each["default"] for key, each in properties.items() if "default" in each}
    return defaults | {key: fill_defaults(item, properties.get(key)) for key, item in value.items()}


def _normalize_numbers(value: JSON) -> JSON:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _normalize_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]
    return value
