"""Converts Python types to JSON Schema.

Rule: a type is inlined where it is used, without a title, because small models follow references badly; only a
recursive type stays behind a `$ref`.
"""

from collections.abc import Sequence

import msgspec

from fcshim.errors import ConfigError
from fcshim.events import JSON

_PREFIX = "#/$defs/"
_DATA_KEYWORDS = frozenset({"default", "enum", "const", "examples"})
"""Keywords whose values are data, not schemas."""


def schemas_of(types: Sequence[JSON]) -> tuple[list[dict[str, JSON]], dict[str, JSON]]:
    """Return the schema of each type, and the `$defs` that their references need.

    Raises `ConfigError` for a type without a JSON form.
    """
    try:
        schemas, components = msgspec.json.schema_components(types, ref_template=f"{_PREFIX}{{name}}")
    except TypeError as error:
        raise ConfigError(str(error).strip().splitlines()[-1]) from error
    bare = {name: _without_title(schema) for name, schema in components.items()}
    recursive = {name for name in bare if name in _reachable(name, bare)}
    inlined = [_inline(schema, bare, recursive) for schema in schemas]
    definitions = {name: _inline(bare[name], bare, recursive) for name in sorted(recursive)}
    return inlined, definitions


def _without_title(schema: dict[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in schema.items() if key != "title"}


def _reachable(name: str, components: dict[str, JSON]) -> set[str]:
    """Return the names of all definitions that this one refers to, directly or not."""
    found: set[str] = set()
    pending = [components[name]]
    while pending:
        for reference in _references(pending.pop()) - found:
            found.add(reference)
            pending.append(components[reference])
    return found


def _references(schema: JSON) -> set[str]:
    if isinstance(schema, list | tuple):
        return set().union(*map(_references, schema))
    if not isinstance(schema, dict):
        return set()
    if "$ref" in schema:
        return {schema["$ref"].removeprefix(_PREFIX)}
    return set().union(*(_references(value) for key, value in schema.items() if key not in _DATA_KEYWORDS))


def _inline(schema: JSON, components: dict[str, JSON], recursive: set[str]) -> JSON:
    if isinstance(schema, list | tuple):
        return [_inline(item, components, recursive) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref", "").removeprefix(_PREFIX)
    if name and name not in recursive:
        return _inline(components[name], components, recursive)
    return {
        key: value if key in _DATA_KEYWORDS else _inline(value, components, recursive) for key, value in schema.items()
    }
