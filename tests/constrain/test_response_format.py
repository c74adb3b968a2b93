"""The response format of every API is enforced, unless a call is required."""

import json
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.codecs.gemini import GEMINI
from fcshim.codecs.ollama import OLLAMA
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_responses import OPENAI_RESPONSES
from fcshim.constrain.constraint import apply_constraint, constrains_document, constraint_for
from fcshim.messages import Request, Tool, ToolChoice, requested_schema, without_format
from fcshim.parse.body_selection import UnionBody
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL, get_dialect
from fcshim.parse.dialects.json_bare import BARE_JSON

JSON = Any
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
OBJECT = {"type": "json_object"}
ADD = Tool("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
STRICT = Tool("add", "", ADD.parameters, strict=True)
HI = [{"role": "user", "content": "Hi"}]


def request(form: JSON = None, mode: Any = "auto", **fields: Any) -> Request:
    extra = {"response_format": form} if form is not None else {}
    return Request(model="m", messages=(), tool_choice=ToolChoice(mode), extra=extra, **fields)


@pytest.mark.parametrize(
    ("codec", "body"),
    [
        (OPENAI_CHAT, {"messages": HI, "response_format": SCHEMA}),
        (OPENAI_CHAT, {"messages": HI, "response_format": {**OBJECT, "schema": CITY}}),
        (
            OPENAI_RESPONSES,
            {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "city", "schema": CITY}}},
        ),
        (
            ANTHROPIC,
            {"messages": HI, "max_tokens": 9, "output_config": {"format": {"type": "json_schema", "schema": CITY}}},
        ),
        (OLLAMA, {"messages": HI, "format": CITY}),
    ],
    ids=["chat", "llama.cpp", "responses", "anthropic", "ollama"],
)
def test_the_format_of_every_api_becomes_a_response_format(codec: Any, body: JSON) -> None:
    read = codec.decode_request(json.dumps({"model": "m", **body}).encode())

    assert CITY == requested_schema(read)
    assert constrains_document("gbnf", read)


@pytest.mark.parametrize(
    "config",
    [
        {"responseMimeType": "application/json", "responseJsonSchema": CITY},
        {
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]},
        },
    ],
)
def test_both_schema_fields_of_gemini_become_a_response_format(config: JSON) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": config}
    schema = requested_schema(GEMINI.decode_request(json.dumps(body).encode()))
    validator = Draft202012Validator(schema)

    assert [True, False] == [validator.is_valid({"city": "x"}), validator.is_valid({"city": 1})]


@pytest.mark.parametrize(
    "form", [None, {"type": "text"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}}, "json", 5]
)
def test_a_format_without_a_schema_is_unchanged(form: JSON) -> None:
    assert requested_schema(request(form)) is None
    assert constraint_for("gbnf", FUNCTION_CALL, [], request(form)) is None


def test_a_schema_that_is_nested_too_deeply_is_unchanged() -> None:
    deep: JSON = {}
    for _ in range(100):
        deep = {"items": deep}

    assert requested_schema(request({"type": "json_schema", "json_schema": {"schema": deep}})) is None


def test_a_grammar_replaces_the_response_format() -> None:
    """llama-server enforces the format and drops the grammar if it gets both."""
    asked = request(SCHEMA)
    made = constraint_for("gbnf", FUNCTION_CALL, [], asked)
    assert made is not None
    extra = apply_constraint(asked, made).extra

    assert {"grammar"} == set(extra)
    assert '"{\\"city\\":"' in extra["grammar"]


def test_a_document_is_not_limited_to_the_tokens() -> None:
    few = constraint_for("gbnf", FUNCTION_CALL, [], request(SCHEMA, max_tokens=10))
    many = constraint_for("gbnf", FUNCTION_CALL, [], request(SCHEMA))

    assert few == many


@pytest.mark.parametrize("form", [SCHEMA, OBJECT])
def test_with_tool_choice_auto_a_reply_is_calls_or_the_document(form: JSON) -> None:
    made = constraint_for("gbnf", FUNCTION_CALL, [ADD], request(form))
    assert made is not None

    assert made.covers_all_calls
    assert FUNCTION_CALL is made.dialect
    assert ' | "<function_call>' in made.fields["grammar"].splitlines()[0]


def test_with_tool_choice_required_there_is_no_document() -> None:
    made = constraint_for("gbnf", FUNCTION_CALL, [ADD], request(SCHEMA, "required"))
    plain = constraint_for("gbnf", FUNCTION_CALL, [ADD], request(None, "required"))

    assert plain == made


def test_a_dialect_without_a_call_template_falls_back_to_bare_json() -> None:
    unknown = replace(DIALECTS["pythonic"], body=UnionBody((UnionBody(()),)))
    made = constraint_for("gbnf", unknown, [ADD], request(SCHEMA))
    assert made is not None
    assert constraint_for("gbnf", unknown, [ADD], request(None, "required")) is None

    assert BARE_JSON is made.dialect


def test_a_custom_body_with_json_templates_is_constrained_in_its_own_dialect() -> None:
    """The templates use the usual keys where the body names none."""
    custom = replace(FUNCTION_CALL, body=UnionBody((UnionBody(()),)))
    made = constraint_for("gbnf", custom, [ADD], request(None, "required"))
    assert made is not None

    assert custom is made.dialect


@pytest.mark.parametrize(
    ("form", "begins"), [("llguidance", "%llguidance {}\nstart: ROOT\n"), ("guidance", "start: ROOT\n")]
)
def test_llguidance_gets_the_same_grammar_in_lark(form: Any, begins: str) -> None:
    for asked in (request(SCHEMA), request(None, "required")):
        made = constraint_for(form, FUNCTION_CALL, [ADD], asked)
        assert made is not None
        fields = made.fields.get("structured_outputs", made.fields)

        assert fields["grammar"].startswith(begins)
        assert not llguidance_says(fields["grammar"].removeprefix("%llguidance {}\n"))
    assert constrains_document(form, request(SCHEMA))


def llguidance_says(grammar: str) -> str:
    """Return llguidance's error for a grammar, compiled as vLLM does."""
    llguidance = pytest.importorskip("llguidance", reason="make test installs it")
    tokenizer = llguidance.LLTokenizer("byte")
    return llguidance.LLMatcher(tokenizer, llguidance.grammar_from("grammar", grammar)).get_error()


@pytest.mark.parametrize("form", ["structural_tag", "json_schema"])
def test_a_server_with_formats_gets_them_unchanged_without_tools(form: Any) -> None:
    assert constraint_for(form, FUNCTION_CALL, [], request(SCHEMA)) is None
    assert not constrains_document(form, request(SCHEMA))


def test_a_schema_also_admits_calls() -> None:
    made = constraint_for("json_schema", FUNCTION_CALL, [ADD], request(SCHEMA))
    assert made is not None
    validator = Draft202012Validator(made.fields["response_format"]["json_schema"]["schema"])

    assert BARE_JSON is made.dialect
    assert validator.is_valid({"city": "x"})
    assert validator.is_valid([{"name": "add", "arguments": {"a": 1}}])
    assert not validator.is_valid({"city": 1})
    assert not validator.is_valid([{"name": "add", "arguments": {"a": "x"}}])


def test_any_object_may_be_a_call_in_bare_json() -> None:
    asked = request(OBJECT)
    made = constraint_for("json_schema", FUNCTION_CALL, [ADD], asked)
    assert made is not None

    assert (BARE_JSON, {}, "") == (made.dialect, made.fields, made.key)
    assert asked is apply_constraint(asked, made)


def test_a_structural_tag_also_admits_calls() -> None:
    made = constraint_for("structural_tag", FUNCTION_CALL, [ADD], request(SCHEMA))
    assert made is not None
    form = made.fields["response_format"]["format"]

    assert ("or", CITY) == (form["type"], form["elements"][0]["json_schema"])
    assert "tags_with_separator" == form["elements"][1]["type"]


def test_calls_that_share_markers_are_admitted_by_a_grammar() -> None:
    made = constraint_for("structural_tag", get_dialect("granite"), [ADD], request(SCHEMA))
    assert made is not None

    assert ("granite", "grammar") == (made.dialect.name, made.fields["response_format"]["format"]["type"])


def test_the_format_of_ollamas_api_is_removed_as_well() -> None:
    asked = request(SCHEMA, verbatim={"ollama": {"format": CITY, "keep_alive": 1}})

    assert ({}, {"ollama": {"keep_alive": 1}}) == (without_format(asked).extra, without_format(asked).verbatim)


# Strict tools, where a call is optional.


def test_without_a_strict_tool_only_an_eager_server_constrains_a_free_reply() -> None:
    assert constraint_for("gbnf", FUNCTION_CALL, [ADD], request()) is None
    assert constraint_for("gbnf", FUNCTION_CALL, [ADD], request(), eager=True) is not None
    assert constraint_for("gbnf", FUNCTION_CALL, [], request(), eager=True) is None


def test_a_strict_tool_constrains_every_call_after_a_marker() -> None:
    made = constraint_for("gbnf", FUNCTION_CALL, [STRICT], request())
    same = constraint_for("gbnf", FUNCTION_CALL, [ADD], request(), eager=True)

    assert made == same
    assert made is not None
    assert made.covers_all_calls
    assert made.fields["grammar"].startswith("root ::= group")


def test_in_a_dialect_without_a_marker_a_call_after_text_is_not_constrained() -> None:
    for name, mode, held in [
        ("llama3_json", "auto", False),
        ("llama3_json", "required", True),
        ("hermes", "auto", True),
    ]:
        made = constraint_for("gbnf", get_dialect(name), [STRICT], request(mode=mode))
        assert made is not None

        assert held == made.covers_all_calls


def test_a_structural_tag_is_triggered_by_the_dialects_marker() -> None:
    made = constraint_for("structural_tag", FUNCTION_CALL, [STRICT], request())
    assert made is not None
    form = made.fields["response_format"]["format"]

    assert ("triggered_tags", ["<function_call>"], False) == (form["type"], form["triggers"], form["stop_after_first"])


def test_a_schema_admits_no_free_text() -> None:
    assert constraint_for("json_schema", FUNCTION_CALL, [STRICT], request()) is None


def test_a_clients_own_constraint_and_format_are_kept() -> None:
    asked = Request(model="m", messages=(), extra={"grammar": "root ::= .", "response_format": SCHEMA})

    assert constraint_for("gbnf", FUNCTION_CALL, [STRICT], asked) is None
    assert not constrains_document("gbnf", asked)
