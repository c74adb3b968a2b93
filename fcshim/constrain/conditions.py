"""Writes the conditions of a schema (`not`, `if`, `dependentRequired`, ...) as unions, which a grammar can express.

Rule: the result admits the same values, and every schema that a pointer can name stays in its place. What cannot be
written as a union stays as it is, and the grammar notes it.
"""

import itertools
import math

from fcshim.constrain.subschemas import MAX_DEPTH, with_subschemas
from fcshim.constrain.unevaluated import NOT_EVALUATED
from fcshim.events import JSON

_TYPES = ("string", "number", "boolean", "null", "array", "object")
_MAX_DEPENDENCIES = 6
"""Names of one schema on which others depend: each doubles the alternatives."""
_MAX_COMPLEMENT_DEPTH = 8
"""Nesting of a schema whose complement is written."""
_MAX_OTHER_NUMBERS = 4
"""Numbers that a value is not: each divides a range."""
_TYPE_OF: dict[type, str] = {str: "string", bool: "boolean", int: "number", float: "number"}
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", NOT_EVALUATED})
_OPPOSITE_BOUNDS = {
    "minimum": "exclusiveMaximum",
    "maximum": "exclusiveMinimum",
    "exclusiveMinimum": "maximum",
    "exclusiveMaximum": "minimum",
}
_COUNTED = {"Length": "string", "Items": "array", "Properties": "object"}
_MAX_EXCLUSIVE = 16
"""Alternatives that the exclusive branches of a `oneOf` may become."""
_CONDITIONS = frozenset({"not", "if", "dependentRequired", "dependentSchemas", "dependencies", "oneOf", "maxContains"})
NOT_CONTAINED = "x-fcshim-not-contained"
"""The schema of the elements that `contains` does not count."""


def with_unions(schema: JSON, depth: int = 0) -> JSON:
    """Return the schema with its conditions as unions; the object itself where it has none."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return schema
    schema = with_subschemas(schema, lambda inner: with_unions(inner, depth + 1))
    if _CONDITIONS.isdisjoint(schema):
        return schema
    rest, unions = dict(schema), list[JSON]()
    for condition in (_negation, _branches, _dependencies, _exclusive):
        unions += condition(rest)
    if "maxContains" in rest and (others := _complement(rest.get("contains", True))) is not None:
        rest[NOT_CONTAINED] = others
    before = rest.get("allOf")
    return {**rest, "allOf": [*(before if isinstance(before, list) else []), *unions]} if unions else rest


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
        if "additionalProperties" not in condition:  # it is about members, and does not say which there are
            condition = {**condition, **_OPEN}
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
    return {"properties": {name: {"enum": [each for each in listed if each not in chosen]}}, **_UNNAMED}


def _exclusive(rest: dict[str, JSON]) -> list[JSON]:
    """Take `oneOf` out of the schema where its branches may overlap: a value satisfies one, and none of the others."""
    branches = rest.get("oneOf")
    if not isinstance(branches, list) or not 2 <= len(branches) <= _MAX_EXCLUSIVE or _are_disjoint(branches):
        return []
    opposites = [_complement(branch) for branch in branches]
    options = [[branch, *opposites[:at], *opposites[at + 1 :]] for at, branch in enumerate(branches)]
    if None in opposites or sum(_count_alternatives({"allOf": option}) for option in options) > _MAX_EXCLUSIVE:
        return []
    del rest["oneOf"]
    return [_any_of([{"allOf": option} for option in options])]


def _are_disjoint(branches: list[JSON]) -> bool:
    """Return whether the types or the listed values of the branches show that no value satisfies two."""
    types = [branch.get("type") if isinstance(branch, dict) else None for branch in branches]
    listed = [_values(branch) for branch in branches]
    if None not in listed:
        texts = [text for values in listed for text in values or ()]
        return len(set(texts)) == len(texts)
    names = [name for name in types if isinstance(name, str)]
    return len(set(names)) == len(branches) and not {"integer", "number"}.issubset(names)


def _count_alternatives(schema: JSON) -> int:
    """Return how many alternatives the unions of a schema make."""
    if not isinstance(schema, dict):
        return 1
    counts = [sum(map(_count_alternatives, schema[key])) for key in ("anyOf", "oneOf") if key in schema]
    return math.prod([*counts, *map(_count_alternatives, schema.get("allOf", ()))])


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
    found: JSON = None
    match keyword, value:
        case (("allOf" | "anyOf" | "not" | "properties" | "required"), _):
            found = _refused_by_schemas(keyword, value, depth)
        case ("const", _) | ("enum", list()):
            found = _other_values([value] if keyword == "const" else value)
        case "type", str() | list():
            named = [value] if isinstance(value, str) else value
            # A number without a fraction is an integer, and no schema says that there is one.
            fractions = "integer" in named and "number" not in named
            found = None if fractions else {"type": [kind for kind in _TYPES if kind not in named]}
        case (("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"), int() | float()):
            found = None if isinstance(value, bool) else {"type": "number", _OPPOSITE_BOUNDS[keyword]: value}
        case (("minLength" | "minItems" | "minProperties"), int()):
            found = value > 0 and {"type": _COUNTED[keyword[3:]], f"max{keyword[3:]}": value - 1}
        case (("maxLength" | "maxItems" | "maxProperties"), int()):
            found = {"type": _COUNTED[keyword[3:]], f"min{keyword[3:]}": value + 1}
        case "additionalProperties", True:
            found = False
    return found


def _other_values(values: list[JSON]) -> JSON:
    """Return the schema of all values but these; None where they include containers, or too many numbers."""
    kinds = {"null" if value is None else _TYPE_OF.get(type(value), "") for value in values}
    numbers = sorted({value for value in values if not isinstance(value, bool) and isinstance(value, int | float)})
    if "" in kinds or len(numbers) > _MAX_OTHER_NUMBERS:
        return None
    found: list[JSON] = [{"type": [kind for kind in _TYPES if kind not in kinds]}]
    found += [
        {"const": flag} for flag in (True, False) if "boolean" in kinds and not any(flag is value for value in values)
    ]
    if "string" in kinds:
        found.append({"type": "string", "not": {"enum": [value for value in values if isinstance(value, str)]}})
    for low, high in itertools.pairwise([None, *numbers, None]) if numbers else ():
        bounds = {} if low is None else {"exclusiveMinimum": low}
        found.append({"type": "number", **bounds, **({} if high is None else {"exclusiveMaximum": high})})
    return _any_of(found)


def _refused_by_schemas(keyword: str, value: JSON, depth: int) -> JSON:
    found: JSON = None
    match keyword, value:
        case "required", list() if all(isinstance(name, str) for name in value):
            found = _any_of([{"type": "object", **_without(name)} for name in value])
        case "properties", dict():
            inner = {name: _complement(each, depth) for name, each in value.items()}
            if None not in inner.values():
                members = [
                    each is not False and {"type": "object", "properties": {name: each}, "required": [name], **_UNNAMED}
                    for name, each in inner.items()
                ]
                found = _any_of(members)
        case "not", bool():
            found = value
        case "not", dict():
            found = {"allOf": [value], NOT_EVALUATED: ["allOf"]}
        case (("allOf" | "anyOf"), list()):
            parts = [_complement(each, depth) for each in value]
            if parts and None not in parts:
                found = _any_of(parts) if keyword == "allOf" else {"allOf": parts}
    return found


def _any_of(schemas: list[JSON]) -> JSON:
    satisfiable = [schema for schema in schemas if schema is not False]
    return {"anyOf": satisfiable} if satisfiable else False


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


_OPEN: dict[str, JSON] = {"additionalProperties": True, NOT_EVALUATED: ["additionalProperties"]}
"""A schema that names members closes the object otherwise."""
_UNNAMED: dict[str, JSON] = {**_OPEN, NOT_EVALUATED: ["additionalProperties", "properties"]}
"""What a `not` or a false `if` says about members does not evaluate them."""


def _without(name: str) -> JSON:
    """Return the schema of objects without a member."""
    return {"properties": {name: False}, **_UNNAMED}
