"""JSON Schemas and structural tags of replies with calls."""

import json

import msgspec
import pytest
from jsonschema import Draft202012Validator

from fcshim.constrain.constraint import Form, apply_constraint, constraint_for
from fcshim.events import ToolCallEnd
from fcshim.messages import AUTO, Request, Tool, ToolChoice
from fcshim.parse.dialects import FUNCTION_CALL, get_dialect
from fcshim.parse.dialects.json_bare import BARE_JSON
from fcshim.parse.stream import parse
from tests.constrain.schemas import TREE

TREE_TOOL = Tool("tree", "", TREE)
TOOLS = [TREE_TOOL, Tool("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})]


def request(*, parallel: bool | None = True, verbatim: dict | None = None) -> Request:
    choice = ToolChoice("required")
    return Request(model="m", messages=(), tool_choice=choice, parallel_tool_calls=parallel, verbatim=verbatim or {})


def test_a_schema_admits_calls_of_the_bare_dialect_and_resolves_its_references() -> None:
    made = constraint_for("json_schema", FUNCTION_CALL, TOOLS, request())
    assert made is not None
    validator = Draft202012Validator(made.fields["response_format"]["json_schema"]["schema"])
    good = [{"name": "tree", "arguments": {"root": {"value": 1, "left": {"value": 2, "left": None}}}}]
    bad = [{"name": "tree", "arguments": {"root": {"value": 1, "left": {"value": "x", "left": None}}}}]

    assert BARE_JSON is made.dialect
    assert (True, False) == (validator.is_valid(good), validator.is_valid(bad))
    assert not validator.is_valid([{"name": "sub", "arguments": {}}])
    assert ["tree"] == [
        event.tool_call_name
        for event in parse(json.dumps(good), dialect=BARE_JSON, tools=[{"name": "tree", "parameters": TREE}])
        if isinstance(event, ToolCallEnd)
    ]


def test_without_parallel_calls_the_reply_is_one_object() -> None:
    made = constraint_for("json_schema", FUNCTION_CALL, TOOLS, request(parallel=False))
    assert made is not None
    validator = Draft202012Validator(made.fields["response_format"]["json_schema"]["schema"])

    assert validator.is_valid({"name": "add", "arguments": {"a": 1}})
    assert not validator.is_valid([{"name": "add", "arguments": {"a": 1}}])


def test_a_request_of_ollamas_api_gets_the_schema_as_its_format() -> None:
    asked = request(verbatim={"ollama": {"options": {"num_ctx": 1}}})
    made = constraint_for("json_schema", FUNCTION_CALL, TOOLS, asked)
    assert made is not None

    assert "items" in apply_constraint(asked, made).verbatim["ollama"]["format"]


def test_a_structural_tag_has_a_tag_with_the_dialects_markers_for_each_tool() -> None:
    made = constraint_for("structural_tag", FUNCTION_CALL, TOOLS, request(parallel=False))
    assert made is not None
    form = made.fields["response_format"]["format"]

    assert ("tags_with_separator", "\n", True, True) == (
        form["type"],
        form["separator"],
        form["at_least_one"],
        form["stop_after_first"],
    )
    assert '<function_call>\n{"name": "tree", "arguments": ' == form["tags"][0]["begin"]
    assert "}\n</function_call>" == form["tags"][0]["end"]
    assert TREE == form["tags"][0]["content"]["json_schema"]


@pytest.mark.parametrize("name", ["granite", "pythonic", "qwen3_xml"])
def test_calls_that_are_not_tagged_json_become_one_grammar(name: str) -> None:
    made = constraint_for("structural_tag", get_dialect(name), TOOLS, request())
    grammar = constraint_for("gbnf", get_dialect(name), TOOLS, request())
    assert made is not None
    assert grammar is not None

    assert {"type": "grammar", **grammar.fields} == made.fields["response_format"]["format"]


@pytest.mark.parametrize("form", ["gbnf", "llguidance", "guidance", "structural_tag", "json_schema"])
def test_a_demanded_call_is_the_only_one_unless_the_client_asks_for_more(form: Form) -> None:
    fields = [
        constraint_for(form, FUNCTION_CALL, TOOLS, request(parallel=parallel)) for parallel in (None, False, True)
    ]
    unstated, single, several = [found and found.fields for found in fields]

    assert single == unstated
    assert several != single


def test_a_grammar_for_optional_calls_admits_several() -> None:
    choices = [
        msgspec.structs.replace(request(parallel=parallel), tool_choice=AUTO) for parallel in (None, False, True)
    ]
    unstated, single, several = [constraint_for("gbnf", FUNCTION_CALL, TOOLS, each, eager=True) for each in choices]

    assert several == unstated
    assert single != several
