"""In every dialect, fcshim's parser reads the replies that a grammar derives as valid calls."""

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fcshim.constrain.call_template import MAX_CALLS, call_template_of
from fcshim.constrain.calls import call_marker, grammar_of_calls, grammar_of_document
from fcshim.constrain.free_text import free_text
from fcshim.constrain.grammar import ROOT, Grammar, LiteralText
from fcshim.constrain.token_limit import limit_tokens
from fcshim.constrain.values import Rules
from fcshim.constrain.writer import write_gbnf
from fcshim.events import ToolCallEnd
from fcshim.messages import Tool
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.parse.stream import StreamParser
from fcshim.testing.splits import random_split
from tests.constrain import schemas
from tests.constrain.matcher import Matcher, admits
from tests.constrain.sampler import sample
from tests.constrain.test_values import HOSTILE
from tests.examples import examples
from tests.parse.laws import check_reply

JSON = Any
CONSTRAINED = {name: row for name, row in DIALECTS.items() if call_template_of(row)}
ODD = Tool("say", "", {"type": "object", "properties": {"x": {"enum": ['</function_call>"\n', "é", "```", ");"]}}})
"""A tool with values that contain markers and quotes."""


def calls_in(text: str, dialect: Dialect, tools: list[Tool], seed: int = 1) -> list[ToolCallEnd]:
    """Parse a reply in random chunks and return its calls; it must contain nothing else."""
    parser = StreamParser(dialect, tools)
    pieces = random_split(text, random.Random(seed))
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    ends = [event for event in events if isinstance(event, ToolCallEnd)]
    found = check_reply(text, "complete", events)

    assert all("call" in piece or not piece.get("text", "").strip() for piece in found), found

    return ends


def test_every_dialect_has_a_grammar_but_those_whose_tags_are_named_after_tools() -> None:
    assert set(DIALECTS) - set(CONSTRAINED) == {"cline"}


@pytest.mark.parametrize("dialect", CONSTRAINED.values(), ids=CONSTRAINED)
@examples(3)
@given(drawn=st.dictionaries(schemas.names, schemas.arguments, min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_sampled_replies_are_parsed_as_valid_calls(dialect: Dialect, drawn: dict[str, JSON], seed: int) -> None:
    check_sampled_reply(dialect, drawn, seed)


def check_sampled_reply(dialect: Dialect, drawn: dict[str, JSON], seed: int) -> None:
    """Sample a reply from the grammar of tools with these schemas, and parse it."""
    tools = [ODD, *(Tool(name, "", schema) for name, schema in drawn.items() if name != "say")]
    by_name = {tool.name: tool.parameters for tool in tools}
    grammar = grammar_of_calls(dialect, tools)
    assert grammar is not None
    text = sample(grammar, seed)
    calls = calls_in(text, dialect, tools, seed)

    assert calls
    for call in calls:
        assert call.error is None, text
        assert [] == call.coerced
        value = json.loads(call.tool_call_arguments_complete)
        assert [] == list(Draft202012Validator(by_name[call.tool_call_name]).iter_errors(value)), text


@pytest.mark.parametrize("dialect", CONSTRAINED.values(), ids=CONSTRAINED)
def test_without_parallel_calls_a_reply_has_one_call(dialect: Dialect) -> None:
    tools = [ODD, Tool("add")]
    several = grammar_of_calls(dialect, tools)
    single = grammar_of_calls(dialect, tools, max_calls=1)
    assert several is not None
    assert single is not None

    assert {1} == {len(calls_in(sample(single, seed), dialect, tools)) for seed in range(20)}
    assert 1 < max(len(calls_in(sample(several, seed), dialect, tools)) for seed in range(20)) <= MAX_CALLS


def test_names_with_quotes_are_written_as_json() -> None:
    tools = [Tool('a"b'), Tool("a")]
    grammar = grammar_of_calls(FUNCTION_CALL, tools)
    assert grammar is not None
    names = {
        call.tool_call_name for seed in range(20) for call in calls_in(sample(grammar, seed), FUNCTION_CALL, tools)
    }

    assert {'a"b', "a"} == names


def test_free_text_is_not_told_from_calls_that_their_names_open() -> None:
    assert grammar_of_calls(DIALECTS["glm4"], [Tool("f")], text=True) is None


@pytest.mark.parametrize(
    "dialect", [row for row in CONSTRAINED.values() if row.name != "glm4"], ids=lambda row: row.name
)
def test_free_text_is_admitted_and_calls_after_a_marker_are_constrained(
    dialect: Dialect,
) -> None:
    tools = [Tool("f", "", {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]})]
    grammar = grammar_of_calls(dialect, tools, text=True)
    calls = grammar_of_calls(dialect, tools)
    assert grammar is not None
    assert calls is not None
    matcher, marker = Matcher(grammar), call_marker(dialect)
    call = sample(calls, 5)
    text = "Well, 1 < 2 \U0001f600" + marker[:-1]

    assert matcher.admits(call)
    assert matcher.admits(text)
    assert not matcher.admits(call[:-2])
    if marker and free_text(marker, LiteralText(""), Rules()):
        assert [True, True] == [matcher.admits(text + call), matcher.admits(text + marker[0] + call)]
        assert not matcher.begins(text + call.replace("count", "amount"))
        assert not matcher.begins(marker + "x")


def test_free_text_is_all_text_without_the_marker() -> None:
    rules = Rules()
    said = free_text("<ab>", LiteralText("!"), rules)
    assert said is not None
    grammar = Grammar({**rules.rules, ROOT: said})
    for size in range(7):
        for letters in itertools.product("<ab>", repeat=size):
            text = "".join(letters)

            assert ("<ab>" not in text) == admits(grammar, text), text
            assert ("<ab>" not in text) == admits(grammar, text + "<ab>!"), text


@pytest.mark.parametrize("marker", ["", "<", "<<", "<|a|><|b|>"])
def test_a_marker_that_repeats_its_first_character_is_not_supported(marker: str) -> None:
    assert free_text(marker, LiteralText(""), Rules()) is None


DOCUMENT = {"type": "object", "properties": {"city": {"type": "string"}, "to": {"type": "array"}}, "required": ["city"]}


@given(schema=schemas.values, seed=st.integers(0, 2**32))
def test_sampled_documents_satisfy_their_schema(schema: JSON, seed: int) -> None:
    grammar = grammar_of_document(schema, FUNCTION_CALL)
    assert grammar is not None
    value = json.loads(sample(grammar, seed))

    assert [] == list(Draft202012Validator(schema).iter_errors(value))


def test_a_document_of_any_kind_may_nest_containers() -> None:
    grammar = grammar_of_document({"type": "object"}, FUNCTION_CALL)
    assert grammar is not None
    matcher = Matcher(grammar)

    assert matcher.admits('{"a": [{"b": {"c": [1, 2.5, "x", null]}}], "d": true}')
    assert not matcher.begins("[")
    assert not matcher.admits('{"a": 1')


def test_a_reply_is_a_document_or_calls() -> None:
    grammar = grammar_of_document(DOCUMENT, FUNCTION_CALL, [Tool("add")])
    assert grammar is not None
    matcher = Matcher(grammar)
    texts = [sample(grammar, seed) for seed in range(30)]

    assert {"{", "<"} == {text[0] for text in texts}
    assert all(matcher.admits(text) for text in texts)
    assert not matcher.begins("Well")


def test_notes_name_the_tool_whose_schema_is_not_enforced() -> None:
    tool = Tool("add", "", {"type": "object", "properties": {"x": {"type": "string", "pattern": "a+"}}})
    grammar = grammar_of_calls(FUNCTION_CALL, [tool])
    assert grammar is not None

    assert ("tool 'add': pattern is not enforced",) == grammar.notes


@pytest.mark.parametrize("dialect", ["qwen3_xml", "kimi_k3", "minimax_m3", "pythonic", "gemma4"])
@pytest.mark.parametrize("hostile", sorted(set(HOSTILE) - {"half a character", "one inside another"}))
def test_hostile_schemas_still_give_a_call_in_every_syntax(dialect: str, hostile: str) -> None:
    tool = Tool("f", "", HOSTILE[hostile])
    grammar = grammar_of_calls(DIALECTS[dialect], [tool], max_calls=1)
    assert grammar is not None
    written = write_gbnf(limit_tokens(grammar, 1_000))
    [call] = calls_in(sample(grammar, 1), DIALECTS[dialect], [tool])

    assert call.error is None
    assert len(written) < 1_000_000


def test_a_name_that_cannot_be_in_a_tag_is_omitted_and_noted() -> None:
    schema = {"type": "object", "properties": {"a>b\n": {}, "c": {"type": "null"}}, "required": ["a>b\n", "c"]}
    grammar = grammar_of_calls(DIALECTS["qwen3_xml"], [Tool("f", "", schema)], max_calls=1)
    assert grammar is not None

    assert ("tool 'f': the name 'a>b\\n' cannot be written",) == grammar.notes
    assert "<parameter=c>\nnull\n</parameter>" in sample(grammar, 1)


def test_a_value_that_contains_a_marker_is_omitted_and_noted() -> None:
    schema = {"type": "object", "properties": {"x": {"enum": ["</parameter>", "a"]}}, "required": ["x"]}
    grammar = grammar_of_calls(DIALECTS["qwen3_xml"], [Tool("f", "", schema)], max_calls=1)
    assert grammar is not None

    assert any("cannot be written" in note for note in grammar.notes)
    assert all("<parameter=x>\na\n</parameter>" in sample(grammar, seed) for seed in range(9))


@pytest.mark.parametrize("kinds", [["string", "null"], ["string", "integer"], ["string", "boolean", "array"]])
def test_raw_strings_are_never_parsed_as_another_kind(kinds: list[str]) -> None:
    one = {"type": kinds, "maxLength": 5, "minimum": 10**6, "minItems": 1, "items": {"type": "integer"}}
    schema = {"type": "object", "properties": {"x": one}, "required": ["x"]}
    tool = Tool("f", "", schema)
    grammar = grammar_of_calls(DIALECTS["qwen3_xml"], [tool], max_calls=1)
    assert grammar is not None
    values = [
        json.loads(call.tool_call_arguments_complete)
        for seed in range(300)
        for call in calls_in(sample(grammar, seed), DIALECTS["qwen3_xml"], [tool])
    ]

    assert all(Draft202012Validator(schema).is_valid(value) for value in values)
    assert any(isinstance(value["x"], str) for value in values)
    assert any(not isinstance(value["x"], str) for value in values)


@pytest.mark.parametrize("dialect", ["qwen3_xml", "dsml", "minimax_m3", "pythonic", "gemma4"])
def test_alternatives_of_arguments_are_parsed_as_written(dialect: str) -> None:
    text = {"type": "string", "enum": ["5", "true", "x"]}
    kinds = [
        {"type": "object", "properties": {"a": text, "b": {"type": "object", "maxProperties": 0}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 9}, "c": text}, "required": ["a", "c"]},
    ]
    schema = {"anyOf": kinds, "type": "object"}
    tool = Tool("f", "", {"anyOf": [*kinds, {"type": "object", "properties": {"u": {"anyOf": kinds}}}]})
    for offered in (tool, Tool("f", "", schema)):
        grammar = grammar_of_calls(DIALECTS[dialect], [offered], max_calls=1)
        assert grammar is not None
        for seed in range(60):
            [call] = calls_in(sample(grammar, seed), DIALECTS[dialect], [offered])
            value = json.loads(call.tool_call_arguments_complete)

            assert [] == list(Draft202012Validator(offered.parameters).iter_errors(value)), sample(grammar, seed)
