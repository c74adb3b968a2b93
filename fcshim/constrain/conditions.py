"""Writes the conditions of a schema (`not`, `if`, `dependentRequired`, ...) as unions, which a grammar can express.

Rule: the result admits the same values, and every schema that a pointer can name stays in its place. What cannot be
written as a union stays as it is, and the grammar notes it.
"""

from collections.abc import Iterator

from fcshim.events import JSON

_TYPES = ("string", "number", "boolean", "null", "array", "object")
_MAX_DEPTH = 64
"""Nesting of schemas that is rewritten; deeper ones are too deep for the grammar, too."""
_MAX_DEPENDENCIES = 6
"""Names of one schema on which others depend: each doubles the alternatives."""
_ONE = ("items", "additionalProperties", "additionalItems", "propertyNames", "contains", "not", "if", "then", "else")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_MAX_COMPLEMENT_DEPTH = 8
"""Nesting of a schema whose complement is written."""
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_OPPOSITE_BOUNDS = {
    "minimum": "exclusiveMaximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum",
    "exclusiveMaximum": "minimum",
}
_COUNTED = {"Length": "string", "Items": "array", "Properties": "object"}
_CONDITIONS = frozenset({"not", "if", "dependentRequired", "dependentSchemas", "dependencies"})


def with_unions(schema: JSON, depth: int = 0) -> JSON:
    """Return the schema with its conditions as unions; the object itself where it has none."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return schema
    changed = {key: new for key, new in _inner(schema, depth + 1) if new is not schema[key]}
    schema = {**schema, **changed} if changed else schema
    if _CONDITIONS.isdisjoint(schema):
        return schema
    rest, unions = dict(schema), list[JSON]()
    for condition in (_negation, _branches, _dependencies):
        unions += condition(rest)
    before = rest.get("allOf")
    return {**rest, "allOf": [*(before if isinstance(before, list) else []), *unions]} if unions else rest


def _inner(schema: dict[str, JSON], depth: int) -> Iterator[tuple[str, JSON]]:
    """Yield the keywords that hold schemas, each with its rewritten value, which is the same object if unchanged."""
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            members = {name: with_unions(each, depth) for name, each in value.items()}
            yield key, members if any(members[name] is not each for name, each in value.items()) else value
        elif key in _LISTS and isinstance(value, list):
            items = [with_unions(each, depth) for each in value]
            yield key, items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        elif key in _ONE:
            yield key, with_unions(value, depth)


def _negation(rest: dict[str, JSON]) -> list[JSON]:
    """Take `not` out of the schema where what it refuses can be written."""
    opposite = _complement(rest["not"]) if "not" in rest else None
    if opposite is None:
        return []
    del rest["not"]
    return [opposite]


def _branches(rest: dict[str, JSON]) -> list[JSON]:
    """Take `if` out of the schema where it is always or never true, or where both cases can be told apart."""
    condition = rest.get("if")
    then, otherwise = rest.get("then", True), rest.get("else", True)
    if condition in (True, {}):
        found: list[JSON] = [then]
    elif condition is False:
        found = [otherwise]
    elif (opposite := _opposite(rest, condition)) is not None:
        found = [{"anyOf": [{"allOf": [condition, then]}, {"allOf": [opposite, otherwise]}]}]
    elif isinstance(condition, dict) and (opposite := _complement(condition)) is not None:
        condition = {**_OPEN, **condition}  # it is about members, and does not say which there are
        found = [{"anyOf": [{"allOf": [condition, then]}, {"allOf": [opposite, otherwise]}]}]
    else:
        return []
    for key in ("if", "then", "else"):
        rest.pop(key, None)
    return found


def _opposite(rest: dict[str, JSON], condition: JSON) -> JSON:
    """Return the schema of the objects of `rest` for which the condition is false; None where it cannot be written.

    The condition is that a required member, whose values are listed, has some of them.
    """
    match condition:
        case {"properties": {**members}, **more} if len(members) == 1 and not more.keys() - {"required", "type"}:
            (name, expected) = next(iter(members.items()))
        case _:
            return None
    properties = rest.get("properties")
    listed = _values(properties.get(name) if isinstance(properties, dict) else None)
    chosen, required = _values(expected), rest.get("required")
    if listed is None or chosen is None or not isinstance(required, list) or name not in required:
        return None
    return {"properties": {name: {"enum": [each for each in listed if each not in chosen]}}, **_OPEN}


def _complement(schema: JSON, depth: int = 0) -> JSON:
    """Return the schema of all values that a schema refuses; None where it cannot be written.

    A schema with several keywords refuses what one of them refuses.
    """
    if isinstance(schema, bool):
        return not schema
    if not isinstance(schema, dict) or depth > _MAX_COMPLEMENT_DEPTH:
        return None
    found = [_refused(name, value, depth + 1) for name, value in schema.items() if name not in _ANNOTATIONS]
    return None if None in found else _any_of(found)


def _refused(keyword: str, value: JSON, depth: int) -> JSON:
    """Return the schema of the values that one keyword refuses; None where it cannot be written."""
    match keyword, value:
        case (("allOf" | "anyOf" | "not" | "properties" | "required"), _):
            return _refused_by_schemas(keyword, value, depth)
        case "type", str() | list():
            named = [value] if isinstance(value, str) else value
            # A number without a fraction is an integer, and no schema says that there is one.
            fractions = "integer" in named and "number" not in named
            return None if fractions else {"type": [kind for kind in _TYPES if kind not in named]}
        case (("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"), int() | float()):
            return None if isinstance(value, bool) else {"type": "number", _OPPOSITE_BOUNDS[keyword]: value}
        case (("minLength" | "minItems" | "minProperties"), int()):
            return value > 0 and {"type": _COUNTED[keyword[3:]], f"max{keyword[3:]}": value - 1}
        case (("maxLength" | "maxItems" | "maxProperties"), int()):
            return {"type": _COUNTED[keyword[3:]], f"min{keyword[3:]}": value + 1}
    return None


def _refused_by_schemas(keyword: str, value: JSON, depth: int) -> JSON:
    found: JSON = None
    match keyword, value:
        case "required", list() if all(isinstance(name, str) for name in value):
            found = _any_of([{"type": "object", **_without(name)} for name in value])
        case "properties", dict():
            inner = {name: _complement(each, depth) for name, each in value.items()}
            if None not in inner.values():
                found = _any_of([_with(name, each) for name, each in inner.items() if each is not False])
        case "not", bool() | dict():
            found = value
        case (("allOf" | "anyOf"), list()):
            parts = [_complement(each, depth) for each in value]
            if parts and None not in parts:
                found = _any_of(parts) if keyword == "allOf" else {"allOf": parts}
    return found


def _any_of(schemas: list[JSON]) -> JSON:
    return {"anyOf": schemas} if schemas else False


def _values(schema: JSON) -> list[JSON] | None:
    """Return the values that a schema lists; None where it does not, or where Python's equality is not JSON's."""
    if not isinstance(schema, dict):
        return None
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    return listed if isinstance(listed, list) and all(isinstance(each, str) for each in listed) else None


def _dependencies(rest: dict[str, JSON]) -> list[JSON]:
    """Take what depends on the presence of a member out of the schema: the member is absent, or the rest holds."""
    found: list[JSON] = []
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        dependents = rest.get(keyword)
        if not isinstance(dependents, dict) or len(dependents) + len(found) > _MAX_DEPENDENCIES:
            continue
        del rest[keyword]
        for name, needed in dependents.items():
            schema: JSON = {"required": needed, **_OPEN} if isinstance(needed, list) else needed
            if schema in (True, {}, {"required": [], **_OPEN}):
                continue
            found.append({"anyOf": [_without(name), {"allOf": [schema, {"required": [name], **_OPEN}]}]})
    return found


_OPEN: dict[str, JSON] = {"additionalProperties": True}
"""A schema that names members closes the object otherwise."""


def _with(name: str, schema: JSON) -> JSON:
    """Return the schema of objects with a member of a schema."""
    return {"type": "object", "properties": {name: schema}, "required": [name], **_OPEN}


def _without(name: str) -> JSON:
    """Return the schema of objects without a member."""
    return {"properties": {name: False}, **_OPEN}
