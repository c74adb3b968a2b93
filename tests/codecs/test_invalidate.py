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
def test_whatever_is_added_to_a_spoiled_prefix_it_is_no_json(value, share, ascii_):
    text = json.dumps(value, ensure_ascii=ascii_)
    prefix = text[: int(share * (len(text) - 1))]
    spoiled = prefix + invalidating_suffix(prefix)

    for more in ("", "}", "]}", '"}', '":1}', ":1}", "}}", "]"):
        with pytest.raises(ValueError, match=r"."):
            json.loads(spoiled + more)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("", "{]"), ("{", "]"), ('{"a', '"]'), ('{"a\\', '""]'), ('{"a":[1', "}"), ('{"a":["', '"}'), ('{"a":[1]', "]")],
)
def test_the_closing_bracket_is_of_the_wrong_kind(prefix, expected):
    assert expected == invalidating_suffix(prefix)
