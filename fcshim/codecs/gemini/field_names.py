"""The two spellings of every field: `camelCase`, as documented, and `snake_case`, which Google's own SDKs mix in.

Rule: both are read everywhere, camel case first; only camel case is written.
"""

import functools
import re
from collections.abc import Collection
from typing import TypeVar

from fcshim.codecs.json_text import expect
from fcshim.events import JSON

T = TypeVar("T")


def get_field(source: dict[str, JSON], name: str) -> JSON:
    """Return a field by its camel-case name; None if both spellings are absent."""
    value = source.get(name)
    return source.get(snake_case(name)) if value is None else value


def take_field(source: dict[str, JSON], name: str, kind: type[T], default: T, prefix: str = "") -> T:
    """Read a field of that type; `default` if it is absent or null.

    Raises `RequestError` that names the field, with `prefix` in front.
    """
    value = get_field(source, name)
    return default if value is None else expect(value, kind, f"{prefix}{name}")


def other_fields(source: dict[str, JSON], names: Collection[str]) -> dict[str, JSON]:
    """Return the fields whose names are not in `names`, in either spelling."""
    known = {*names, *map(snake_case, names)}
    return {name: value for name, value in source.items() if name not in known}


def camel_case(name: str) -> str:
    """Return the documented spelling of a name."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


@functools.cache
def snake_case(name: str) -> str:
    """Return the spelling of a name that Google's own SDKs mix in."""
    return re.sub(r"[A-Z]", lambda match: "_" + match.group().lower(), name)
