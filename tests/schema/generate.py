"""Hypothesis strategies for schemas, and for values that often nearly match them.

Rule: few keys and few scalars, so that schemas and values often share them.
"""

import json

from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import extend
from referencing.exceptions import Unresolvable


class ReferenceLimitError(Exception):
    """The references of the schema exceed a limit."""


class BoundedReferences:
    """The keyword `$ref` of jsonschema's validator; raises `ReferenceLimitError` beyond 10,000 or nested 64 deep."""

    def __init__(self):
        self._remaining = 10_000
        self._depth = 0

    def __call__(self, validator, reference, value, schema):
        self._remaining -= 1
        if self._remaining < 0 or self._depth == 64:
            raise ReferenceLimitError
        self._depth += 1
        try:
            yield from Draft202012Validator.VALIDATORS["$ref"](validator, reference, value, schema)
        finally:
            self._depth -= 1


KEYS = st.sampled_from(["a", "b", "c"])
SCALARS = [
    None,
    True,
    False,
    0,
    1,
    -2,
    5.0,
    1.5,
    1e3,
    "",
    "a",
    "A",
    "b",
    "1",
    "5.0",
    "1.5",
    "5e0",
    "true",
    "False",
    "null",
    'é\n"\\/',
    "[1]",
    "[",
    '{"a": "1"}',
    '["1", {"a": null}]',
]
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null"]
REFERENCES = ["#", "#/$defs/x", "#/$defs/y", "#/$defs/missing", "#/properties/a"]


def _member(schemas):
    return {
        "properties": st.dictionaries(KEYS, schemas, max_size=3),
        "required": st.lists(KEYS, max_size=2, unique=True),
        "additionalProperties": schemas,
    }


def _objects(schemas):
    fields = _member(schemas) | {"type": st.just("object")}
    return st.fixed_dictionaries({"type": fields.pop("type"), "properties": fields.pop("properties")}, optional=fields)


def _arrays(schemas):
    optional = {"prefixItems": st.lists(schemas, min_size=1, max_size=2)}
    return st.fixed_dictionaries({"type": st.just("array"), "items": schemas}, optional=optional)


def _unions(schemas):
    branches = st.lists(schemas, min_size=1, max_size=3)
    return st.builds(lambda word, inner: {word: inner}, st.sampled_from(["anyOf", "oneOf", "allOf"]), branches)


def _mixed(schemas):
    optional = _member(schemas) | {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "enum": st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3),
        "anyOf": st.lists(schemas, min_size=1, max_size=2),
        "allOf": st.lists(schemas, min_size=1, max_size=2),
        "items": schemas,
        "$ref": st.sampled_from(REFERENCES),
        "nullable": st.booleans(),
        "minimum": st.just(1),
        "maxLength": st.just(2),
        "not": schemas,
    }
    return st.fixed_dictionaries({}, optional=optional)


LEAVES = (
    st.sampled_from([{"type": name} for name in TYPES])
    | st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3))
    | st.builds(lambda value: {"const": value}, st.sampled_from(SCALARS))
    | st.sampled_from([{}, True, False, {"type": ["string", "null"]}, {"type": ["integer", "null"]}])
    | st.builds(lambda reference: {"$ref": reference}, st.sampled_from(REFERENCES))
)
SCHEMAS = st.recursive(
    LEAVES, lambda inner: _objects(inner) | _arrays(inner) | _unions(inner) | _mixed(inner), max_leaves=8
)


@st.composite
def roots(draw):
    """Draw a complete schema, with definitions that it may refer to."""
    schema = draw(SCHEMAS.filter(lambda schema: isinstance(schema, dict)))
    return schema | {"$defs": {"x": draw(SCHEMAS), "y": draw(SCHEMAS)}}


def _grown(values):
    return st.lists(values, max_size=3) | st.dictionaries(KEYS, values, max_size=3)


_PLAIN = st.recursive(st.sampled_from(SCALARS), _grown, max_leaves=8)
VALUES = st.recursive(st.sampled_from(SCALARS) | _PLAIN.map(json.dumps), _grown, max_leaves=10)


@st.composite
def texts(draw):
    """Draw the JSON of a value, with optional white space."""
    value = draw(VALUES)
    return json.dumps(value, indent=draw(st.sampled_from([None, 1])), ensure_ascii=draw(st.booleans()))


_STRICT_TYPES = Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
)


def validates(schema, value):
    """Return whether the value is valid, or None where the schema is unusable.

    As in draft 2020-12, except that 5.0 is not an integer: coercion changes it although the draft admits it.
    """
    validator = extend(Draft202012Validator, {"$ref": BoundedReferences()}, type_checker=_STRICT_TYPES)
    try:
        return validator(schema).is_valid(value)
    except (Unresolvable, ReferenceLimitError):
        return None
