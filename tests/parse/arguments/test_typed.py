"""Arguments coerced by the tool's schema while they stream."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.events import ToolCallChunk, ToolCallEnd
from fcshim.parse.stream import StreamParser
from fcshim.schema.coerce import coerce
from fcshim.schema.expect import compile_schema
from tests.schema.generate import KEYS, SCHEMAS, VALUES, validates

TYPES = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "b": {"type": "string"},
        "c": {"type": "boolean"},
        "d": {"type": "object"},
    },
}


MATRIX = {
    "type": "object",
    "properties": {"m": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}},
}


@st.composite
def parameters(draw):
    """Draw the schema of a tool: one object, and definitions that its members may reference."""
    schema = {
        "type": "object",
        "properties": draw(st.dictionaries(KEYS, SCHEMAS, max_size=3)),
        "required": draw(st.lists(KEYS, max_size=2, unique=True)),
        "$defs": {"x": draw(SCHEMAS), "y": draw(SCHEMAS)},
    }
    return schema | draw(st.fixed_dictionaries({}, optional={"additionalProperties": SCHEMAS}))


def read(schema, arguments, size, *, name_first):
    members = ['"name": "f"', f'"arguments": {arguments}']
    text = f"<tool_call>\n{{{', '.join(members if name_first else reversed(members))}}}\n</tool_call>"
    parser = StreamParser("hermes", [{"name": "f", "parameters": schema}])
    events = [event for start in range(0, len(text), size) for event in parser.feed(text[start : start + size])]
    return events + parser.close()


@given(
    schema=parameters(),
    value=st.dictionaries(KEYS, VALUES, max_size=3),
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 9) | st.just(10_000),
    name_first=st.booleans(),
)
@example(schema=TYPES, value={"a": "5", "b": "6"}, indent=None, size=1, name_first=True)
@example(schema=TYPES, value={"a": "5", "b": 6}, indent=None, size=4, name_first=True)
@example(schema=TYPES, value={"a": "5", "c": None, "d": None}, indent=None, size=4, name_first=True)
@example(schema=TYPES, value={"c": None, "d": None, "a": "5"}, indent=1, size=4, name_first=True)
@example(schema=TYPES, value={"a": "x", "d": '{"a": "5"}', "c": "true"}, indent=None, size=2, name_first=True)
@example(schema=MATRIX, value={"m": [1, 2]}, indent=None, size=1, name_first=True)
@example(schema=MATRIX, value={"m": ["1", ["2"]]}, indent=None, size=3, name_first=True)
def test_streamed_arguments_are_coerced_like_whole_arguments(schema, value, indent, size, name_first):
    arguments = json.dumps(value, indent=indent)
    whole = coerce(compile_schema(schema), value, arguments)
    events = read(schema, arguments, size, name_first=name_first)
    end = next(event for event in events if isinstance(event, ToolCallEnd))
    chunks = [event.tool_call_arguments_chunk for event in events if isinstance(event, ToolCallChunk)]

    assert end.error is None
    assert end.tool_call_arguments_complete == "".join(chunks)
    if whole is None:
        assert arguments == end.tool_call_arguments_complete
        assert end.coerced == []
    else:
        assert json.dumps(json.loads(whole.text)) == json.dumps(json.loads(end.tool_call_arguments_complete))
        assert list(whole.changes) == end.coerced


def test_many_members_may_be_dropped():
    properties = {f"member {number}": {"type": "integer"} for number in range(1_000)}
    arguments = json.dumps({**dict.fromkeys(properties), "last": 1})
    events = read({"type": "object", "properties": properties}, arguments, 100, name_first=True)
    end = next(event for event in events if isinstance(event, ToolCallEnd))

    assert end.error is None
    assert {"last": 1} == json.loads(end.tool_call_arguments_complete)
    assert 1_000 == len(end.coerced)


@given(
    schema=parameters(), branches=st.lists(parameters(), min_size=2, max_size=2), value=st.dictionaries(KEYS, VALUES)
)
def test_arguments_are_unchanged_if_one_of_several_alternatives_admits_them(schema, branches, value):
    schema = schema | {"anyOf": branches}
    events = read(schema, json.dumps(value), 4, name_first=True)
    end = next(event for event in events if isinstance(event, ToolCallEnd))

    assert validates(schema, value) is not True or json.dumps(value) == end.tool_call_arguments_complete
