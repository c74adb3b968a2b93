"""Arguments encoded as JSON in a JSON string."""

import json

import pytest

from fcshim.parse.json.call import decode_object
from fcshim.parse.limits import DEFAULT_LIMITS, Limits


def decoded(inner: str, limits: Limits = DEFAULT_LIMITS) -> str | None:
    return decode_object(json.dumps(inner), limits)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ('{"a":  1}', '{"a":  1}'),
        (' {"a": "\\u00e9"}\n', '{"a": "\\u00e9"}'),
        ("", "{}"),
        (" \n", "{}"),
        ("{'a': True,}", None),
        ('{"a": 1', None),
        ("[1]", None),
        ("5", None),
        ("null", None),
        ("5 x", None),
        ("null }", None),
        ("1e5 , 6", None),
        ("hello", None),
        ('{"a": 1} {"b": 2}', None),
        ('{"a": NaN}', None),
        ('{"a": 1, "a": 2}', None),
    ],
)
def test_an_encoded_string_gives_one_object_or_none(inner: str, expected: str | None) -> None:
    assert expected == decoded(inner)


def test_a_string_nested_too_deeply_gives_none() -> None:
    assert decoded('{"a": ' + "[" * 100 + "]" * 100 + "}") is None
