"""Splits the body of a request into the fields of its object, and counts the JSON values in those that are decoded.

msgspec decodes while it holds the interpreter's lock: a megabyte of `[[[[]]]]` takes it half a second, in which every
stream of the process waits. Splitting takes a tenth of that, but as long where an object has very many fields. So the
server has a dense body split in a process of its own.

Rule: it imports nothing of fcshim, which would take such a process half a second.
"""

import re
from typing import BinaryIO

import msgspec

DENSE = 30_000
"""Brackets and commas of a body, also those in strings, above which it is dense: 30,000 fields split in some 20 ms."""
_PIECE = 2**18
"""Bytes that are counted at once."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"', re.DOTALL)


class FieldRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which fields of a body are decoded, and how many JSON values they may have.

    Values are counted by brackets and commas, so an empty array counts as much as a number in one.
    """

    known: frozenset[str]
    """The fields that are decoded; all others stay the bytes that came."""
    fields: int = 1_000
    """Fields of the body: the APIs have some 60."""
    values: int = 100_000
    """Values of one known field that is an array: a conversation of 10,000 messages."""
    item_values: int = 30_000
    """Values of one item of such an array, or of another known field. 256 KB of tools, the most that are allowed, have
    fewer; decoding so many takes some 15 ms."""


class BodyFields(msgspec.Struct, frozen=True):
    """The fields of a body, of which the known ones are within the limits."""

    values: dict[str, msgspec.Raw]


class InvalidBodyError(Exception):
    """The body is no object, or beyond the limits; `field` is the invalid field, if it is one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


def is_dense(body: bytes) -> bool:
    """Return whether a body may have so many values that it should be split in another process."""
    count = 0
    for start in range(0, len(body), _PIECE):
        count += _count(body[start : start + _PIECE])
        if count > DENSE:
            return True
    return False


def split_fields(body: bytes, rules: FieldRules) -> BodyFields:
    """Split a body. Raises `InvalidBodyError`."""
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check the strings of a `Raw`
        values = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except RecursionError:
        raise InvalidBodyError("the request body is nested too deeply") from None
    except msgspec.ValidationError:
        raise InvalidBodyError(f"the request body: expected an object, got {_describe(body)}") from None
    except ValueError as error:
        raise InvalidBodyError(f"the request body is not valid JSON: {error}") from None
    if len(values) > rules.fields:
        raise InvalidBodyError(f"the request body has more than {rules.fields} fields")
    if len(body) > DENSE and is_dense(body):
        for name in rules.known & values.keys():
            _check_values(name, bytes(values[name]), rules)
    return BodyFields(values)


def _check_values(name: str, data: bytes, rules: FieldRules) -> None:
    is_array = data[:1] == b"["
    limit = rules.values if is_array else rules.item_values
    if has_more_values(data, limit):
        raise InvalidBodyError(f"{name}: more than {limit} JSON values", name)
    if is_array and has_more_values(data, rules.item_values):
        for position, item in enumerate(msgspec.json.decode(data, type=list[msgspec.Raw])):
            if has_more_values(bytes(item), rules.item_values):
                raise InvalidBodyError(f"{name}: item {position} has more than {rules.item_values} JSON values", name)


def has_more_values(data: bytes, limit: int) -> bool:
    """Return whether a JSON text has more than `limit` values; brackets and commas in its strings do not count."""
    return _count(data) >= limit and _count(_STRING.sub(b"", data)) >= limit


def _count(data: bytes) -> int:
    return len(data) - len(data.translate(None, b"[{,"))


def _describe(body: bytes) -> str:
    start = body[:64].lstrip()
    return {b"[": "an array", b'"': "a string"}.get(start[:1]) or start[:40].decode("ascii", "replace")


# What the process reads and writes: a line of JSON and the body; a line of JSON and the bytes of the fields.


class SplitResult(msgspec.Struct):
    """The first line of the output: the name and size of each field, or what is wrong with the body."""

    fields: list[tuple[str, int]] = []
    error: str | None = None
    field: str | None = None


def write_input(body: bytes, rules: FieldRules) -> list[bytes]:
    """Return what the process reads, in parts."""
    return [msgspec.json.encode(rules), b"\n", body]


def read_output(output: bytes) -> BodyFields:
    """Read what the process wrote. Raises `InvalidBodyError`, and `ValueError` if it did not finish."""
    start = output.find(b"\n") + 1
    result = msgspec.json.decode(output[:start], type=SplitResult)
    if result.error is not None:
        raise InvalidBodyError(result.error, result.field)
    values = {}
    for name, size in result.fields:
        values[name] = msgspec.Raw(output[start : start + size])
        start += size
    return BodyFields(values)


def split_stream(source: BinaryIO, target: BinaryIO) -> None:
    """Read what `write_input` wrote, and write what `read_output` reads."""
    rules = msgspec.json.decode(source.readline(), type=FieldRules)
    parts: list[bytes] = []
    try:
        values = split_fields(source.read(), rules).values
        parts = [bytes(raw) for raw in values.values()]
        result = SplitResult([(name, len(part)) for name, part in zip(values, parts, strict=True)])
    except InvalidBodyError as error:
        result = SplitResult(error=error.message, field=error.field)
    except MemoryError:
        result = SplitResult(error=f"the request body has more than {rules.fields} fields")
    target.writelines([msgspec.json.encode(result), b"\n", *parts])
