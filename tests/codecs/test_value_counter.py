"""Counting the values of a JSON text without parsing it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.value_counter import MAX_MARKS, SHORT, ValueCounter

JSON_VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\\\,:[{\u00e9\n'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='a"\\\\,[', max_size=3), inner, max_size=4)
    ),
)


def marks(value):
    """Count by the value itself: two quotes for a string, four marks for a container, one for each comma and colon."""
    match value:
        case str():
            return 2
        case list():
            return 4 + max(len(value) - 1, 0) + sum(map(marks, value))
        case dict():
            return 4 + max(len(value) - 1, 0) + 3 * len(value) + sum(map(marks, value.values()))
    return 0


def count(data, size):
    counter = ValueCounter()
    for start in range(0, len(data), size):
        counter.feed(data[start : start + size])
    return counter.count


@given(JSON_VALUES, st.integers(1, 9))
def test_marks_in_strings_do_not_count(value, size):
    assert marks(value) == count(json.dumps(value).encode(), size)


def test_a_large_text_is_one_value():
    text = json.dumps({"text": 'say "[1, 2]",\n' * 100_000}).encode()

    assert 9 == count(text, 65_536)


def test_counting_stops_at_the_limit():
    assert MAX_MARKS < count(b'"' * 16 * 2**20, 65_536) < MAX_MARKS + 100_000


def test_a_short_document_cannot_exceed_the_limit():
    assert not ValueCounter().feed(b"[" * SHORT)
    assert ValueCounter().feed(b"[" * (SHORT + 1))
