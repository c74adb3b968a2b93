"""What a tool's schema expects of each value: a lazy, memoised view for a reader that sees the value as it is written.

Theory of operation. A schema is a list of alternatives (`alternatives`), each of them a `Shape`. A value that fits an
alternative as it is written is never touched. Where exactly one alternative takes objects, an object's members are
looked at one by one, and so are an array's elements: those stream. Where several do, which one is meant is known when
the value is complete. So `streams` says by a value's first character whether it may be sent while it is written: no
coercion can concern it as a whole, and those inside are told by `member`, `item` and `drops_null`.

Rule: compiling never raises and is bounded; a schema, or a part, that says nothing usable expects `ANY`.
Neighbours: `coerce` puts right what is not expected, `literal` reads untyped text, the parser asks while it streams.
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
"""Steps of compiling one schema, half a second in all. The largest that are let in take a tenth of it; where references
multiply there is no end, and what is beyond expects ANY."""


class Expectation:
    """What is expected of one value: that one of the `shapes` takes it.

    Without shapes anything fits, or nothing (`fits_none`). `streams` holds the first characters of values that may be
    sent as they come; with `integers`, numbers without point and exponent may be sent once they are whole. With
    `wants_text` only strings fit, and any string does: untyped text may be streamed as one.
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

    def __init__(self, shapes: tuple[SchemaShape, ...], *, fits_none: bool = False) -> None:
        self.shapes = shapes
        self.admits_nothing = fits_none
        self._objects = objects = tuple(shape for shape in shapes if "object" in shape.kinds)
        arrays = [shape for shape in shapes if "array" in shape.kinds]
        self._only_object = objects[0] if len(objects) == 1 else None
        self._only_array = arrays[0] if len(arrays) == 1 else None
        self.streaming_starts = _streaming_starts(shapes, len(objects), len(arrays)) if shapes else _ALL_STARTS
        if fits_none:
            self.streaming_starts -= {"n"}  # a member that may not be there is left out where it is null
        self.streams_integers = any(shape.values is None and "integer" in shape.kinds for shape in shapes)
        self.only_strings = (
            bool(shapes) and all({"string"} == shape.kinds for shape in shapes) and '"' in self.streaming_starts
        )

    def admits(self, kind: ValueKind, value: JSON) -> bool:
        """Say whether a value may stand here, as far as can be told without looking into objects and arrays."""
        if not self.shapes:
            return not self.admits_nothing
        return any(shape.admits(kind, value) for shape in self.shapes)

    def member(self, key: str) -> "Expectation":
        """Give what is expected of a member of an object that streams.

        Where the object might be of several kinds, and streams all the same as arguments do, it is what all of them
        expect.
        """
        if self._only_object is not None:
            return self._only_object.member(key)
        found = {shape.member(key) for shape in self._objects}
        return found.pop() if len(found) == 1 else ANY

    def misses_required(self, keys: Set[str]) -> bool:
        """Say whether an object with these members is not whole, where it can be of one kind only."""
        return self._only_object is not None and not self._only_object.required <= keys

    def item(self, index: int) -> "Expectation":
        """Give what is expected of an element of an array that streams."""
        return ANY if self._only_array is None else self._only_array.item(index)

    def drops_null(self, key: str) -> bool:
        """Say whether a member that is null is left out: it is known and optional, and null is not admitted."""
        if self._only_object is not None:
            return self._only_object.drops_null(key)
        return self.member(key) is not ANY and all(shape.drops_null(key) for shape in self._objects)

    def coerce(self, value: JSON, raw: str) -> CoercedValue | None:
        """Give what a whole value becomes, or None where nothing is to be changed; `raw` is its strict JSON."""
        return coerce(self, value, raw)

    def text_to_json(self, text: str) -> str:
        """Give the JSON of a value that a tagged format wrote without saying its type."""
        return read_untyped_text(self, text)


ANY = Expectation(())
"""Expects nothing in particular: everything streams, nothing is changed."""

NOTHING = Expectation((), fits_none=True)
"""Expects what no value can be: what is not null streams all the same, as there is nothing that it could become."""


def compile_schema(schema: JSON) -> Expectation:
    """Give what a JSON Schema expects; whatever it is, nothing is raised.

    Understood are `type`, `enum`, `const`, `properties`, `additionalProperties`, `required`, `items`, `prefixItems`,
    `allOf`, `anyOf`, `oneOf`, `nullable` and local `$ref`. Patterns are never run: a key that may match one is ANY.
    """
    return _SchemaCompiler(schema).expect((schema,))


class _SchemaCompiler:
    """The expectations of one schema, by the places in it that hold at once."""

    def __init__(self, root: JSON) -> None:
        self._expansion = Expansion(root)
        self._cache: dict[tuple[int, ...], Expectation] = {}

    def expect(self, schemas: tuple[JSON, ...]) -> Expectation:
        distinct = {id(schema): schema for schema in schemas if schema is not True}
        key = tuple(distinct)  # the root keeps them alive, so their ids stay theirs
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
    """Give the first characters of the values that no coercion can concern as a whole."""
    free = [shape.kinds for shape in shapes if shape.values is None]
    starts: set[str] = set()
    if objects == 1 or (objects == 0 and arrays == 0):  # an object that is not admitted can only become an element
        starts.add("{")
    if arrays <= 1:  # an array that is not admitted becomes nothing else
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
