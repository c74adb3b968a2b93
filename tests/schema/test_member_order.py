"""The order of members: a long text comes after what is short and required, and nothing else changes."""

import json

import pytest
from hypothesis import given

from fcshim.schema.member_order import long_members_last
from tests.schema.generate import roots

STRING = {"type": "string"}


def schema(*required, **optional):
    """Make an object's schema; an optional member is named with the member before which it stands."""
    names = list(required)
    for name, before in optional.items():
        names.insert(names.index(before) if before else len(names), name)
    return {"type": "object", "properties": dict.fromkeys(names, STRING), "required": list(required)}


CASES = [
    (schema("content", "filePath"), "filePath content"),  # opencode's write
    (schema("filePath", "oldString", "newString", replaceAll=""), "filePath oldString newString replaceAll"),
    (schema("old_string", "new_string", "file_path"), "file_path old_string new_string"),
    (schema("file_text", "command", "path", view_range=""), "command path file_text view_range"),
    (schema("body", "to", "subject", cc=""), "to subject body cc"),
    (schema("new_source", "notebook_path", cell_id="", edit_mode=""), "notebook_path new_source cell_id edit_mode"),
    (schema("content", "path", append="path"), "append path content"),
    (schema("diff", "path"), "path diff"),
    (schema("patch"), "patch"),
    (schema("code", "language"), "language code"),
    (schema("fileContents", "fileName"), "fileName fileContents"),
    (schema("replacement-text", "line"), "line replacement-text"),
    (schema("body_html", "recipients"), "recipients body_html"),
    (schema("path", content=""), "path content"),
    (schema("source", "destination"), "source destination"),
    (schema("country_code", "city"), "country_code city"),
    (schema("content_type", "path"), "content_type path"),
    (schema("context", "path"), "context path"),
    (schema("query", "pattern"), "query pattern"),
    (schema("command", "description"), "command description"),
]


@pytest.mark.parametrize(("given_schema", "order"), CASES, ids=[order for _, order in CASES])
def test_a_long_text_comes_after_the_short_members_that_are_required(given_schema, order):
    assert order.split() == list(long_members_last(given_schema)["properties"])


SHORT = [
    {"enum": ["a"]},
    {"const": "a"},
    {"format": "uri"},
    {"maxLength": 80},
    {"type": "integer"},
    {"type": "boolean"},
]


@pytest.mark.parametrize("short", SHORT, ids=json.dumps)
def test_what_the_schema_makes_short_is_short_whatever_its_name(short):
    given_schema = schema("content", "path")
    given_schema["properties"]["content"] = {"type": "string"} | short

    assert given_schema is long_members_last(given_schema)


LONG = [{"maxLength": 5_000}, {"contentMediaType": "text/markdown"}]


@pytest.mark.parametrize("long", LONG, ids=json.dumps)
def test_what_the_schema_makes_long_is_long_whatever_its_name(long):
    given_schema = schema("essay", "title")
    given_schema["properties"]["essay"] = {"type": "string"} | long

    assert ["title", "essay"] == list(long_members_last(given_schema)["properties"])


NESTED = {"type": "object", "properties": {"content": STRING, "path": STRING}, "required": ["content", "path"]}
PLACES = [
    {"type": "object", "properties": {"file": NESTED}},
    {"type": "array", "items": NESTED},
    {"anyOf": [{"type": "null"}, NESTED]},
    {"$defs": {"file": NESTED}, "$ref": "#/$defs/file"},
    {"type": "object", "additionalProperties": NESTED},
]


@pytest.mark.parametrize("place", PLACES, ids=json.dumps)
def test_objects_inside_are_ordered_too(place):
    assert '"path": {"type": "string"}, "content"' in json.dumps(long_members_last(place))


def test_a_list_of_texts_is_long():
    edits = {"type": "array", "items": {"type": "object", "properties": {"oldText": STRING, "newText": STRING}}}
    given_schema = {"properties": {"edits": edits, "path": STRING}, "required": ["edits", "path"]}

    assert ["path", "edits"] == list(long_members_last(given_schema)["properties"])


@given(schema=roots())
def test_only_the_order_changes(schema):
    ordered = long_members_last(schema)

    assert schema == ordered
    assert ordered is long_members_last(ordered)
    assert ordered is schema or json.dumps(schema) != json.dumps(ordered)


@pytest.mark.parametrize("odd", [None, True, 3, "x", {"properties": 3}, {"properties": {"content": 3}, "required": 1}])
def test_what_is_no_schema_stays(odd):
    assert odd is long_members_last(odd)
