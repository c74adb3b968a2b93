import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.invalidate import invalidating_suffix

_json = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.text(max_size=4) | st.integers(), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x)
    ),
    max_size=3,
)


@given(_json, st.floats(0, 1), st.booleans())
def test_an_invalidated_prefix_stays_invalid_whatever_follows(value, share, ascii_):
    text = json.dumps(value, ensure_ascii=ascii_)
    prefix = text[: int(share * (len(text) - 1))]
    invalidated = prefix + invalidating_suffix(prefix)

    for more in ("", "}", "]}", '"}', '":1}', ":1}", "}}", "]"):
        with pytest.raises(ValueError, match=r"."):
            json.loads(invalidated + more)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("", "{]"), ("{", "]"), ('{"a', '"]'), ('{"a\\', '""]'), ('{"a":[1', "}"), ('{"a":["', '"}'), ('{"a":[1]', "]")],
)
def test_the_suffix_closes_a_bracket_that_is_not_open(prefix, expected):
    assert expected == invalidating_suffix(prefix)
