"""Typed access to the fields of JSON.

Rule: an error message names the field of the client, the expected type and the value that came; null counts as absent.
What an upstream sends is never an error.
"""

import re
from typing import TypeVar

import msgspec

from fcshim.errors import RequestError
from fcshim.events import JSON

T = TypeVar("T")

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


def read_object(body: bytes) -> dict[str, JSON]:
    """Decode the body of a request. Raises `RequestError` unless it is one JSON object."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise RequestError("the request body is nested too deeply") from None
    except ValueError as error:
        raise RequestError(f"the request body is not valid JSON: {error}") from None
    return expect(value, dict, "the request body", param=None)


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


def read_field(source: dict[str, JSON], name: str, kind: type[T], default: T, prefix: str = "") -> T:
    """Read a field of that type; `default` where it is absent or null. `prefix` is the path of `source` and a dot."""
    value = source.get(name)
    return default if value is None else expect(value, kind, f"{prefix}{name}")


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
    name = expect(tool.get("name"), str, f"{path}.name")
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
