"""One alternative of a schema: which values it admits, and what it expects of the values inside them.

Rule: a shape always admits what the schema admits; it may admit more.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative
from fcshim.schema.node import CONTAINERS, KINDS, ValueKind, has_lone_surrogate

if TYPE_CHECKING:
    from fcshim.schema.expect import Expectation

CompileSchemas: TypeAlias = "Callable[[tuple[JSON, ...]], Expectation]"
"""Compiles a conjunction of schemas."""

_NUMBER_KINDS: frozenset[ValueKind] = frozenset({"integer", "fraction"})
_KINDS_OF_TYPE: dict[str, frozenset[ValueKind]] = {
    "object": frozenset({"object"}),
    "array": frozenset({"array"}),
    "string": frozenset({"string"}),
    # Since draft 6 of JSON Schema 5.0 is an integer, but few programs that read arguments accept it as one.
    "integer": frozenset({"integer"}),
    "number": _NUMBER_KINDS,
    "boolean": frozenset({"boolean"}),
    "null": frozenset({"null"}),
}
_TYPE_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "number",  # 5 may be written 5.0
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_NULL_KINDS: frozenset[ValueKind] = frozenset({"null"})


class SchemaShape:
    """A conjunction of plain schemas, without unions and references.

    `kinds` are the admitted kinds of value; `values` are the admitted scalars where there is `enum` or `const`.
    """

    __slots__ = (
        "_additional_member",
        "_casefolded",
        "_compile_schemas",
        "_further_items",
        "_members",
        "_prefix_items",
        "_prefix_length",
        "_schemas",
        "kinds",
        "required",
        "values",
    )

    def __init__(self, schemas: Alternative, compile_schemas: CompileSchemas) -> None:
        self.kinds = KINDS
        self.values: frozenset[tuple[str, JSON]] | None = None
        for schema in schemas:
            self._narrow(schema)
        self.required = frozenset(key for schema in schemas for key in _strings(schema.get("required")))
        self._schemas = schemas
        self._compile_schemas = compile_schemas
        self._members: dict[str, Expectation] = {}
        self._additional_member: Expectation | None = None
        self._prefix_items: dict[int, Expectation] = {}
        self._prefix_length = max((len(_prefix_schemas(schema)) for schema in schemas), default=0)
        self._further_items: Expectation | None = None
        self._casefolded: dict[str, str | None] | None = None

    def _narrow(self, schema: dict[str, JSON]) -> None:
        kinds = _kinds(schema.get("type"))
        values = _values(schema)
        nullable = schema.get("nullable") is True
        if kinds is not None:
            self.kinds &= kinds | _NULL_KINDS if nullable else kinds
        if values is not None:
            self.kinds &= frozenset().union(*map(_kinds_of, values), _NULL_KINDS if nullable else ())
            keys = frozenset(scalar_key(value) for value in values if not isinstance(value, dict | list))
            keys |= {scalar_key(None)} if nullable else frozenset()
            self.values = keys if self.values is None else self.values & keys

    def admits(self, kind: ValueKind, value: JSON) -> bool:
        """Say whether a value of this kind is admitted, without looking into objects and arrays."""
        if kind not in self.kinds:
            return False
        return self.values is None or kind in CONTAINERS or scalar_key(value) in self.values

    def merge_scalars(self, other: "SchemaShape") -> bool:
        """Add another shape's scalars if both shapes are only lists of scalars; return whether it did."""
        if self.values is None or other.values is None or (self.kinds | other.kinds) & CONTAINERS:
            return False
        self.values |= other.values
        self.kinds |= other.kinds
        return True

    def find_ignoring_case(self, text: str) -> str | None:
        """Return the admitted string that differs from `text` only in letter case; None unless there is exactly one."""
        if self._casefolded is None:
            self._casefolded = {}
            for _, value in self.values or ():
                if isinstance(value, str) and not has_lone_surrogate(value):
                    folded = value.casefold()
                    self._casefolded[folded] = None if folded in self._casefolded else value
        return self._casefolded.get(text.casefold())

    # Objects.

    def member(self, key: str) -> "Expectation":
        """Return the expectation of a member."""
        found = self._members.get(key)
        if found is not None:
            return found
        known = any(key in _dict(schema, "properties") for schema in self._schemas)
        found = None if known else self._additional_member
        if found is None:
            found = self._compile_schemas(tuple(self._member_schemas(key)))
            if known:
                self._members[key] = found
            else:
                # One for all keys that the schema does not name, because a model may write any number of them.
                self._additional_member = found
        return found

    def _member_schemas(self, key: str) -> Iterator[JSON]:
        for schema in self._schemas:
            properties = _dict(schema, "properties")
            if key in properties:
                yield properties[key]
            elif not _dict(schema, "patternProperties"):
                yield schema.get("additionalProperties", True)

    def admits_member(self, key: str) -> bool:
        """Say whether a key may stand in the object."""
        return all(
            key in _dict(schema, "properties")
            or schema.get("additionalProperties") is not False
            or _dict(schema, "patternProperties")
            for schema in self._schemas
        )

    def drops_null(self, key: str) -> bool:
        """Say whether a null member is removed: it is a known, optional property that does not admit null."""
        if key in self.required or not any(key in _dict(schema, "properties") for schema in self._schemas):
            return False
        return not self.member(key).admits("null", None)

    # Arrays.

    def item(self, index: int) -> "Expectation":
        """Return the expectation of an element."""
        if index < self._prefix_length:
            if index not in self._prefix_items:
                self._prefix_items[index] = self._compile_schemas(tuple(self._item_schemas(index)))
            return self._prefix_items[index]
        if self._further_items is None:
            self._further_items = self._compile_schemas(tuple(self._item_schemas(index)))
        return self._further_items

    def _item_schemas(self, index: int) -> Iterator[JSON]:
        for schema in self._schemas:
            prefix = _prefix_schemas(schema)
            if index < len(prefix):
                yield prefix[index]
            elif isinstance(schema.get("items"), list):
                yield schema.get("additionalItems", True)
            else:
                yield schema.get("items", True)


def scalar_key(value: JSON) -> tuple[str, JSON]:
    """Return a key that is equal for scalars that JSON Schema treats as equal: 1 equals 1.0, but true is not 1."""
    if isinstance(value, bool):
        return ("boolean", value)
    return ("number" if isinstance(value, int | float) else "other", value)


def _kinds(types: JSON) -> frozenset[ValueKind] | None:
    """Return the kinds that `type` names; None where it is missing or invalid."""
    names = [types] if isinstance(types, str) else types
    if not isinstance(names, list) or not names:
        return None
    if not all(isinstance(name, str) and name in _KINDS_OF_TYPE for name in names):
        return None
    return frozenset().union(*(_KINDS_OF_TYPE[name] for name in names))


def _values(schema: dict[str, JSON]) -> list[JSON] | None:
    """Return the values of `enum` and `const`; None where there is neither, or where one is not JSON."""
    listed = schema.get("enum")
    values = listed if isinstance(listed, list) and listed else None
    if "const" in schema:
        const = schema["const"]
        values = [const] if values is None or const in values else []
    if values is None or not all(map(_kinds_of, values)):
        return None
    return values


def _kinds_of(value: JSON) -> frozenset[ValueKind]:
    """Return the kinds in which a value equal to `value` may be written; none where it is not JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return frozenset()
    return _KINDS_OF_TYPE.get(_TYPE_NAMES.get(type(value), ""), frozenset())


def _dict(schema: dict[str, JSON], keyword: str) -> dict[str, JSON]:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def _prefix_schemas(schema: dict[str, JSON]) -> list[JSON]:
    """Return the schemas of the first elements (`prefixItems`, or a list in `items` up to draft 2019-09)."""
    for keyword in ("prefixItems", "items"):
        value = schema.get(keyword)
        if isinstance(value, list):
            return value
    return []


def _strings(values: JSON) -> Iterable[str]:
    return (value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
