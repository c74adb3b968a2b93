"""The reference implementation of strict JSON agrees with the standard library."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.strict import NonStrictJsonError, PrefixReader, load_object

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(), JSON_VALUES, max_size=3)
NEAR_JSON = st.text(alphabet='{}[]",:\\ut1f-+.eE0an \n', max_size=24).map("{".__add__)


@given(OBJECTS, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_every_prefix_of_json_is_accepted(value: dict[str, object], ascii_only: bool, indent: int | str | None) -> None:
    reader = PrefixReader()
    for character in json.dumps(value, ensure_ascii=ascii_only, indent=indent):
        assert not reader.complete
        reader.feed(character)

    assert reader.complete


@given(NEAR_JSON)
def test_the_reader_is_complete_exactly_for_json_objects(text: str) -> None:
    reader = PrefixReader()
    with contextlib.suppress(NonStrictJsonError):
        reader.feed(text)
        assert reader.complete == _is_object(text)
        return
    assert not _is_object(text)


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', '{"a":NaN}', '{"a":-Infinity}', "[1]", '{"b":{"a":1,"\\u0061":2}}'])
def test_json_that_only_python_accepts_is_refused(text: str) -> None:
    json.loads(text)

    with pytest.raises(NonStrictJsonError):
        load_object(text)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        load_object('{"a": "\\ud83d"}')


def _is_object(text: str) -> bool:
    try:
        return text == text.rstrip() and isinstance(json.loads(text, parse_constant=int), dict)
    except ValueError:
        return False
