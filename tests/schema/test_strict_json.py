"""Which text is read as strict JSON, and which is rejected."""

import pytest

from fcshim.schema.strict_json import parse_strict_json


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": [1, 2.5, true, null, "\\n"]}', {"a": [1, 2.5, True, None, "\n"]}), ('"\\ud800"', "\ud800"), (" 0 ", 0)],
)
def test_standard_json_is_read(text, value):
    assert value == parse_strict_json(text)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[NaN]", "Infinity", '{"a": -Infinity}', "[" * 10**6])
def test_other_text_is_rejected(text):
    assert parse_strict_json(text) is None
