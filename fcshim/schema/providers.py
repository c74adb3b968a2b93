"""Convert the schemas of tools to what each provider accepts, because providers reject unknown keywords.

Rule: the result admits every value that the original admits: a keyword is dropped rather than changed in meaning. The
caller must have limited the nesting, because these functions recurse.
"""

from collections.abc import Iterator, Sequence

from fcshim.events import JSON

_UNION_KEYWORDS = ("anyOf", "oneOf")
_NOT_AT_TOP_LEVEL = frozenset([*_UNION_KEYWORDS, "allOf", "not", "enum", "const", "if", "then", "else"])
_GEMINI_KEYWORDS = frozenset(
    [
        "$ref", "$defs", "$id", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
        "minItems", "maxItems", "minimum", "maximum", "anyOf", "properties", "additionalProperties", "required",
        "propertyOrdering",
    ]
)  # fmt: skip
"""The JSON Schema keywords that Gemini documents for `parametersJsonSchema`."""
_SCHEMA_MAP_KEYWORDS = frozenset(["properties", "$defs", "definitions", "patternProperties", "dependentSchemas"])
_SCHEMA_LIST_KEYWORDS = frozenset([*_UNION_KEYWORDS, "allOf", "prefixItems"])
_SCHEMA_KEYWORDS = frozenset(
    ["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"]
)


def as_object(schema: JSON) -> dict[str, JSON]:
    """Return a schema with a plain object at the top level, which OpenAI, Anthropic and Ollama require of a tool.

    Alternatives at the top level become one object with the properties of all of them; required are those that every
    alternative requires.
    """
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}}
    if schema.get("type") == "object" and not schema.keys() & _NOT_AT_TOP_LEVEL:
        return schema
    kept = {name: value for name, value in schema.items() if name not in _NOT_AT_TOP_LEVEL and name != "type"}
    parts = _schemas(schema, "allOf")
    # A union of which no branch is a schema admits anything.
    groups = [_schemas(schema, name) or [{}] for name in _UNION_KEYWORDS if name in schema]
    if not parts and not groups:
        return {"type": "object", "properties": {}, **kept}
    return {"type": "object", **kept, **_merge(schema, parts, groups)}


def _merge(
    schema: dict[str, JSON], parts: Sequence[dict[str, JSON]], groups: Sequence[list[dict[str, JSON]]]
) -> dict[str, JSON]:
    properties: dict[str, JSON] = {}
    for part in (schema, *parts, *(each for group in groups for each in group)):
        for name, value in _dict(part, "properties").items():
            known = properties.setdefault(name, value)
            if known != value:
                properties[name] = {"anyOf": [known, value]}
    required = [name for part in (schema, *parts) for name in _strings(part, "required")]
    for group in groups:
        required += [
            name for name in _strings(group[0], "required") if all(name in _strings(g, "required") for g in group)
        ]
    merged: dict[str, JSON] = {"properties": properties}
    return {**merged, "required": list(dict.fromkeys(required))} if required else merged


def for_gemini(schema: JSON) -> JSON:
    """Return a schema with only the keywords that Gemini documents; `const` becomes `enum`, `oneOf` becomes `anyOf`."""
    if not isinstance(schema, dict):
        return schema
    known = dict(schema)
    if "const" in known:
        known["enum"] = [known.pop("const")]
    if "oneOf" in known and "anyOf" not in known:
        known["anyOf"] = known.pop("oneOf")
    if "patternProperties" in known:
        known.pop("additionalProperties", None)  # without the patterns it would reject the keys that they admit
    if "definitions" in known and "$defs" not in known:
        known["$defs"] = known.pop("definitions")
    return {name: _convert_for_gemini(name, value) for name, value in known.items() if name in _GEMINI_KEYWORDS}


def _convert_for_gemini(name: str, value: JSON) -> JSON:
    if name == "$ref" and isinstance(value, str):
        return value.replace("#/definitions/", "#/$defs/")
    if name in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        return {key: for_gemini(inner) for key, inner in value.items()}
    if name in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
        return [for_gemini(inner) for inner in value]
    return for_gemini(value) if name in _SCHEMA_KEYWORDS else value


def is_closed(schema: JSON, *, all_required: bool) -> bool:
    """Return whether every object in a schema forbids additional properties, and with `all_required` requires its own.

    OpenAI (`all_required`) and Anthropic require this of strict tools and reject strict tools with other schemas.
    """
    for each in _object_schemas(schema):
        optional = set(_dict(each, "properties")) - set(_strings(each, "required"))
        if each.get("additionalProperties") is not False or (all_required and optional):
            return False
    return True


def _object_schemas(schema: JSON) -> Iterator[dict[str, JSON]]:
    """Yield every schema inside `schema` that describes an object."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object" or "properties" in schema:
        yield schema
    for name, value in schema.items():
        if name in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
            inner: list[JSON] = list(value.values())
        elif name in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
            inner = value
        else:
            inner = [value] if name in _SCHEMA_KEYWORDS else []
        for each in inner:
            yield from _object_schemas(each)


def _schemas(schema: dict[str, JSON], name: str) -> list[dict[str, JSON]]:
    value = schema.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _dict(schema: dict[str, JSON], name: str) -> dict[str, JSON]:
    value = schema.get(name)
    return value if isinstance(value, dict) else {}


def _strings(schema: dict[str, JSON], name: str) -> list[str]:
    value = schema.get(name)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
