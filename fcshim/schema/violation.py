"""A violation of a schema, and the place where schemas are evaluated."""

from collections.abc import Callable
from typing import TypeAlias

from fcshim.events import JSON

SchemaPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead from the whole value to the one that is meant."""


class Violation:
    """A violation: where, of which keyword, and for a union its branches, whose own violations say more."""

    __slots__ = ("branches", "keyword", "message", "path", "schema", "value")

    def __init__(
        self,
        path: SchemaPath,
        keyword: str,
        schema: dict[str, JSON],
        value: JSON,
        message: Callable[[], str],
        branches: list[JSON] | None = None,
    ) -> None:
        self.path = path
        self.keyword = keyword
        self.schema = schema
        self.value = value
        self.message = message
        self.branches = branches or []


class Place:
    """One value, and the schema that is evaluated on it."""

    __slots__ = ("path", "schema", "value")

    def __init__(self, schema: dict[str, JSON], value: JSON, path: SchemaPath) -> None:
        self.schema = schema
        self.value = value
        self.path = path

    def violation(self, keyword: str, message: Callable[[], str], branches: list[JSON] | None = None) -> Violation:
        """Return a violation of a keyword by the value here."""
        return Violation(self.path, keyword, self.schema, self.value, message, branches)
