"""The keywords of JSON Schema that apply schemas to a value, or compare it; `scalar_keywords` has the others.

Each function yields the violations of one keyword: `operand` is the keyword's value in the schema of `place`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from fcshim.events import JSON
from fcshim.schema.excerpt import excerpt
from fcshim.schema.scalar_keywords import is_count, scalar_message
from fcshim.schema.violation import Place, Violation

if TYPE_CHECKING:
    from fcshim.schema.evaluate import Evaluator

_NO_BRANCH = "is not valid under any of the given schemas"

# Lists of values.


def check_enum(evaluator: "Evaluator", operand: list[JSON], place: Place) -> Iterator[Violation]:
    """`enum`."""
    if not evaluator.lists(operand, place.value):
        yield place.violation("enum", lambda: f"{excerpt(place.value)} is not one of {excerpt(operand)}")


def check_const(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`const`."""
    if evaluator.identity.key(place.value) != evaluator.identity.key(operand):
        yield place.violation("const", lambda: f"{excerpt(operand)} was expected")


def check_unique(evaluator: "Evaluator", operand: bool, place: Place) -> Iterator[Violation]:  # noqa: FBT001 # it is JSON
    """`uniqueItems`."""
    value = place.value
    if operand and isinstance(value, list) and len(set(evaluator.identity.keys(value))) < len(value):
        yield place.violation("uniqueItems", partial(scalar_message, value, "has non-unique elements"))


# Objects.


def check_required(evaluator: "Evaluator", operand: list[JSON], place: Place) -> Iterator[Violation]:
    """`required`."""
    if isinstance(place.value, dict):
        yield from _missing(evaluator, "required", operand, place, "is a required property")


def _missing(evaluator: "Evaluator", keyword: str, names: list[JSON], place: Place, reason: str) -> Iterator[Violation]:
    evaluator.steps.spend(len(names))
    for name in names:
        if isinstance(name, str) and name not in place.value:
            yield place.violation(keyword, partial(scalar_message, name, reason))


def check_properties(evaluator: "Evaluator", operand: dict[str, JSON], place: Place) -> Iterator[Violation]:
    """`properties`."""
    value = place.value
    if not isinstance(value, dict):
        return
    evaluator.steps.spend(min(len(operand), len(value)))
    for key in operand if len(operand) <= len(value) else value:
        if key in operand and key in value:
            yield from evaluator.violations(operand[key], value[key], (*place.path, key))


def check_additional(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`additionalProperties`."""
    extras = _additional_keys(evaluator, place)
    if operand is not False:
        for key in extras:
            yield from evaluator.violations(operand, place.value[key], (*place.path, key))
    elif extras:
        message = partial(_unexpected, "Additional properties", sorted(extras))
        yield place.violation("additionalProperties", message)


def _additional_keys(evaluator: "Evaluator", place: Place) -> list[str]:
    """Return the keys that the schema does not name; none where a pattern may admit them."""
    if not isinstance(place.value, dict) or place.schema.get("patternProperties"):
        return []
    evaluator.steps.spend(len(place.value))
    properties = place.schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return [key for key in place.value if key not in known]


def check_names(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`propertyNames`."""
    for key in place.value if isinstance(place.value, dict) else ():
        yield from evaluator.violations(operand, key, place.path)


def check_dependent_required(evaluator: "Evaluator", operand: dict[str, JSON], place: Place) -> Iterator[Violation]:
    """`dependentRequired`."""
    for key, names in _dependents(evaluator, operand, place):
        if isinstance(names, list):
            yield from _missing(evaluator, "dependentRequired", names, place, f"is a dependency of {excerpt(key)}")


def check_dependent_schemas(evaluator: "Evaluator", operand: dict[str, JSON], place: Place) -> Iterator[Violation]:
    """`dependentSchemas`."""
    for _, schema in _dependents(evaluator, operand, place):
        yield from evaluator.violations(schema, place.value, place.path)


def _dependents(evaluator: "Evaluator", operand: dict[str, JSON], place: Place) -> list[tuple[str, JSON]]:
    evaluator.steps.spend(len(operand))
    return [each for each in operand.items() if each[0] in place.value] if isinstance(place.value, dict) else []


# Arrays.


def check_prefix(evaluator: "Evaluator", operand: list[JSON], place: Place) -> Iterator[Violation]:
    """`prefixItems`."""
    for index, (schema, item) in enumerate(zip(operand, _list(place.value), strict=False)):
        yield from evaluator.violations(schema, item, (*place.path, index))


def check_items(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`items`; a list of schemas up to draft 2019-09."""
    if isinstance(operand, list):
        yield from check_prefix(evaluator, operand, place)
        return
    first, length = len(_list(place.schema.get("prefixItems"))), len(_list(place.value))
    if operand is False and length > first:
        message = f"Expected at most {first} items but found {length - first} extra"
        yield place.violation("items", lambda: message)
        return
    for index in range(first, length):
        yield from evaluator.violations(operand, place.value[index], (*place.path, index))


def check_contains(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`contains`, with `minContains` and `maxContains`."""
    if not isinstance(place.value, list):
        return
    low, high = place.schema.get("minContains", 1), place.schema.get("maxContains")
    matches = sum([evaluator.is_valid(operand, item) for item in place.value])
    if high is not None and is_count(high) and matches > high:
        message = f"contains {matches} items matching the given schema, at most {high} are expected"
        yield place.violation("maxContains", partial(scalar_message, place.value, message))
    elif matches < (low if is_count(low) else 1):
        message = "does not contain items matching the given schema" if not matches else "contains too few of them"
        yield place.violation("contains", partial(scalar_message, place.value, message))


# Combinations.


def check_all(evaluator: "Evaluator", operand: list[JSON], place: Place) -> Iterator[Violation]:
    """`allOf`."""
    for schema in operand:
        yield from evaluator.violations(schema, place.value, place.path)


def check_any(evaluator: "Evaluator", operand: list[JSON], place: Place) -> Iterator[Violation]:
    """`anyOf`."""
    for branch in evaluator.candidates(operand, place.value):
        if evaluator.is_valid(branch, place.value):
            return
    if operand:
        yield place.violation("anyOf", partial(scalar_message, place.value, _NO_BRANCH), operand)


def check_one(evaluator: "Evaluator", operand: list[JSON], place: Place) -> Iterator[Violation]:
    """`oneOf`."""
    valid = [branch for branch in evaluator.candidates(operand, place.value) if evaluator.is_valid(branch, place.value)]
    if operand and not valid:
        yield place.violation("oneOf", partial(scalar_message, place.value, _NO_BRANCH), operand)
    elif len(valid) > 1:
        yield place.violation("oneOf", lambda: f"{excerpt(place.value)} is valid under each of {excerpt(valid)}")


def check_not(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`not`."""
    if evaluator.is_valid(operand, place.value):
        message = lambda: f"{excerpt(place.value)} should not be valid under {excerpt(operand)}"  # noqa: E731
        yield place.violation("not", message)


def check_if(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`if`, with `then` and `else`."""
    branch = place.schema.get("then" if evaluator.is_valid(operand, place.value) else "else", True)
    yield from evaluator.violations(branch, place.value, place.path)


def check_reference(evaluator: "Evaluator", operand: str, place: Place) -> Iterator[Violation]:
    """`$ref` inside the root schema."""
    return evaluator.follow(operand, place)


# Members and elements that no other keyword of the same schema evaluates.


def check_unevaluated_properties(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`unevaluatedProperties`."""
    if not isinstance(place.value, dict):
        return
    evaluated = _evaluated(evaluator, place.schema, place.value, own=True)
    extras = [key for key in place.value if key not in evaluated and not evaluator.is_valid(operand, place.value[key])]
    if extras:
        message = partial(_unexpected, "Unevaluated properties", sorted(extras))
        yield place.violation("unevaluatedProperties", message)


def check_unevaluated_items(evaluator: "Evaluator", operand: JSON, place: Place) -> Iterator[Violation]:
    """`unevaluatedItems`."""
    if not isinstance(place.value, list):
        return
    evaluated = _evaluated(evaluator, place.schema, place.value, own=True)
    items = enumerate(place.value)
    extras = [item for index, item in items if index not in evaluated and not evaluator.is_valid(operand, item)]
    if extras:
        yield place.violation("unevaluatedItems", partial(_unexpected, "Unevaluated items", extras))


def _evaluated(evaluator: "Evaluator", schema: JSON, value: JSON, *, own: bool = False) -> set[str | int]:
    """Return the keys or indexes that the schema evaluates, all of them where it refers to what is not known.

    `own` disregards its own `unevaluated...` keywords.
    """
    evaluator.steps.spend(1 + len(value))
    if not isinstance(schema, dict):
        return set()
    evaluator.enter()
    found = _evaluated_by_keywords(evaluator, schema, value)
    reference = schema.get("$ref")
    is_unknown = "$dynamicRef" in schema or (isinstance(reference, str) and evaluator.target(reference) is True)
    if is_unknown or (not own and not schema.keys().isdisjoint({"unevaluatedProperties", "unevaluatedItems"})):
        found.update(value if isinstance(value, dict) else range(len(value)))
    for inner in _applied(evaluator, schema, value):
        found |= _evaluated(evaluator, inner, value)
    evaluator.leave()
    return found


def _evaluated_by_keywords(evaluator: "Evaluator", schema: dict[str, JSON], value: JSON) -> set[str | int]:
    """Return the keys or indexes that the schema's keywords about members or elements evaluate."""
    if isinstance(value, dict):
        if "additionalProperties" in schema or schema.get("patternProperties"):
            return set(value)
        properties = schema.get("properties")
        return {key for key in value if key in properties} if isinstance(properties, dict) else set()
    if "items" in schema and not isinstance(schema["items"], list):
        return set(range(len(value)))
    prefix = _list(schema.get("prefixItems", schema.get("items")))
    found: set[str | int] = set(range(min(len(prefix), len(value))))
    if "contains" in schema:
        found.update(index for index, item in enumerate(value) if evaluator.is_valid(schema["contains"], item))
    return found


def _applied(evaluator: "Evaluator", schema: dict[str, JSON], value: JSON) -> Iterator[JSON]:
    """Yield the schemas that apply to the same value and admit it."""
    if isinstance(schema.get("$ref"), str):
        yield evaluator.target(schema["$ref"])
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from (each for each in _list(schema.get(keyword)) if evaluator.is_valid(each, value))
    if "if" in schema:
        admitted = evaluator.is_valid(schema["if"], value)
        yield schema["if"] if admitted else True
        yield schema.get("then" if admitted else "else", True)
    dependent = schema.get("dependentSchemas")
    if isinstance(dependent, dict) and isinstance(value, dict):
        yield from (each for key, each in dependent.items() if key in value)


def _unexpected(subject: str, extras: list[JSON]) -> str:
    verb = "was" if len(extras) == 1 else "were"
    return f"{subject} are not allowed ({excerpt(extras)[1:-1]} {verb} unexpected)"


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


_SCHEMA = (dict, bool)
APPLICATORS: dict[str, tuple[type | tuple[type, ...], Callable[..., Iterator[Violation]]]] = {
    "$ref": (str, check_reference),
    "enum": (list, check_enum),
    "const": (object, check_const),
    "uniqueItems": (bool, check_unique),
    "required": (list, check_required),
    "properties": (dict, check_properties),
    "additionalProperties": (_SCHEMA, check_additional),
    "propertyNames": (_SCHEMA, check_names),
    "dependentRequired": (dict, check_dependent_required),
    "dependentSchemas": (dict, check_dependent_schemas),
    "prefixItems": (list, check_prefix),
    "items": ((dict, bool, list), check_items),
    "contains": (_SCHEMA, check_contains),
    "allOf": (list, check_all),
    "anyOf": (list, check_any),
    "oneOf": (list, check_one),
    "not": (_SCHEMA, check_not),
    "if": (_SCHEMA, check_if),
    "unevaluatedProperties": (_SCHEMA, check_unevaluated_properties),
    "unevaluatedItems": (_SCHEMA, check_unevaluated_items),
}
"""Of each keyword that applies schemas or compares values: what its operand must be, and its evaluation."""
