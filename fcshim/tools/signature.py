"""A Python signature as a tool's parameters: their JSON Schema, and the conversion of JSON to Python values.

A parameter's type comes from its annotation; its description from the metadata in `Annotated`, else from the
docstring. pydantic's `Field` may be in `Annotated` or the default.
"""

import difflib
import inspect
import json
import typing
from collections.abc import Callable, Mapping

from fcshim.errors import ConfigError, ToolError
from fcshim.events import JSON
from fcshim.tools.base import NO_CONTEXT, CallContext
from fcshim.tools.result import ToolResult
from fcshim.tools.value_type import MistakesError, converter, schemas_of, to_plain

_VARIADIC_PREFIXES = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class ToolSignature:
    """The parameters of one function.

    `schema` is the JSON Schema of its arguments object, `returns` that of its result, None without one. Raises
    `ConfigError` for a parameter without a schema: `*args`, `**kwargs`, a type without a JSON form, an annotation that
    does not resolve.
    """

    def __init__(self, function: Callable[..., JSON], name: str, descriptions: Mapping[str, str]) -> None:
        self._name = name
        self._signature = _resolve_signature(function, name)
        parameters = [_with_field_default(each) for each in self._signature.parameters.values()]
        self._context_names = [each.name for each in parameters if each.annotation is CallContext]
        self._parameters = {each.name: each for each in parameters if each.name not in self._context_names}
        for parameter in self._parameters.values():
            if parameter.kind in _VARIADIC_PREFIXES:
                notation = f"{_VARIADIC_PREFIXES[parameter.kind]}{parameter.name}"
                raise ConfigError(f"tool {name!r}: {notation} has no schema; name each parameter of a tool")
        self._types = {each.name: _type_of(each) for each in self._parameters.values()}
        self.schema: dict[str, JSON] = self._schema(descriptions)
        self.returns = _schema_of_result(self._signature.return_annotation)
        self._converters = {name: converter(type_) for name, type_ in self._types.items()}

    def bind(self, arguments: Mapping[str, JSON], context: CallContext = NO_CONTEXT) -> inspect.BoundArguments:
        """Convert JSON values to the function's arguments. Raises `ToolError` that names every mistake."""
        values: dict[str, JSON] = dict.fromkeys(self._context_names, context)
        mistakes = self._unknown_parameters(arguments)
        for name, parameter in self._parameters.items():
            if name not in arguments:
                mistakes += [f"{name}: missing"] if parameter.default is parameter.empty else []
                continue
            try:
                values[name] = self._converters[name](arguments[name])
            except MistakesError as error:
                schema = self.schema["properties"][name]
                allowed = (
                    f" (allowed: {json.dumps(schema['enum'], ensure_ascii=False)[1:-1]})" if "enum" in schema else ""
                )
                mistakes += [f"{name}{mistake}{allowed}" for mistake in error.mistakes]
        if mistakes:
            raise ToolError(f"Wrong arguments for {self._name}:\n" + "\n".join(f"- {mistake}" for mistake in mistakes))
        return self._with_defaults(values)

    def _with_defaults(self, values: dict[str, JSON]) -> inspect.BoundArguments:
        for name, parameter in self._parameters.items():
            if name not in values and _is_field(parameter.default):
                values[name] = parameter.default.get_default(call_default_factory=True)
        bound = inspect.BoundArguments(self._signature, values)
        bound.apply_defaults()
        return bound

    def _schema(self, descriptions: Mapping[str, str]) -> dict[str, JSON]:
        schemas, definitions = self._schemas()
        properties = {
            parameter.name: _without_null(schema, _default_of(parameter))
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

    def _unknown_parameters(self, arguments: Mapping[str, JSON]) -> list[str]:
        """Return a mistake for each argument that is no parameter."""
        mistakes = []
        for name in arguments:
            if name not in self._parameters:
                near = difflib.get_close_matches(name, self._parameters, n=1)
                hint = (
                    f", did you mean {near[0]}?" if near else f" (there are: {', '.join(self._parameters) or 'none'})"
                )
                mistakes.append(f"{name}: no such parameter{hint}")
        return mistakes


def _schema_of_result(annotation: JSON) -> dict[str, JSON] | None:
    if annotation in (inspect.Signature.empty, None, ToolResult, JSON):
        return None
    try:
        (schema,), definitions = schemas_of([annotation])
    except ConfigError:
        return None
    return schema | ({"$defs": definitions} if definitions else {})


def _resolve_signature(function: Callable[..., JSON], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise ConfigError(f"tool {name!r}: an annotation does not resolve: {error}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool {name!r}: its signature cannot be read: {error}") from error


def _with_field_default(parameter: inspect.Parameter) -> inspect.Parameter:
    """Read pydantic's `Field`, as the default or in `Annotated`: it has the default, and the bounds of the type."""
    written = parameter.default
    if _is_field(written):
        annotated = typing.cast("JSON", typing.Annotated)[_type_of(parameter), written]
        required = written.is_required()
        return parameter.replace(annotation=annotated, default=parameter.empty if required else written)
    defaults = [each for each in _metadata(parameter) if _is_field(each) and not each.is_required()]
    return parameter.replace(default=defaults[-1]) if defaults and written is parameter.empty else parameter


def _is_field(value: JSON) -> bool:
    return type(value).__module__ == "pydantic.fields"


def _type_of(parameter: inspect.Parameter) -> JSON:
    return JSON if parameter.annotation is parameter.empty else parameter.annotation


def _metadata(parameter: inspect.Parameter) -> tuple[JSON, ...]:
    annotation = parameter.annotation
    return annotation.__metadata__ if typing.get_origin(annotation) is typing.Annotated else ()


def _without_null(schema: dict[str, JSON], default: JSON) -> dict[str, JSON]:
    """Drop the null type of a parameter whose default is None: small models read a single plain type best."""
    others = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if default is not None or len(others) != 1 or not schema.keys() <= {"anyOf", "default", "description"}:
        return schema
    plain: dict[str, JSON] = others[0] | {key: value for key, value in schema.items() if key == "description"}
    return plain


def _description(parameter: inspect.Parameter, descriptions: Mapping[str, str]) -> dict[str, str]:
    """Return the description of the parameter rather than of its type: from `Annotated`, else from the docstring."""
    metadata = _metadata(parameter)
    written = [each if isinstance(each, str) else getattr(each, "description", None) for each in metadata]
    texts = [text for text in (*written, descriptions.get(parameter.name)) if isinstance(text, str) and text]
    return {"description": texts[0]} if texts else {}


def _default_of(parameter: inspect.Parameter) -> JSON:
    return parameter.default.get_default() if _is_field(parameter.default) else parameter.default


def _default(parameter: inspect.Parameter) -> dict[str, JSON]:
    """Return the default if it has a JSON form. None is left out: omitting the parameter means the same."""
    default = _default_of(parameter)
    if default is parameter.empty or default is None:
        return {}
    try:
        return {"default": to_plain(default)}
    except TypeError:
        return {}
