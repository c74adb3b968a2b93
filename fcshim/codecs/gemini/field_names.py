"""The two spellings of every field: `camelCase`, as the API documents it, and `snake_case`, as its own SDKs mix in.

Rule: both are read everywhere, camel case first; only camel case is written.
Neighbours: everything here that reads a client's JSON.
"""

import functools
import re
from collections.abc import Collection
from typing import TypeVar

from fcshim.codecs.fields import expect
from fcshim.events import JSON

T = TypeVar("T")


def get_field(source: dict[str, JSON], name: str) -> JSON:
    """Give a field by its camel-case name; null where it is absent under both."""
    value = source.get(name)
    return source.get(_snake_case(name)) if value is None else value


def take_field(source: dict[str, JSON], name: str, kind: type[T], default: T, prefix: str = "") -> T:
    """Take a field of that kind; `default` where it is absent or null. Raises `RequestError`."""
    value = get_field(source, name)
    return default if value is None else expect(value, kind, f"{prefix}{name}")


def other_fields(source: dict[str, JSON], names: Collection[str]) -> dict[str, JSON]:
    """Give the fields that go by none of `names`."""
    known = {*names, *map(_snake_case, names)}
    return {name: value for name, value in source.items() if name not in known}


@functools.cache
def _snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: "_" + match.group().lower(), name)
