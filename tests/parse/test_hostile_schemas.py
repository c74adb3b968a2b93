"""Calls whose check against the schema would take too long."""

import json
import tracemalloc

import pytest

from fcshim import StreamParser
from fcshim.events import ToolCallEnd
from fcshim.messages import Tool
from tests.schema.test_hostile import OBJECTS, chain
from tests.steps import steps

pytestmark = pytest.mark.security

DOUBLED = chain("anyOf", {"type": "string"}) | {"type": "object"}


def ends(tool, arguments, mode="stream", *, schema_enforced=False):
    call = json.dumps({"name": "f", "arguments": arguments})
    parser = StreamParser("hermes", [{"name": "f"} | tool], arguments=mode, schema_enforced=schema_enforced)
    events = [*parser.feed(f"<tool_call>\n{call}\n</tool_call>"), *parser.close("complete")]
    return [event for event in events if isinstance(event, ToolCallEnd)]


def test_a_strict_call_that_a_grammar_constrained_need_not_be_checked():
    (end,) = ends({"parameters": DOUBLED, "strict": True}, {"a": 1}, schema_enforced=True)

    assert end.error is None


@pytest.mark.parametrize("mode", ["stream", "checked", "resumable", "validated"])
@pytest.mark.parametrize("arguments", [{"a": "x"}, {"b": 1}, {"a": 1, "b": 1}, {}])
def test_a_strict_call_that_ignores_the_grammar_is_an_error(arguments, mode):
    parameters = {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    (end,) = ends(
        {"parameters": {"type": "object"} | parameters, "strict": True}, arguments, mode, schema_enforced=True
    )

    assert end.error is not None
    assert "invalid" == end.error.kind


def test_a_strict_call_that_cannot_be_checked_is_an_error():
    (end,) = ends({"parameters": DOUBLED, "strict": True}, {"a": 1})

    assert end.error is not None
    assert (end.error.kind, end.error.message) == ("limit", "arguments and schema of f are too large to be checked")


def test_a_validated_call_that_cannot_be_checked_is_an_error():
    (end,) = ends({"parameters": DOUBLED}, {"a": 1}, "validated")

    assert end.error is not None
    assert end.error.kind == "limit"


@pytest.mark.parametrize("mode", ["stream", "checked", "resumable"])
def test_another_call_that_cannot_be_checked_passes_as_written(mode):
    (end,) = ends({"parameters": DOUBLED}, {"a": 1}, mode)

    assert end.error is None
    assert json.loads(end.tool_call_arguments_complete) == {"a": 1}


def test_many_calls_of_a_reply_share_one_limit():
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"anyOf": OBJECTS}}}}
    call = "<tool_call>\n" + json.dumps({"name": "f", "arguments": {"a": {"q": "5"}}}) + "\n</tool_call>\n"

    def work(count):
        parser = StreamParser("hermes", [tool])
        return steps(lambda: [*parser.feed(call * count), *parser.close("complete")])

    assert work(160) < 2.5 * work(80)
    assert work(160) < 8_000_000


@pytest.mark.parametrize(
    "member",
    [
        lambda at: {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"minLength": at}}]},
        lambda at: {"type": "object", "properties": {"a": {"type": "integer", "minimum": at}}, "required": ["a"]},
    ],
    ids=["unions", "objects"],
)
def test_each_new_subschema_takes_steps(member):
    """Reading a subschema for the first time costs more than using it: 3,000 different ones took 120 ms."""
    tool = {"name": "f", "parameters": {"properties": {f"k{at}": member(at) for at in range(3_000)}}}
    call = json.dumps({"name": "f", "arguments": {f"k{at}": {"a": "1"} for at in range(1_500)}})

    def read():
        parser = StreamParser("hermes", [tool])
        return [*parser.feed(f"<tool_call>\n{call}\n</tool_call>"), *parser.close("complete")]

    assert steps(read) < 6_200_000


def test_a_parameter_with_a_name_of_250_kilobytes_takes_little_memory():
    """The prefixes of its tags took more than 30 gigabytes."""
    tool = Tool("look", "", {"type": "object", "properties": {"x" * 250_000: {"type": "string"}}})
    tracemalloc.start()
    parser = StreamParser("cline", [tool])
    parser.feed("<look>\n<city>Rome</city>\n</look>")
    parser.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 20 * 2**20
