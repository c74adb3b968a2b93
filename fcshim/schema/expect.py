"""What a tool's schema expects of each value: a lazy, cached view for a parser that reads the value as it arrives.

Theory of operation. A schema is a list of alternatives, each of them a `SchemaShape`. A value that fits an alternative
is never changed. Where exactly one alternative admits objects, the members of an object are checked one by one, and
likewise the elements of an array: such values can be streamed. Where several alternatives admit objects, the right one
is known only when the value is complete. `streaming_starts` therefore says, by a value's first character, whether it
may be sent as it arrives: no coercion can apply to the value as a whole, and for coercions inside it there are
`member`, `item` and `drops_null`.

Rule: compiling never raises and is bounded; an unusable schema, or part of one, expects `ANY`.
"""

from collections.abc import Set

from fcshim.events import JSON
from fcshim.schema.alternatives import Expansion
from fcshim.schema.coerce import CoercedValue, coerce
from fcshim.schema.node import ValueKind
from fcshim.schema.shape import SchemaShape
from fcshim.schema.untyped_text import read_untyped_text

_DIGITS = frozenset("-0123456789")
_ALL_STARTS = frozenset('{["tfn') | _DIGITS
_MAX_WORK = 250_000
"""Steps of compiling one schema, half a second in all. The largest schemas within `ToolLimits` take a tenth of it.
References that multiply would never end; the parts beyond the limit expect ANY."""


class Expectation:
    """What is expected of one value: that one of the `shapes` admits it.

    Without shapes anything fits, or nothing (`admits_nothing`). `streaming_starts` holds the first characters of the
    values that may be sent as they arrive. With `streams_integers`, a number without point and exponent may be sent
    when it is complete. With `only_strings` any string fits and nothing else: untyped text may be streamed as one.
    """

    __slots__ = (
        "_objects",
        "_only_array",
        "_only_object",
        "admits_nothing",
        "only_strings",
        "shapes",
        "streaming_starts",
        "streams_integers",
    )

    def __init__(self, shapes: tuple[SchemaShape, ...], *, admits_nothing: bool = False) -> None:
        self.shapes = shapes
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
        """Say whether a value of this kind is admitted, without looking into objects and arrays."""
        if not self.shapes:
            return not self.admits_nothing
        return any(shape.admits(kind, value) for shape in self.shapes)

    def member(self, key: str) -> "Expectation":
        """Return the expectation of a member of a streamed object.

        A call's arguments are streamed even where several alternatives admit objects; then only an expectation that
        they all share counts, else ANY.
        """
        if self._only_object is not None:
            return self._only_object.member(key)
        found = {shape.member(key) for shape in self._objects}
        return found.pop() if len(found) == 1 else ANY

    def misses_required(self, keys: Set[str]) -> bool:
        """Say whether an object with these keys lacks a required one; False where several shapes admit objects."""
        return self._only_object is not None and not self._only_object.required <= keys

    def item(self, index: int) -> "Expectation":
        """Return the expectation of an element of a streamed array."""
        return ANY if self._only_array is None else self._only_array.item(index)

    def drops_null(self, key: str) -> bool:
        """Say whether a null member is removed: it is a known, optional property that does not admit null."""
        if self._only_object is not None:
            return self._only_object.drops_null(key)
        return self.member(key) is not ANY and all(shape.drops_null(key) for shape in self._objects)

    def coerce(self, value: JSON, raw: str) -> CoercedValue | None:
        """Return a complete value coerced, or None where nothing changes; `raw` is its strict JSON."""
        return coerce(self, value, raw)

    def text_to_json(self, text: str) -> str:
        """Return the JSON of a value that a tagged format writes without a type."""
        return read_untyped_text(self, text)


ANY = Expectation(())
"""Admits anything: everything streams, nothing is changed."""

NOTHING = Expectation((), admits_nothing=True)
"""Admits no value. All values but null still stream, because no coercion could make them fit."""


def compile_schema(schema: JSON) -> Expectation:
    """Return the expectation of a JSON Schema; never raises, whatever the schema is.

    Supported are `type`, `enum`, `const`, `properties`, `additionalProperties`, `required`, `items`, `prefixItems`,
    `allOf`, `anyOf`, `oneOf`, `nullable` and local `$ref`. Patterns are never run, because Python cannot stop a
    catastrophic one: a key that may match one expects ANY.
    """
    return _SchemaCompiler(schema).expect((schema,))


class _SchemaCompiler:
    """Compiles expectations inside one schema, cached by the conjunction of subschemas."""

    def __init__(self, root: JSON) -> None:
        self._expansion = Expansion(root)
        self._cache: dict[tuple[int, ...], Expectation] = {}

    def expect(self, schemas: tuple[JSON, ...]) -> Expectation:
        distinct = {id(schema): schema for schema in schemas if schema is not True}
        key = tuple(distinct)  # the root keeps the subschemas alive, so no id is reused
        if key not in self._cache:
            if self._expansion.work > _MAX_WORK:
                return ANY
            self._cache[key] = self._compile(tuple(distinct.values()))
        return self._cache[key]

    def _compile(self, schemas: tuple[JSON, ...]) -> Expectation:
        found = self._expansion.alternatives(schemas)
        if found is None:
            return ANY
        shapes: list[SchemaShape] = []
        for alternative in found:
            shape = SchemaShape(alternative, self.expect)
            if shape.kinds and not any(earlier.merge_scalars(shape) for earlier in shapes):
                shapes.append(shape)
        return Expectation(tuple(shapes)) if shapes else NOTHING


def _streaming_starts(shapes: tuple[SchemaShape, ...], objects: int, arrays: int) -> frozenset[str]:
    """Return the first characters of the values to which, as a whole, no coercion can apply."""
    free = [shape.kinds for shape in shapes if shape.values is None]
    starts: set[str] = set()
    if objects == 1 or (objects == 0 and arrays == 0):  # an object that does not fit can only be wrapped in an array
        starts.add("{")
    if arrays <= 1:  # no coercion applies to an array that does not fit
        starts.add("[")
    if any("string" in kinds for kinds in free):
        starts.add('"')
    if any({"integer", "fraction"} <= kinds for kinds in free):
        starts |= _DIGITS
    starts.update(word for word, value in (("t", True), ("f", False)) if _boolean_streams(shapes, value, arrays))
    if any(shape.admits("null", None) for shape in shapes):
        starts.add("n")
    return frozenset(starts)


def _boolean_streams(shapes: tuple[SchemaShape, ...], value: bool, arrays: int) -> bool:  # noqa: FBT001  # it is JSON
    return arrays == 0 or any(shape.admits("boolean", value) for shape in shapes)
