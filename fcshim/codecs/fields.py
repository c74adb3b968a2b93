"""Reading a client's JSON: values are taken out by type, and what is wrong is said with its place.

Rule: a message names the field, what was expected and what came; null counts as absent.
Neighbours: the request readers of the codecs.
"""

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


def read_object(body: bytes) -> dict[str, JSON]:
    """Read the body of a request. Raises `RequestError` unless it is one JSON object."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise RequestError("the request body is nested too deeply") from None
    except ValueError as error:
        raise RequestError(f"the request body is not valid JSON: {error}") from None
    return expect(value, dict, "the request body", param=None)


def expect(value: JSON, kind: type[T], path: str, *, param: str | None = "") -> T:
    """Give `value` if it is of that kind (true and false are no integers). Raises `RequestError`."""
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise field_error(value, _TYPE_NAMES[kind], path, param=param)


def field_error(value: JSON, expected: str, path: str, *, param: str | None = "") -> RequestError:
    """Make the error for a value at `place` that is not what was expected."""
    return RequestError(
        f"{path}: expected {expected}, got {describe_value(value)}", param=path if param == "" else param
    )


def read_field(source: dict[str, JSON], name: str, kind: type[T], default: T, prefix: str = "") -> T:
    """Take a field of that kind; `default` where it is absent or null."""
    value = source.get(name)
    return default if value is None else expect(value, kind, f"{prefix}{name}")


def read_number(source: dict[str, JSON], name: str, prefix: str = "") -> float | None:
    """Take a number."""
    value = source.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise field_error(value, "a number", f"{prefix}{name}")


def read_integer(
    source: dict[str, JSON], name: str, *, minimum: int, maximum: int | None = None, prefix: str = ""
) -> int | None:
    """Take an integer within bounds."""
    value = source.get(name)
    if value is None:
        return None
    count = expect(value, int, f"{prefix}{name}")
    if count < minimum or (maximum is not None and count > maximum):
        expected = f"an integer from {minimum} to {maximum}" if maximum else f"an integer of at least {minimum}"
        raise field_error(value, expected, f"{prefix}{name}")
    return count


def describe_value(value: JSON) -> str:
    """Say what a JSON value is, with a short excerpt."""
    if isinstance(value, str):
        return f"the string {value[:_EXCERPT_CHARS]!r}"
    if isinstance(value, list | dict):
        return "an array" if isinstance(value, list) else "an object"
    return str(msgspec.json.encode(value)[:_EXCERPT_CHARS], "ascii", "replace")
