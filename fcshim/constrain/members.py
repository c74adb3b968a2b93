"""The members that objects of one alternative of a schema may have: named ones, and ones with other names.

Rule: keywords about names are enforced where they list names, apply to every name, or to all names that there may be.
"""

from fcshim.constrain.subschemas import list_of
from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative
from fcshim.schema.node import has_lone_surrogate

NAME_KEYWORDS = ("patternProperties", "propertyNames")
_MATCH_ALL_PATTERNS = frozenset({"", "^", "$", ".*", "^.*", ".*$", "^.*$", "^(.*)$", ".+", "^.+$", "^(.+)$"})
"""Patterns that every nonempty name matches; some schema generators write dictionaries with them."""
_STRING_KEYWORDS = frozenset({"type", "title", "description", "pattern", "minLength", "maxLength", "format"})
"""Keywords of `propertyNames` with which the names are written like strings."""
_NEUTRAL_KEYWORDS = frozenset({"type", "title", "description"})
"""Keywords of `propertyNames` that add nothing, since names are strings anyway."""


def named_members(parts: Alternative) -> dict[str, tuple[JSON, ...]]:
    """Return the named members that are allowed, each with its schemas, in schema order."""
    listed = [names for part in parts if (names := _listed_names(part)) is not None]
    keys = {key: None for part in parts for key in _dict(part, "properties")}
    keys.update(dict.fromkeys(key for names in listed for key in names))
    keys.update(dict.fromkeys(required_members(parts)))
    unnamed = [_unnamed_schema(part) for part in parts]
    found = {
        key: tuple(
            each for part, other in zip(parts, unnamed, strict=True) for each in _member_schemas(part, key, other)
        )
        for key in keys
        if not has_lone_surrogate(key) and all(key in names for names in listed)
    }
    return {key: schemas for key, schemas in found.items() if not any(schema is False for schema in schemas)}


def required_members(parts: Alternative) -> list[str]:
    """Return the names of the required members."""
    keys = (key for part in parts for key in list_of(part.get("required")) if isinstance(key, str))
    return list(dict.fromkeys(keys))


def other_members(parts: Alternative) -> tuple[JSON, ...] | None:
    """Return the schemas of members that are not named; None where such members are not allowed.

    A schema with `properties` but without `additionalProperties` is taken to allow no others.
    """
    if any("properties" in part and "additionalProperties" not in part for part in parts):
        return None
    if any(_listed_names(part) is not None for part in parts):
        return None
    schemas = tuple(map(_unnamed_schema, parts))
    return None if any(schema is False for schema in schemas) else schemas


def name_schemas(parts: Alternative) -> list[tuple[str, dict[str, JSON]]]:
    """Return what names must be that are not listed: the keywords that say so, each with a schema of strings."""
    found: list[tuple[str, dict[str, JSON]]] = []
    for part in parts:
        names, patterns = _dict(part, "propertyNames"), list(_dict(part, "patternProperties"))
        simple = names.keys() <= _STRING_KEYWORDS and names.get("type", "string") == "string"
        if simple and _listed_names(part) is None:
            found.append(("propertyNames", names))
        if len(patterns) == 1 and part.get("additionalProperties") is False and patterns[0] not in _MATCH_ALL_PATTERNS:
            found.append(("patternProperties", {"pattern": patterns[0]}))
    return [each for each in found if not each[1].keys() <= _NEUTRAL_KEYWORDS]


def relaxed_name_keywords(part: dict[str, JSON]) -> list[str]:
    """Return the keywords about names that the grammar never enforces."""
    enforced = {keyword for keyword, _ in name_schemas((part,))}
    if _dict(part, "patternProperties").keys() <= _MATCH_ALL_PATTERNS:
        enforced.add("patternProperties")
    if _dict(part, "propertyNames").keys() <= _NEUTRAL_KEYWORDS or _listed_names(part) is not None:
        enforced.add("propertyNames")
    return [keyword for keyword in NAME_KEYWORDS if keyword not in enforced]


def _member_schemas(part: dict[str, JSON], key: str, other: JSON) -> list[JSON]:
    properties = _dict(part, "properties")
    if key not in properties:
        return [other]
    return [properties[key], *_match_all_schemas(part)]


def _unnamed_schema(part: dict[str, JSON]) -> JSON:
    """Return the schema of members that are not named. Whether a name matches a pattern is not checked."""
    match_all = _match_all_schemas(part)
    if match_all:
        return match_all[0] if len(match_all) == 1 else {"allOf": match_all}
    patterns = list(_dict(part, "patternProperties").values())
    if not patterns:
        return part.get("additionalProperties", True)
    options = [*patterns, part.get("additionalProperties", False)]
    possible = [option for option in options if option is not False]
    return possible[0] if len(possible) == 1 else {"anyOf": possible} if possible else False


def _match_all_schemas(part: dict[str, JSON]) -> list[JSON]:
    return [schema for name, schema in _dict(part, "patternProperties").items() if name in _MATCH_ALL_PATTERNS]


def _listed_names(part: dict[str, JSON]) -> list[str] | None:
    """Return the names that `propertyNames` lists by `const` or `enum`; None where it lists none."""
    if part.get("propertyNames") is False:
        return []
    names = _dict(part, "propertyNames")
    listed = [names["const"]] if "const" in names else names.get("enum")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) and listed else None


def _dict(part: dict[str, JSON], keyword: str) -> dict[str, JSON]:
    value = part.get(keyword)
    return value if isinstance(value, dict) else {}
