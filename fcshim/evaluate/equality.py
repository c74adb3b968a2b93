"""When two JSON values are the same: numbers by value, objects whatever the order, what a schema has by default.

Rule: strings are equal to the character; 1 is 1.0 and is not true.
Neighbours: `scoring` compares calls by this.
"""

import json

from fcshim.events import JSON


def canonical(value: JSON) -> str:
    """Give a text that is the same for the same values."""
    return json.dumps(_normalize_numbers(value), sort_keys=True, ensure_ascii=False)


def fill_defaults(value: JSON, schema: JSON) -> JSON:
    """Give the value with what its schema has by default where it says nothing, inside objects and arrays too."""
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
