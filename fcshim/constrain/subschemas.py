"""The places of a schema where other schemas stand, and the change of all of them."""

from collections.abc import Callable, Iterator

from fcshim.events import JSON

MAX_DEPTH = 64
"""Nesting of schemas that is changed; deeper ones are too deep for the grammar, too."""
_ONE = frozenset(
    [
        "items", "additionalProperties", "additionalItems", "propertyNames", "contains", "not", "if", "then", "else",
        "unevaluatedProperties", "unevaluatedItems",
    ]
)  # fmt: skip
_LISTS = frozenset(["allOf", "anyOf", "oneOf", "prefixItems", "items"])
_MAPS = frozenset(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"])


def subschemas(schema: dict[str, JSON]) -> Iterator[tuple[tuple[str, ...], dict[str, JSON]]]:
    """Yield the schemas directly inside a schema, each with the steps that lead to it."""
    for keyword, value in schema.items():
        if keyword in _ONE and isinstance(value, dict):
            yield (keyword,), value
        elif keyword in _LISTS and isinstance(value, list):
            yield from (((keyword, str(at)), each) for at, each in enumerate(value) if isinstance(each, dict))
        elif keyword in _MAPS and isinstance(value, dict):
            yield from (((keyword, name), each) for name, each in value.items() if isinstance(each, dict))


def with_subschemas(schema: dict[str, JSON], change: Callable[[JSON], JSON]) -> dict[str, JSON]:
    """Return the schema with each schema directly inside it changed; the object itself where none changes."""
    changed = dict[str, JSON]()
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            members = {name: change(each) for name, each in value.items()}
            if any(members[name] is not each for name, each in value.items()):
                changed[keyword] = members
        elif keyword in _LISTS and isinstance(value, list):
            items = [change(each) for each in value]
            if any(new is not old for new, old in zip(items, value, strict=True)):
                changed[keyword] = items
        elif keyword in _ONE and (new := change(value)) is not value:
            changed[keyword] = new
    return {**schema, **changed} if changed else schema


def list_of(value: JSON) -> list[JSON]:
    """Return the value of a keyword that has a list; an empty one for any other value."""
    return value if isinstance(value, list) else []


def first_elements(schema: dict[str, JSON]) -> list[JSON]:
    """Return the schemas of the first elements, each of its own: `prefixItems`, before 2020 a list of `items`."""
    return list_of(schema.get("prefixItems")) or list_of(schema.get("items"))
