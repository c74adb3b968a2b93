"""A call's arguments: parsing, repair and checks."""

import pytest

from fcshim.errors import ToolError
from fcshim.messages import Tool
from fcshim.tools.arguments import read_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "size": {"type": "number"},
        "deep": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        "mode": {"enum": ["read", "write"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def read(text, schema=SCHEMA):
    return read_arguments(Tool("t", "", schema), text)


def faults(text, schema=SCHEMA):
    with pytest.raises(ToolError) as caught:
        read(text, schema)
    return caught.value.message


def test_valid_arguments_are_unchanged():
    assert {"path": "5", "size": 2.5, "either": None} == read('{"path": "5", "size": 2.5, "either": null}')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"path": "a", "size": "2.5"}', {"path": "a", "size": 2.5}),
        ('{"path": "a", "deep": "true"}', {"path": "a", "deep": True}),
        ('{"path": 5}', {"path": "5"}),
        ('{"path": "a", "names": "[\\"b\\"]"}', {"path": "a", "names": ["b"]}),
        ('{"path": "a", "where": {"x": "1"}}', {"path": "a", "where": {"x": 1}}),
    ],
)
def test_common_mistakes_are_repaired(text, expected):
    """Requirement 35."""
    assert expected == read(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "path: missing"),
        ('{"path": {}}', "path: expected string, got object"),
        ('{"path": "a", "size": "big"}', "size: expected number, got string"),
        ('{"path": "a", "deep": 5}', "deep: expected boolean, got integer"),
        ('{"path": "a", "names": {"b": 1}}', "names: expected array, got object"),
        ('{"path": "a", "where": 5}', "where: expected object, got integer"),
        ('{"path": "a", "where": {}}', "where.x: missing"),
        ('{"path": "a", "mode": "append"}', 'mode: expected one of "read", "write", got "append"'),
        ('{"path": "a", "either": "x"}', 'either: "x" has none of the forms that are allowed'),
        ('{"path": "a", "pth": 1}', "pth: no such parameter, did you mean path?"),
        ('{"path": "a", "zzzzzz": 1}', "zzzzzz: no such parameter (there are: path, size, deep"),
    ],
)
def test_each_mistake_has_its_message(text, fault):
    """Requirement 24."""
    assert f"Wrong arguments for t:\n- {fault}" in faults(text)


def test_all_mistakes_are_reported_at_once():
    assert 3 == faults('{"size": "big", "deep": 5}').count("\n- ")


@pytest.mark.parametrize("text", ["[1]", "{", "5", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_are_refused(text):
    assert "The arguments are not a JSON object." == faults(text)


@pytest.mark.parametrize("schema", [None, {}, {"type": 5}])
def test_an_empty_schema_accepts_everything(schema):
    assert {"a": 1} == read('{"a": 1}', schema)
