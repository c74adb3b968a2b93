"""Convert Gemini's `Schema`, a subset of OpenAPI's, to JSON Schema.

Rule: upper-case types become JSON Schema types, `nullable` becomes a further type, counts written as strings (int64 in
JSON) become numbers; keywords that only order or illustrate are dropped.
"""

from fcshim.events import JSON

_COUNT_KEYWORDS = frozenset(["minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"])
_DROPPED = frozenset(["nullable", "propertyOrdering", "property_ordering", "example"])
_CAMEL_CASE: dict[str, str] = {
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "min_length": "minLength",
    "max_length": "maxLength",
    "any_of": "anyOf",
    "additional_properties": "additionalProperties",
    "defs": "$defs",
    "ref": "$ref",
}


def from_openapi(schema: JSON) -> JSON:
    """Return the JSON Schema. The caller must have limited the nesting of `schema`, because this recurses."""
    if not isinstance(schema, dict):
        return schema
    result: dict[str, JSON] = {}
    for given, value in schema.items():
        name: JSON = _CAMEL_CASE.get(given, given)
        if name not in _DROPPED:
            result[name] = _convert(name, value)
    if schema.get("nullable") is True:
        _admit_null(result)
    return result


def _convert(name: str, value: JSON) -> JSON:
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in ("items", "additionalProperties"):
        return from_openapi(value)
    if name in ("properties", "$defs") and isinstance(value, dict):
        return {key: from_openapi(inner) for key, inner in value.items()}
    if name == "anyOf" and isinstance(value, list):
        return [from_openapi(inner) for inner in value]
    if name in _COUNT_KEYWORDS and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value


def _admit_null(schema: dict[str, JSON]) -> None:
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
