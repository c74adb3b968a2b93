"""Strict JSON: what is read, and what is refused."""

import pytest

from fcshim.schema.strict_json import parse_strict_json


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": [1, 2.5, true, null, "\\n"]}', {"a": [1, 2.5, True, None, "\n"]}), ('"\\ud800"', "\ud800"), (" 0 ", 0)],
)
def test_what_the_standard_admits_is_read(text, value):
    assert value == parse_strict_json(text)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[NaN]", "Infinity", '{"a": -Infinity}', "[" * 10**6])
def test_what_it_does_not_is_refused(text):
    assert parse_strict_json(text) is None
