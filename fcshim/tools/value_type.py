"""A Python type as a JSON Schema, and the conversion of JSON to its values.

Rule: msgspec reads the types that it knows (dataclasses, TypedDicts, enums, ...); pydantic those that are its own or
contain one. A type is inlined where it is used, without a title, because small models follow references badly; only a
recursive type stays behind a `$ref`.
"""

import dataclasses
import json
import re
import typing
from collections.abc import Callable, Iterator, Sequence

import msgspec

from fcshim.errors import ConfigError
from fcshim.events import JSON

_PREFIX = "#/$defs/"
_DATA_KEYWORDS = frozenset({"default", "enum", "const", "examples", "required"})
"""Keywords whose values are data, not schemas."""
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
"""Keywords whose values have schemas by name; the names are not keywords."""
_DROPPED = frozenset({"title", "discriminator"})
"""Keywords that do not help a model; a discriminator refers to definitions that are inlined."""
_ANNOTATIONS = frozenset({"description", "default", "examples", "deprecated"})
"""Keywords beside a reference, which override those of its target."""
_MAX_MISTAKES = 20
"""Mistakes of one value that are named: a model corrects a few at a time."""


def schemas_of(types: Sequence[JSON]) -> tuple[list[dict[str, JSON]], dict[str, JSON]]:
    """Return the schema of each type, and the `$defs` that their references need.

    Raises `ConfigError` for a type without a JSON form, and for two recursive types of one name.
    """
    by_pydantic = [uses_pydantic(each) for each in types]
    own = _msgspec_schemas([each for each, foreign in zip(types, by_pydantic, strict=True) if not foreign])
    foreign = _pydantic_schemas([each for each, is_foreign in zip(types, by_pydantic, strict=True) if is_foreign])
    (own_schemas, own_definitions), (schemas, definitions) = _inlined(*own), _inlined(*foreign)
    for name in own_definitions.keys() & definitions.keys():
        raise ConfigError(f"two recursive types are named {name!r}: rename one")
    rest, others = iter(own_schemas), iter(schemas)
    return [next(others if is_foreign else rest) for is_foreign in by_pydantic], own_definitions | definitions


def _msgspec_schemas(types: Sequence[JSON]) -> tuple[Sequence[JSON], dict[str, JSON]]:
    try:
        schemas, components = msgspec.json.schema_components(types, ref_template=f"{_PREFIX}{{name}}")
    except TypeError as error:
        raise ConfigError(str(error).strip().splitlines()[-1]) from error
    return schemas, components


def _pydantic_schemas(types: Sequence[JSON]) -> tuple[Sequence[JSON], dict[str, JSON]]:
    if not types:
        return (), {}
    import pydantic  # noqa: PLC0415 - optional, and slow; the caller's types need it

    try:
        adapters = [(number, "validation", pydantic.TypeAdapter(each)) for number, each in enumerate(types)]
        schemas, whole = pydantic.TypeAdapter.json_schemas(
            typing.cast("JSON", adapters), ref_template=f"{_PREFIX}{{model}}"
        )
    except pydantic.PydanticUserError as error:
        raise ConfigError(error.message.splitlines()[0]) from error
    return [schemas[number, "validation"] for number in range(len(types))], whole.get("$defs", {})


def _inlined(schemas: Sequence[JSON], components: dict[str, JSON]) -> tuple[list[dict[str, JSON]], dict[str, JSON]]:
    recursive = {name for name in components if name in _reachable(name, components)}
    inlined = [_inline(schema, components, recursive) for schema in schemas]
    return inlined, {name: _inline(components[name], components, recursive) for name in sorted(recursive)}


def _reachable(name: str, components: dict[str, JSON]) -> set[str]:
    """Return the names of all definitions that this one refers to, directly or not."""
    found: set[str] = set()
    pending = [components[name]]
    while pending:
        for reference in set(_references(pending.pop())) - found:
            found.add(reference)
            pending.append(components.get(reference))
    return found


def _references(schema: JSON) -> Iterator[str]:
    if isinstance(schema, list | tuple):
        for item in schema:
            yield from _references(item)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_PREFIX)
        for key, value in schema.items():
            if key in _NAMED_SCHEMAS:
                yield from _references(list(value.values()))
            elif key not in _DATA_KEYWORDS | _DROPPED:
                yield from _references(value)


def _inline(schema: JSON, components: dict[str, JSON], recursive: set[str]) -> JSON:
    if isinstance(schema, list | tuple):
        return [_inline(item, components, recursive) for item in schema]
    if not isinstance(schema, dict):
        return schema
    own: dict[str, JSON] = {}
    for key, value in schema.items():
        if key in _NAMED_SCHEMAS:
            own[key] = {name: _inline(each, components, recursive) for name, each in value.items()}
        elif key not in _DROPPED:
            own[key] = value if key in _DATA_KEYWORDS else _inline(value, components, recursive)
    name = schema.get("$ref", "").removeprefix(_PREFIX)
    if name not in components or name in recursive:
        return own
    del own["$ref"]
    target = _inline(components[name], components, recursive)
    return target | own if own.keys() <= _ANNOTATIONS else {"allOf": [target], **own}


def uses_pydantic(annotation: JSON) -> bool:
    """Return whether a type is one of pydantic's, has its metadata, or contains such a type."""
    seen: list[JSON] = []
    pending = [annotation]
    while pending:
        each = pending.pop()
        module = each.__module__ if isinstance(each, type) else type(each).__module__
        if module.partition(".")[0] in {"pydantic", "annotated_types"}:
            return True
        if any(hasattr(each, name) for name in ("__pydantic_core_schema__", "__get_pydantic_core_schema__")):
            return True
        if not any(each is other for other in seen):
            seen.append(each)
            pending += _parts(each)
    return False


def _parts(annotation: JSON) -> list[JSON]:
    """Return the types and the metadata that a type is made of."""
    if isinstance(annotation, str):
        return []
    named = [getattr(annotation, name, None) for name in ("__value__", "__supertype__")]
    parts = [typing.get_origin(annotation), *typing.get_args(annotation), *named]
    is_record = dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation)
    if isinstance(annotation, type) and (is_record or issubclass(annotation, tuple | msgspec.Struct)):
        try:
            parts += typing.get_type_hints(annotation, include_extras=True).values()
        except (NameError, TypeError):  # msgspec then says what does not resolve
            return []
    return [part for part in parts if part is not None]


def to_plain(value: JSON, other: Callable[[JSON], JSON] | None = None) -> JSON:
    """Return a value as JSON can write it, with pydantic's models as they dump themselves; `other` handles the rest.

    Raises `TypeError` for a value without a JSON form.
    """

    def dump(each: JSON) -> JSON:
        if uses_pydantic(type(each)) and hasattr(each, "model_dump"):
            return each.model_dump(mode="json", by_alias=True)
        if other is None:
            raise TypeError(f"{type(each).__name__} has no JSON form")
        return other(each)

    return msgspec.to_builtins(value, str_keys=True, enc_hook=dump)


class MistakesError(ValueError):
    """A value does not have its type; each mistake is a line with the place and what was expected there."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


def converter(annotation: JSON) -> Callable[[JSON], JSON]:
    """Return the function that makes values of a type from JSON values; it raises `MistakesError`."""
    if not uses_pydantic(annotation):
        return lambda value: _by_msgspec(value, annotation)
    import pydantic  # noqa: PLC0415 - optional, and slow; the caller's type needs it

    adapter = pydantic.TypeAdapter(annotation)

    def by_pydantic(value: JSON) -> JSON:
        try:
            return adapter.validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)[:_MAX_MISTAKES]
            raise MistakesError([f"{_path(each['loc'])}: {_lower(each['msg'])}" for each in found]) from error

    return by_pydantic


_JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
"""Python type names in msgspec's messages, and their JSON Schema names, which the model knows."""
_TYPE_NAME = re.compile(rf"\b({'|'.join(_JSON_TYPES)})\b(?=[^`]*`)")


def _by_msgspec(value: JSON, annotation: JSON) -> JSON:
    try:
        return msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        # Convert "Expected `int`, got `str` - at `$.x[0]`" to ".x[0]: expected integer, got string".
        message, _, location = str(error).partition(" - at ")
        problem = _TYPE_NAME.sub(lambda found: _JSON_TYPES[found[1]], message).replace("`", "")
        raise MistakesError([f"{location.strip('`').removeprefix('$')}: {_lower(problem)}"]) from error


def _path(location: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
