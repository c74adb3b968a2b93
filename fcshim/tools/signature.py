"""A Python signature as a tool's parameters: their JSON Schema, and the conversion of JSON to Python values.

Rule: a parameter's type comes from its annotation; its description from the text in `Annotated`, else from the
docstring. A type is inlined where it is used, without a title, because small models follow references badly; only a
recursive type stays behind a `$ref`.
"""

import difflib
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fcshim.errors import ConfigError, ToolError
from fcshim.events import JSON
from fcshim.tools.base import NO_CONTEXT, CallContext

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


_JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
"""Python type names in msgspec's messages, and their JSON Schema names, which the model knows."""
_TYPE_NAME = re.compile(rf"\b({'|'.join(_JSON_TYPES)})\b(?=[^`]*`)")
_VARIADIC_PREFIXES = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class ToolSignature:
    """The parameters of one function.

    `schema` is the JSON Schema of its arguments object. Raises `ConfigError` for a parameter without a schema: `*args`,
    `**kwargs`, a type without a JSON form, an annotation that does not resolve.
    """

    def __init__(self, function: Callable[..., JSON], name: str, descriptions: Mapping[str, str]) -> None:
        self._name = name
        self._signature = _resolve_signature(function, name)
        parameters = self._signature.parameters.values()
        self._context_names = [each.name for each in parameters if each.annotation is CallContext]
        self._parameters = {each.name: each for each in parameters if each.name not in self._context_names}
        for parameter in self._parameters.values():
            if parameter.kind in _VARIADIC_PREFIXES:
                notation = f"{_VARIADIC_PREFIXES[parameter.kind]}{parameter.name}"
                raise ConfigError(f"tool {name!r}: {notation} has no schema; name each parameter of a tool")
        self._types = {each.name: _type_of(each) for each in self._parameters.values()}
        self.schema: dict[str, JSON] = self._schema(descriptions)

    def bind(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> inspect.BoundArguments:
        """Convert JSON values to the function's arguments. Raises `ToolError` that names every mistake."""
        values: dict[str, JSON] = dict.fromkeys(self._context_names, context)
        mistakes = [self._unknown_parameter(name) for name in arguments if name not in self._parameters]
        for name, parameter in self._parameters.items():
            if name not in arguments:
                mistakes += [f"{name}: missing"] if parameter.default is parameter.empty else []
                continue
            try:
                values[name] = msgspec.convert(arguments[name], self._types[name])
            except msgspec.ValidationError as error:
                mistakes.append(_validation_message(name, str(error), self.schema["properties"][name]))
        if mistakes:
            raise ToolError(f"Wrong arguments for {self._name}:\n" + "\n".join(f"- {mistake}" for mistake in mistakes))
        bound = inspect.BoundArguments(self._signature, values)
        bound.apply_defaults()
        return bound

    def _schema(self, descriptions: Mapping[str, str]) -> dict[str, JSON]:
        schemas, definitions = self._schemas()
        properties = {
            parameter.name: _without_null(schema, parameter)
            | _description(parameter, descriptions)
            | _default(parameter)
            for parameter, schema in zip(self._parameters.values(), schemas, strict=True)
        }
        required = [each.name for each in self._parameters.values() if each.default is each.empty]
        result: dict[str, JSON] = {"type": "object", "properties": properties}
        return result | ({"required": required} if required else {}) | ({"$defs": definitions} if definitions else {})

    def _schemas(self) -> tuple[list[dict[str, JSON]], dict[str, JSON]]:
        for name, type_ in self._types.items():
            try:
                schemas_of([type_])
            except ConfigError as error:
                raise ConfigError(f"tool {self._name!r}, parameter {name!r}: {error.message}") from error
        return schemas_of(list(self._types.values()))

    def _unknown_parameter(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._parameters, n=1)
        known = ", ".join(self._parameters) or "none"
        return f"{name}: no such parameter" + (f", did you mean {near[0]}?" if near else f" (there are: {known})")


def _resolve_signature(function: Callable[..., JSON], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise ConfigError(f"tool {name!r}: an annotation does not resolve: {error}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool {name!r}: its signature cannot be read: {error}") from error


def _type_of(parameter: inspect.Parameter) -> JSON:
    return JSON if parameter.annotation is parameter.empty else parameter.annotation


def _without_null(schema: dict[str, JSON], parameter: inspect.Parameter) -> dict[str, JSON]:
    """Drop the null type of a parameter whose default is None: small models read a single plain type best."""
    others = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if parameter.default is not None or len(others) != 1 or set(schema) != {"anyOf"}:
        return schema
    plain: dict[str, JSON] = others[0]
    return plain


def _description(parameter: inspect.Parameter, descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return the parameter's description, unless the schema of its type already has it."""
    texts = [text for text in typing.get_args(parameter.annotation)[1:] if isinstance(text, str)]
    annotated = typing.get_origin(parameter.annotation) is typing.Annotated
    description = texts[0] if annotated and texts else descriptions.get(parameter.name, "")
    return {"description": description} if description else {}


def _default(parameter: inspect.Parameter) -> dict[str, JSON]:
    """Return the default if it has a JSON form. None is left out: omitting the parameter means the same."""
    if parameter.default is parameter.empty or parameter.default is None:
        return {}
    try:
        return {"default": msgspec.to_builtins(parameter.default)}
    except TypeError:
        return {}


def _validation_message(name: str, message: str, schema: dict[str, JSON]) -> str:
    """Convert msgspec's "Expected `int`, got `str` - at `$.x[0]`" to "point.x[0]: expected integer, got string"."""
    what, _, where = message.partition(" - at ")
    path = where.strip("`").removeprefix("$")
    problem = _TYPE_NAME.sub(lambda found: _JSON_TYPES[found[1]], what).replace("`", "")
    allowed = f" (allowed: {json.dumps(schema['enum'], ensure_ascii=False)[1:-1]})" if "enum" in schema else ""
    return f"{name}{path}: {problem[0].lower()}{problem[1:]}{allowed}"
