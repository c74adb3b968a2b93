"""Hypothesis strategies for schemas of tool arguments.

Rule: every schema can be satisfied.
"""

from typing import Any

from hypothesis import strategies as st

from tests.examples import identifiers

JSON = Any

names = identifiers(9)
_words = st.sampled_from(["a", "Paris", "Zürich", '"', "\\", "</function_call>", "<", "\n", "5", "true", ""])
_bounds = st.tuples(st.integers(-300, 300), st.integers(0, 400)).map(lambda pair: (pair[0], pair[0] + pair[1]))
_fractions = st.tuples(st.integers(-4_000, 4_000), st.integers(1, 6_000), st.sampled_from([1, 4, 10, 100]))


@st.composite
def _strings(draw: st.DrawFn) -> dict[str, JSON]:
    kind = draw(st.sampled_from(["plain", "length", "format", "enum", "const"]))
    if kind == "length":
        minimum = draw(st.integers(0, 150))
        return {"type": "string", "minLength": minimum, "maxLength": minimum + draw(st.integers(0, 200))}
    if kind == "format":
        forms = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri", "duration", "other"]
        return {"type": "string", "format": draw(st.sampled_from(forms))}
    if kind == "enum":
        return {"type": "string", "enum": draw(st.lists(_words, min_size=1, max_size=5, unique=True))}
    return {"const": draw(_words)} if kind == "const" else {"type": "string"}


@st.composite
def _numbers(draw: st.DrawFn) -> dict[str, JSON]:
    if draw(st.booleans()):
        low, high = draw(_bounds)
        words = draw(st.sampled_from([("minimum", "maximum"), ("exclusiveMinimum", "maximum")]))
        return {"type": "integer", words[0]: low, words[1]: high + 1}
    if draw(st.booleans()):
        low, size, scale = draw(_fractions)
        words = draw(st.sampled_from([("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")]))
        return {"type": "number", words[0]: low / scale, words[1]: (low + size) / scale}
    one = draw(st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]))
    limit = draw(st.one_of(st.integers(-(10**18), 10**18), st.floats(-1e6, 1e6)))
    kind = draw(st.sampled_from(["integer", "number"]))
    return draw(st.sampled_from([{"type": kind}, {"type": kind, one: limit}]))


def _arrays(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    def made(items: JSON, prefix: list[JSON], minimum: int, more: int, bounded: bool) -> JSON:
        bounds = {"minItems": minimum, "maxItems": minimum + more} if bounded else {}
        return {"type": "array", "items": items, **({"prefixItems": prefix} if prefix else {}), **bounds}

    prefixes = st.lists(inner, max_size=2)
    return st.builds(made, inner, prefixes, st.integers(0, 3), st.integers(0, 3), st.booleans())


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[JSON]) -> JSON:
    properties = draw(st.dictionaries(names, inner, max_size=4))
    required = [key for key in properties if draw(st.booleans())]
    closed = draw(st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "integer"}}]))
    minimum = {"minProperties": draw(st.integers(0, len(properties)))} if properties and draw(st.booleans()) else {}
    return {"type": "object", "properties": properties, "required": required, **closed, **minimum}


scalars = st.one_of(_strings(), _numbers(), st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        _objects(inner),
        _arrays(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options}),
        st.builds(lambda one, word: {"allOf": [one, {"description": word}]}, inner, names),
    ),
    max_leaves=8,
)
arguments = _objects(values)
"""Schemas of whole arguments."""

NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        "more": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["value", "left"],
}
TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "$defs": {"node": NODE},
}
