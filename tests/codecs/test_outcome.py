import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.outcome import TRUNCATED_KEY, BufferedArguments, invalidating_suffix, voiding_suffix
from tests.codecs.helpers import cut

_json = st.dictionaries(st.text(max_size=4), st.recursive(st.text(max_size=4) | st.integers(), st.lists), max_size=3)


def run(sent, *, valid):
    """Return all that the client has after each fragment, and at the end."""
    buffered = BufferedArguments()
    states = [""]
    for piece in [*map(buffered.feed, sent), buffered.close(valid=valid)]:
        states.append(states[-1] + piece)

    assert states[-1] == buffered.sent_text()
    return states[1:]


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(_json, st.sampled_from(["", " ", "\n}"[:1]]), st.data())
def test_the_arguments_of_a_valid_call_are_json_only_at_its_end(value, after, data):
    arguments = json.dumps(value, indent=data.draw(st.sampled_from([None, 1]))) + after
    states = run(
        [piece.decode() for piece in cut(arguments.encode(), lambda: data.draw(st.integers(1, 5)))], valid=True
    )

    assert arguments == states[-1]
    assert not any(is_json(state) for state in states[:-1])


@given(_json, st.integers(0, 40), st.data())
def test_the_arguments_of_an_invalid_call_are_never_json(value, end, data):
    arguments = json.dumps(value)[: end or None]
    sent = [piece.decode() for piece in cut(arguments.encode(), lambda: data.draw(st.integers(1, 5)))]

    assert not any(is_json(state) for state in run(sent, valid=False))


@pytest.mark.parametrize("sent", [["{}"], ["{", "}"], ["{}", " ", "\n"]])
def test_the_last_brace_is_buffered_until_the_end(sent):
    assert {"{", "".join(sent)} == set(run(sent, valid=True))


_nested_json = st.dictionaries(
    st.text(max_size=4),
    st.recursive(
        st.text(max_size=4) | st.integers(), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x)
    ),
    max_size=3,
)


@given(_nested_json, st.floats(0, 1), st.booleans())
def test_an_invalidated_prefix_stays_invalid_whatever_follows(value, share, ascii_):
    text = json.dumps(value, ensure_ascii=ascii_)
    prefix = text[: int(share * (len(text) - 1))]
    invalidated = prefix + invalidating_suffix(prefix)

    for more in ("", "}", "]}", '"}', '":1}', ":1}", "}}", "]"):
        with pytest.raises(ValueError, match=r"."):
            json.loads(invalidated + more)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", "{}]"),
        ("{", "}]"),
        ('{"a', '":null]'),
        ('{"a\\', '"":null]'),
        ('{"a":[1', "}"),
        ('{"a":["', '"}'),
        ('{"a":[', "]]"),
        ('{"a":[{', "}}"),
        ('{"a":[[', "]}"),
        ('{"a":{', "}]"),
        ('{"a":[1]', "]"),
        ('{"a":tr', "ue]"),
        ("{a", "]"),
    ],
)
def test_the_suffix_closes_a_bracket_that_is_not_open(prefix, expected):
    assert expected == invalidating_suffix(prefix)


@pytest.mark.parametrize("end", range(50))
def test_a_voided_call_is_an_object_whose_keys_are_null(end):
    sent = '{"a": 1, "b": [true, {"c": "x\\u00e9"}, -1.5], "d": "e"'[:end]
    value = json.loads(sent + voiding_suffix(sent))

    assert {None} >= {value[name] for name in value if name != TRUNCATED_KEY}
    assert "cut off" in value[TRUNCATED_KEY]


@pytest.mark.parametrize("sent", ["{a", '{"a":1}', "[", "\x00", '{"a":' + "[" * 100_000])
def test_what_is_no_prefix_of_an_object_cannot_be_voided(sent):
    assert voiding_suffix(sent) is None
