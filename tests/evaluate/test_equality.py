"""Equality of JSON values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.evaluate.equality import canonical, fill_defaults

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1e20, 10**20), ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}), (-0.0, 0), ("é", "é")],
)
def test_equal_values(one, other):
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (1, "1"), (None, False), ("a", "A"), ("a", "a "), ([1, 2], [2, 1]), ({}, []), (0.1, 0.2)],
)
def test_unequal_values(one, other):
    assert canonical(one) != canonical(other)


@given(VALUES, VALUES)
def test_equal_values_are_equal_in_python(one, other):
    """The converse is not true: for Python, True equals 1."""
    if canonical(one) == canonical(other):
        assert one == other


def test_defaults_are_filled_in_at_every_level():
    schema = {
        "properties": {
            "unit": {"default": "km"},
            "stops": {"items": {"properties": {"minutes": {"default": 10}}}},
            "place": {"properties": {"country": {"default": "DE"}}},
        }
    }

    assert {"unit": "km"} == fill_defaults({}, schema)
    assert {
        "unit": "m",
        "stops": [{"minutes": 10}, {"minutes": 3}],
        "place": {"country": "DE", "city": "Ulm"},
    } == fill_defaults({"unit": "m", "stops": [{}, {"minutes": 3}], "place": {"city": "Ulm"}}, schema)


@pytest.mark.parametrize("schema", [None, True, {}, {"properties": None}, {"items": False}])
def test_a_schema_without_defaults_adds_nothing(schema):
    assert {"a": [1]} == fill_defaults({"a": [1]}, schema)
