"""JSON on the wire, written and read: with what msgspec rejects, its fields checked, and limits on what it may contain.

Rule: lone surrogates, which UTF-8 cannot encode, become U+FFFD; everything else is written unchanged. Documents of an
upstream may also contain invalid UTF-8 and raw control characters (all seen in relays), and what an upstream sends is
never an error. An error message names the field of the client, the expected type and the value that came; null counts
as absent. Whatever a client or an upstream can make grow has a limit here, with a default and its reason. The server
limits the size of a request body.
"""

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from fcshim.codecs.body_fields import BodyFields, FieldRules, InvalidBodyError, has_more_values, split_fields
from fcshim.codecs.framing import LINE_BYTES
from fcshim.errors import RequestError
from fcshim.events import JSON
from fcshim.messages import Tool, check_names
from fcshim.schema.limits import exceeds_depth, may_exceed_depth

T = TypeVar("T")
Default = TypeVar("Default")

_encode = msgspec.json.encode


def write_json(value: JSON) -> bytes:
    """Encode a value as JSON."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_repair_surrogates_in(value))


def _repair_surrogates_in(value: JSON) -> JSON:
    if isinstance(value, str):
        return repair_surrogates(value)
    if isinstance(value, list):
        return [_repair_surrogates_in(item) for item in value]
    if isinstance(value, dict):
        return {repair_surrogates(key): _repair_surrogates_in(item) for key, item in value.items()}
    return value


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD, so that the text can be encoded as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def json_reader(kind: type[T]) -> Callable[[bytes], T | None]:
    """Return a function that decodes an upstream's document; it returns None for what is not JSON of that type."""
    decode = msgspec.json.Decoder(kind).decode

    def read(document: bytes) -> T | None:
        try:
            return decode(document)
        except (ValueError, RecursionError):
            return _read_lenient(document, decode)

    return read


def _read_lenient(document: bytes, decode: Callable[[bytes], T]) -> T | None:
    try:
        value = json.loads(document.decode("utf-8", "replace"), strict=False)
        return decode(_encode(_repair_surrogates_in(value)))
    except (ValueError, RecursionError):
        return None


def is_json(document: bytes) -> bool:
    """Return whether a document is complete, strict JSON."""
    try:
        msgspec.json.decode(document)
    except (ValueError, RecursionError):
        return False
    return True


def arguments_object(arguments: str) -> dict[str, JSON]:
    """Return the arguments of a call for an API that accepts only objects; anything else becomes an empty one."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request."""

    tools: int = 512
    """As many as agents with many MCP servers have; the setting `tool_limit` is lower, after `max_tools` is applied."""
    schema_bytes: int = 256 * 1024
    """All tool definitions of a request together: about 64,000 tokens of prompt. Schema bombs are larger."""
    schema_depth: int = 32
    """Levels of nesting in one schema; real ones stay under 15. Deeper ones attack recursive readers."""
    recalled_bytes: int = 64 * 2**20
    """Stored items that one request may load: as many as the store of replies holds by default."""
    choices: int = 128
    """The limit of OpenAI's own API for `n`; each choice has a parser of its own."""


class DecoderLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one upstream reply."""

    line_bytes: int = LINE_BYTES
    """Bytes of one event of the stream, or of one whole JSON body."""
    call_chars: int = LINE_BYTES
    """Characters of the arguments of one native call: as many as one event may have."""
    choices: int = 128
    """The limit of OpenAI's own API for `n`."""


DEFAULT_LIMITS = RequestLimits()
DEFAULT_DECODER_LIMITS = DecoderLimits()


def check_tools(tools: Sequence[Tool], limits: RequestLimits) -> None:
    """Refuse tools beyond the limits, which are narrower than those of `as_tools`, and a name that two of them have.

    Raises `RequestError`.
    """
    if len(tools) > limits.tools:
        raise RequestError(f"tools: at most {limits.tools} are allowed, got {len(tools)}", param="tools")
    size = sum(_checked_size(tool, position, limits) for position, tool in enumerate(tools))
    if size > limits.schema_bytes:
        raise RequestError(
            f"tools: names, descriptions and schemas take {size} bytes, {limits.schema_bytes} are allowed",
            param="tools",
        )
    check_names(tools)


def _checked_size(tool: Tool, position: int, limits: RequestLimits) -> int:
    """Return the bytes of a tool as JSON. Raises `RequestError` if its schema is too deep."""
    with contextlib.suppress(RecursionError):
        text = msgspec.json.encode(tool)
        schemas, deepest = [tool.parameters, tool.returns], limits.schema_depth + 1
        if not may_exceed_depth(text, limits.schema_depth) or not exceeds_depth(schemas, deepest):
            return len(text)
    raise RequestError(
        f"tools[{position}]: the schema is nested deeper than {limits.schema_depth} levels",
        param=f"tools[{position}].parameters",
    )


_TYPE_NAMES: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "an integer",
    list: "an array",
    dict: "an object",
}
_EXCERPT_CHARS = 40
_TOOL_NAME = re.compile(r"[\w.:/-]{1,128}")
"""Accepts the names of MCP and of every API; no character needs escaping."""


MAX_ARGUMENT_VALUES = 30_000
"""JSON values in the arguments of a past call that come as text, which decoders of JSON read later."""
MAX_DEPTH = 100
"""Levels of nesting in one field of a request, or in one item of an array: the conversation's own are under 10."""


def read_object(body: bytes | BodyFields, rules: FieldRules) -> dict[str, JSON]:
    """Decode the known fields of a request's body; the others stay `msgspec.Raw`, which is written as it came.

    Raises `RequestError` unless the body is one JSON object within the limits.
    """
    try:
        fields = split_fields(body, rules) if isinstance(body, bytes) else body
    except InvalidBodyError as error:
        raise RequestError(error.message, param=error.field) from None
    source: dict[str, JSON] = {}
    for name, raw in fields.values.items():
        if name in rules.known:
            source[name] = _decode_field(raw, name)
        else:  # a copy, because a `Raw` keeps the whole body alive
            source[name] = None if bytes(memoryview(raw)[:5]) == b"null" else raw.copy()
    return source


def _decode_field(raw: msgspec.Raw, name: str) -> JSON:
    """Decode a field, an array item by item: other threads run between two calls of msgspec."""
    data = bytes(raw)
    is_array = data[:1] == b"["
    values: list[JSON] = []
    try:
        for item in msgspec.json.decode(data, type=list[msgspec.Raw]) if is_array else (data,):
            encoded = bytes(item)
            value = msgspec.json.decode(encoded)
            if may_exceed_depth(encoded, MAX_DEPTH) and exceeds_depth(value, MAX_DEPTH):
                raise _too_deep(name)
            values.append(value)
    except RecursionError:
        raise _too_deep(name) from None
    except ValueError as error:
        raise RequestError(f"the request body is not valid JSON: {name}: {error}", param=name) from None
    return values if is_array else values[0]


def check_arguments(arguments: str, path: str) -> str:
    """Return the arguments of a past call, which are JSON in a string. Raises `RequestError` for very many values."""
    if len(arguments) > MAX_ARGUMENT_VALUES:
        data = arguments.encode("utf-8", "surrogatepass")
        if has_more_values(data, MAX_ARGUMENT_VALUES):
            raise RequestError(f"{path}: more than {MAX_ARGUMENT_VALUES} JSON values", param=path)
    return arguments


def _too_deep(name: str) -> RequestError:
    return RequestError(f"{name}: nested deeper than {MAX_DEPTH} levels", param=name)


def expect(value: JSON, kind: type[T], path: str, *, param: str | None = "") -> T:
    """Return `value` if it has that type (true and false are not integers), else raise `RequestError`.

    `param` is the field name in the error; by default it is `path`.
    """
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise field_error(value, _TYPE_NAMES[kind], path, param=param)


def field_error(value: JSON, expected: str, path: str, *, param: str | None = "") -> RequestError:
    """Create the error for a value at `path` that is not what was expected."""
    return RequestError(
        f"{path}: expected {expected}, got {describe_value(value)}", param=path if param == "" else param
    )


def read_field(source: dict[str, JSON], name: str, kind: type[T], default: Default, prefix: str = "") -> T | Default:
    """Read a field of that type; `default` where it is absent or null. `prefix` is the path of `source` and a dot."""
    value = source.get(name)
    if value is None or type(value) is kind:  # the path of a field is written only where it is needed
        return default if value is None else value
    return expect(value, kind, f"{prefix}{name}")


def read_required(source: dict[str, JSON], name: str, kind: type[T], path: str) -> T:
    """Read a field of that type of the object at `path`. Raises `RequestError` where it is absent, too."""
    value = source.get(name)
    if type(value) is kind:  # as above
        return value
    return expect(value, kind, f"{path}.{name}")


def read_texts(source: dict[str, JSON], name: str, prefix: str = "") -> tuple[str, ...]:
    """Read an array of strings; empty where it is absent or null."""
    listed = read_field(source, name, list, [], prefix)
    return tuple(expect(text, str, f"{prefix}{name}[{at}]") for at, text in enumerate(listed))


def object_schema(*required: str, **properties: JSON) -> dict[str, JSON]:
    """Return the schema of an object with these properties and no others."""
    named = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **named, "additionalProperties": False}


def read_number(source: dict[str, JSON], name: str, prefix: str = "") -> float | None:
    """Read a number; None where it is absent or null."""
    value = source.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise field_error(value, "a number", f"{prefix}{name}")


def read_integer(
    source: dict[str, JSON], name: str, *, minimum: int, maximum: int | None = None, prefix: str = ""
) -> int | None:
    """Read an integer within bounds; None where it is absent or null."""
    value = source.get(name)
    if value is None:
        return None
    count = expect(value, int, f"{prefix}{name}")
    if count < minimum or (maximum is not None and count > maximum):
        expected = f"an integer from {minimum} to {maximum}" if maximum else f"an integer of at least {minimum}"
        raise field_error(value, expected, f"{prefix}{name}")
    return count


def read_tool_name(tool: dict[str, JSON], path: str) -> str:
    """Read the name of a tool."""
    name = read_required(tool, "name", str, path)
    if not _TOOL_NAME.fullmatch(name):
        raise field_error(name, "1 to 128 letters, digits or _ - . : /", f"{path}.name")
    return name


def read_count(counts: JSON, name: str) -> int:
    """Read a count that an upstream reports; one that is missing or not a positive integer is 0."""
    value = counts.get(name) if isinstance(counts, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def describe_value(value: JSON) -> str:
    """Describe a JSON value by its type, or by an excerpt of at most 40 characters."""
    if isinstance(value, str):
        return f"the string {value[:_EXCERPT_CHARS]!r}"
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return str(msgspec.json.encode(value)[:_EXCERPT_CHARS], "ascii", "replace")
