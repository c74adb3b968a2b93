"""Which members the objects of one alternative of a schema may have: those that are named, and those with free names.

Rule: what is said of names is held to where it lists them, or says something of all of them; patterns of names are not.
Neighbours: `facets` has the other keywords of an alternative, `values` writes members.
"""

from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative
from fcshim.schema.node import has_lone_surrogate

NAME_KEYWORDS = ("patternProperties", "propertyNames")
_MATCH_ALL_PATTERNS = frozenset({"", "^", "$", ".*", "^.*", ".*$", "^.*$", "^(.*)$", ".+", "^.+$", "^(.+)$"})
"""Patterns that every name matches, the empty one apart; some generators write dictionaries so."""
_NEUTRAL_KEYWORDS = frozenset({"type", "title", "description"})
"""Keywords that say nothing of names, which are strings anyway."""


def named_members(parts: Alternative) -> dict[str, tuple[JSON, ...]]:
    """Give the schemas of each member that is named and may be there, in the order of the schema."""
    listed = [names for part in parts if (names := _listed_names(part)) is not None]
    keys = {key: None for part in parts for key in _dict(part, "properties")}
    keys.update(dict.fromkeys(key for names in listed for key in names))
    keys.update(dict.fromkeys(required_members(parts)))
    free = [_unnamed_schema(part) for part in parts]
    found = {
        key: tuple(each for part, other in zip(parts, free, strict=True) for each in _member_schemas(part, key, other))
        for key in keys
        if not has_lone_surrogate(key) and all(key in names for names in listed)
    }
    return {key: schemas for key, schemas in found.items() if not any(schema is False for schema in schemas)}


def required_members(parts: Alternative) -> list[str]:
    """Give the members that must be there."""
    keys = (key for part in parts for key in _list(part.get("required")) if isinstance(key, str))
    return list(dict.fromkeys(keys))


def other_members(parts: Alternative) -> tuple[JSON, ...] | None:
    """Give the schemas of members that are not named, None where there may be none.

    A schema that names its members and says nothing of others is taken to mean that there are none.
    """
    if any("properties" in part and "additionalProperties" not in part for part in parts):
        return None
    if any(_listed_names(part) is not None for part in parts):
        return None
    schemas = tuple(map(_unnamed_schema, parts))
    return None if any(schema is False for schema in schemas) else schemas


def relaxed_name_keywords(part: dict[str, JSON]) -> list[str]:
    """Give the keywords that say more of names than is held to."""
    names = part.get("propertyNames", True)
    plain = (
        names is True
        or _listed_names(part) is not None
        or (isinstance(names, dict) and names.keys() <= _NEUTRAL_KEYWORDS)
    )
    patterns = _dict(part, "patternProperties").keys() <= _MATCH_ALL_PATTERNS
    return [*([] if patterns else ["patternProperties"]), *([] if plain else ["propertyNames"])]


def _member_schemas(part: dict[str, JSON], key: str, other: JSON) -> list[JSON]:
    properties = _dict(part, "properties")
    if key not in properties:
        return [other]
    return [properties[key], *_match_all_schemas(part)]


def _unnamed_schema(part: dict[str, JSON]) -> JSON:
    """Give the schema of members that are not named. Which patterns a name matches is left open."""
    of_all = _match_all_schemas(part)
    if of_all:
        return of_all[0] if len(of_all) == 1 else {"allOf": of_all}
    patterns = list(_dict(part, "patternProperties").values())
    if not patterns:
        return part.get("additionalProperties", True)
    options = [*patterns, part.get("additionalProperties", False)]
    possible = [option for option in options if option is not False]
    return possible[0] if len(possible) == 1 else {"anyOf": possible} if possible else False


def _match_all_schemas(part: dict[str, JSON]) -> list[JSON]:
    return [schema for name, schema in _dict(part, "patternProperties").items() if name in _MATCH_ALL_PATTERNS]


def _listed_names(part: dict[str, JSON]) -> list[str] | None:
    """Give the names that `propertyNames` lists; None where it does not."""
    names = _dict(part, "propertyNames")
    listed = [names["const"]] if "const" in names else names.get("enum")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) and listed else None


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _dict(part: dict[str, JSON], keyword: str) -> dict[str, JSON]:
    value = part.get(keyword)
    return value if isinstance(value, dict) else {}
