"""Compiles a tool's schema to the expectation of each value, for a parser that reads the value as it arrives.

Theory of operation. A schema is a list of alternatives, each of them a `SchemaShape`. A value that fits an alternative
is never changed; a shape admits what its schema admits, or more. Where exactly one alternative admits objects, the
members of an object are checked one by one, and likewise the elements of an array: such values can be streamed. Where
several alternatives admit objects, the right one is known only when the value is complete. `streaming_starts` therefore
says, by a value's first character, whether it may be sent as it arrives: no coercion can apply to the value as a whole,
and for coercions inside it there are `member`, `item` and `drops_null`.

Schemas of equal JSON share what was compiled, because an agent sends the same tools with each turn. Parts are compiled
when a value needs them; several threads may do that at once, and get the same objects.

Rule: compiling never raises and is bounded; an unusable schema, or part of one, expects `ANY`.
"""

import contextlib
import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import TypeAlias

from fcshim.events import JSON
from fcshim.schema.alternatives import Alternative, Expansion
from fcshim.schema.limits import StepLimit
from fcshim.schema.node import CONTAINERS, KINDS, Node, ValueKind, has_lone_surrogate

CompileSchemas: TypeAlias = "Callable[[tuple[JSON, ...]], Expectation]"
"""Compiles a conjunction of schemas."""

_DIGITS = frozenset("-0123456789")
_ALL_STARTS = frozenset('{["tfn') | _DIGITS
_MAX_STEPS = 30_000
"""Steps of compiling one schema, 60 ms in all: 1,300 different subschemas that values needed. References that multiply
would never end; the parts beyond the limit expect ANY."""
_MAX_CACHED = 16 * 1024
"""Characters of the JSON of a schema that is cached, some 300 parameters with descriptions; with `_MAX_SCHEMAS` the
cache has at most 4 MB of JSON."""
_MAX_SCHEMAS = 256
"""Schemas in the cache: the tools of some ten agents."""
_MIN_DISCRIMINATED = 8
"""Fewer alternatives are tried one after the other."""
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
        """Return whether a value of this kind is admitted, without looking into objects and arrays."""
        if kind not in self.kinds:
            return False
        return self.values is None or kind in CONTAINERS or scalar_key(value) in self.values

    def merge_scalars(self, other: "SchemaShape") -> bool:
        """Merge scalars if both shapes list scalars only, or admit any of the same kinds; return whether they did."""
        if (self.kinds | other.kinds) & CONTAINERS:
            return False
        if self.values is None or other.values is None:
            return self.values is other.values and self.kinds == other.kinds
        self.values |= other.values
        self.kinds |= other.kinds
        return True

    def find_ignoring_case(self, text: str) -> str | None:
        """Return the admitted string that differs from `text` only in letter case; None unless there is exactly one."""
        if self._casefolded is None:
            found: dict[str, str | None] = {}
            for _, value in self.values or ():
                if isinstance(value, str) and not has_lone_surrogate(value):
                    folded = value.casefold()
                    found[folded] = None if folded in found else value
            self._casefolded = found
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
        """Return whether a key may stand in the object."""
        return all(
            key in _dict(schema, "properties")
            or schema.get("additionalProperties") is not False
            or _dict(schema, "patternProperties")
            for schema in self._schemas
        )

    def lists_member(self, key: str) -> bool | None:
        """Return whether a key is one of the properties; None where the schema leaves the keys open."""
        properties = [_dict(schema, "properties") for schema in self._schemas]
        if any(key in known for known in properties):
            return True
        others = any(
            schema.get("additionalProperties") or _dict(schema, "patternProperties") for schema in self._schemas
        )
        return None if others or not any(properties) else False

    def drops_null(self, key: str) -> bool:
        """Return whether a null member is removed: it is a known, optional property that does not admit null."""
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


class Expectation:
    """The expectation for one value: one of the `shapes` admits it.

    Without shapes anything fits, or nothing (`admits_nothing`). `streaming_starts` holds the first characters of the
    values that may be sent as they arrive. With `streams_integers`, a number without point and exponent may be sent
    when it is complete. With `only_strings` any string fits and nothing else: untyped text may be streamed as one.
    """

    __slots__ = (
        "_by_member",
        "_compiler",
        "_objects",
        "_only_array",
        "_only_object",
        "admits_nothing",
        "only_strings",
        "shapes",
        "streaming_starts",
        "streams_integers",
    )

    def __init__(
        self,
        shapes: tuple[SchemaShape, ...],
        *,
        admits_nothing: bool = False,
        compiler: "_SchemaCompiler | None" = None,
    ) -> None:
        self.shapes = shapes
        self._compiler = compiler
        self._by_member: _ShapesByMember | None = None
        self.admits_nothing = admits_nothing
        self._objects = objects = tuple(shape for shape in shapes if "object" in shape.kinds)
        arrays = [shape for shape in shapes if "array" in shape.kinds]
        self._only_object = objects[0] if len(objects) == 1 else None
        self._only_array = arrays[0] if len(arrays) == 1 else None
        self.streaming_starts = _streaming_starts(shapes, len(objects), len(arrays)) if shapes else _ALL_STARTS
        if admits_nothing:
            self.streaming_starts -= {"n"}  # a null member that must be absent is removed
        self.streams_integers = any(shape.values is None and "integer" in shape.kinds for shape in shapes)
        self.only_strings = (
            bool(shapes) and all({"string"} == shape.kinds for shape in shapes) and '"' in self.streaming_starts
        )

    def admits(self, kind: ValueKind, value: JSON) -> bool:
        """Return whether a value of this kind is admitted, without looking into objects and arrays."""
        if not self.shapes:
            return not self.admits_nothing
        return any(shape.admits(kind, value) for shape in self.shapes)

    @property
    def compile_steps(self) -> int:
        """The steps that compiling the whole schema has taken so far."""
        return 0 if self._compiler is None else self._compiler.steps

    def member(self, key: str) -> "Expectation":
        """Return the expectation of a member of a streamed object.

        A call's arguments are streamed even where several alternatives admit objects; then only an expectation that
        they all share counts, else ANY.
        """
        if self._only_object is not None:
            return self._only_object.member(key)
        found = {shape.member(key) for shape in self._objects}
        return found.pop() if len(found) == 1 else ANY

    def lists_member(self, key: str) -> bool | None:
        """Return whether a key is a property of an object that is admitted; None where any key may come."""
        found = {shape.lists_member(key) for shape in self._objects}
        return True if True in found else None if None in found or not found else False

    def discriminated_shapes(self, node: Node) -> list[SchemaShape]:
        """Return the shapes that admit the object's discriminating member as it is; none if there is no such member."""
        if node.kind != "object" or len(self._objects) < _MIN_DISCRIMINATED:
            return []
        if self._by_member is None:
            self._by_member = _shapes_by_member(self._objects)
        name, shapes = self._by_member
        if name not in node.keys:
            return []
        return shapes.get(scalar_key(node.children[node.keys.index(name)].value), [])

    def misses_required(self, keys: Set[str]) -> bool:
        """Return whether an object with these keys lacks a required one; False where several shapes admit objects."""
        return self._only_object is not None and not self._only_object.required <= keys

    def item(self, index: int) -> "Expectation":
        """Return the expectation of an element of a streamed array."""
        return ANY if self._only_array is None else self._only_array.item(index)

    def drops_null(self, key: str) -> bool:
        """Return whether a null member is removed: it is a known, optional property that does not admit null."""
        if self._only_object is not None:
            return self._only_object.drops_null(key)
        return self.member(key) is not ANY and all(shape.drops_null(key) for shape in self._objects)


ANY = Expectation(())
"""Admits anything: everything streams, nothing is changed."""

NOTHING = Expectation((), admits_nothing=True)
"""Admits no value. All values but null still stream, because no coercion could make them fit."""


_COMPILE_STEPS = 20
"""Steps for each new subschema beside those of its expansion, some 40 us: a reply may need 3,000 different ones."""

_ShapesByMember: TypeAlias = tuple[str, dict[tuple[str, JSON], list[SchemaShape]]]
"""The name of a discriminating member, and the shapes by its value."""


def _shapes_by_member(shapes: Sequence[SchemaShape]) -> _ShapesByMember:
    """Find a member that every shape requires and of which it lists the values."""
    common = frozenset.intersection(*(shape.required for shape in shapes))
    for name in sorted(common)[:_MIN_DISCRIMINATED]:
        found: dict[tuple[str, JSON], list[SchemaShape]] = {}
        members = [shape.member(name).shapes for shape in shapes]
        if all(len(each) == 1 and each[0].values and not each[0].kinds & CONTAINERS for each in members):
            for shape, (member,) in zip(shapes, members, strict=True):
                for value in member.values or ():
                    found.setdefault(value, []).append(shape)
            return name, found
    return "", {}


class SchemaExpectations:
    """What the schemas of the tools in one reply expect. Compiling and coercion take of `steps`."""

    __slots__ = ("_by_tool", "_compile_steps", "steps")

    def __init__(self, steps: int) -> None:
        self.steps = StepLimit(steps)
        self._by_tool: dict[str, Expectation] = {}
        self._compile_steps = 0
        """What compiling these has taken since the process began, as far as it is paid for."""

    def get(self, tool: str, schema: JSON) -> Expectation:
        """Return the expectation of the tool's schema; ANY for a further tool where no steps are left."""
        found = self._by_tool.get(tool)
        if found is None:
            taken = sum(each.compile_steps for each in self._by_tool.values())
            self.steps.remaining -= taken - self._compile_steps
            found = compile_schema(schema) if self.steps.remaining >= 0 else ANY
            self._compile_steps = taken + found.compile_steps
            self._by_tool[tool] = found
        return found


def compile_schema(schema: JSON) -> Expectation:
    """Return the expectation of a JSON Schema; never raises, whatever the schema is.

    Supported are `type`, `enum`, `const`, `properties`, `additionalProperties`, `required`, `items`, `prefixItems`,
    `allOf`, `anyOf`, `oneOf`, `nullable` and local `$ref`. Patterns are never run, because Python cannot stop a
    catastrophic one: a key that may match one expects ANY.
    """
    with contextlib.suppress(TypeError, ValueError, RecursionError):  # not JSON, or nested too deeply
        text = json.dumps(schema)
        if len(text) <= _MAX_CACHED:
            return _compile_text(text)
    return _compile(schema)


@functools.lru_cache(maxsize=_MAX_SCHEMAS)
def _compile_text(text: str) -> Expectation:
    """Compile a schema from its JSON, so that later changes of the caller's object do not count."""
    return _compile(json.loads(text))


def _compile(schema: JSON) -> Expectation:
    return _SchemaCompiler(schema).expect((schema,))


class _SchemaCompiler:
    """Compiles expectations inside one schema, cached by the conjunction of subschemas."""

    def __init__(self, root: JSON) -> None:
        self.steps = 0
        """Steps that compiling has taken."""
        self._root = root
        self._cache: dict[tuple[int, ...], Expectation] = {}

    def expect(self, schemas: tuple[JSON, ...]) -> Expectation:
        distinct = {id(schema): schema for schema in schemas if schema is not True}
        key = tuple(distinct)  # the root keeps the subschemas alive, so no id is reused
        found = self._cache.get(key)
        if found is None:
            if self.steps > _MAX_STEPS:
                return ANY
            # Another thread may have compiled it meanwhile: all get the first one, since `Expectation.member` compares.
            found = self._cache.setdefault(key, self._compile(tuple(distinct.values())))
        return found

    def _compile(self, schemas: tuple[JSON, ...]) -> Expectation:
        expansion = Expansion(self._root)
        found = expansion.alternatives(schemas)
        self.steps += expansion.work + _COMPILE_STEPS
        if found is None:
            return ANY
        shapes: list[SchemaShape] = []
        for alternative in found:
            shape = SchemaShape(alternative, self.expect)
            if shape.kinds and not any(earlier.merge_scalars(shape) for earlier in shapes):
                shapes.append(shape)
        return Expectation(tuple(shapes), compiler=self) if shapes else NOTHING


def _streaming_starts(shapes: tuple[SchemaShape, ...], objects: int, arrays: int) -> frozenset[str]:
    """Return the first characters of the values to which, as a whole, no coercion can apply."""
    unlisted = [shape.kinds for shape in shapes if shape.values is None]
    starts: set[str] = set()
    if objects == 1 or (objects == 0 and arrays == 0):  # an object that does not fit can only be wrapped in an array
        starts.add("{")
    if arrays <= 1:  # no coercion applies to an array that does not fit
        starts.add("[")
    if any("string" in kinds for kinds in unlisted):
        starts.add('"')
    if any({"integer", "fraction"} <= kinds for kinds in unlisted):
        starts |= _DIGITS
    for word, value in (("t", True), ("f", False)):
        if arrays == 0 or any(shape.admits("boolean", value) for shape in shapes):
            starts.add(word)
    if any(shape.admits("null", None) for shape in shapes):
        starts.add("n")
    return frozenset(starts)


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
