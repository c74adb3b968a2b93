"""xgrammar, the engine of vLLM and SGLang, compiles the grammars and structural tags and admits the same texts.

Known differences are listed below. `make test-xgrammar` runs this in an environment with torch.
"""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.call_template import call_template_of
from fcshim.constrain.calls import call_marker, grammar_of_calls, grammar_of_document
from fcshim.constrain.constraint import constraint_for
from fcshim.constrain.grammar import Grammar
from fcshim.constrain.token_limit import limit_tokens
from fcshim.constrain.writer import write_gbnf
from fcshim.messages import Request, Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from tests.constrain import schemas
from tests.constrain.matcher import Matcher
from tests.constrain.sampler import sample
from tests.engine.schemas import SCHEMAS

xgrammar = pytest.importorskip("xgrammar", reason="make test-xgrammar installs it")

JSON = Any
END = 256
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ADD = Tool("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
NOW = Tool("now")

REFUSES = {
    "must be a whole number": "a bound of an integer that is no integer",
    "is less than the number of prefixItems": "fewer elements than those that have a schema each",
}
"""xgrammar's errors for schemas that it does not compile, each with the cause."""
STRICTER = {
    "escape": "in a string whose length counts, a quotation mark or any escape",
    "email": "a host whose last part is short, or whose parts are digits",
    "const": "white space inside an array or object of an enumeration",
}
"""Texts of a schema that fcshim admits and xgrammar does not."""


class XgrammarMatcher:
    """One grammar or structural tag, compiled by xgrammar."""

    def __init__(self, *, gbnf: str = "", tag: JSON = None) -> None:
        bytes_and_end = [bytes([value]) for value in range(END)] + [b"<end>"]
        info = xgrammar.TokenizerInfo(bytes_and_end, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[END])
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._compiled = compiler.compile_grammar(gbnf) if gbnf else compiler.compile_structural_tag(json.dumps(tag))

    def admits(self, text: str) -> bool:
        """Return whether this is a complete text."""
        return self.reach(text) == len(text) + 1

    def begins(self, text: str) -> bool:
        """Return whether this is a prefix of a text."""
        return self.reach(text) >= len(text)

    def reach(self, text: str) -> int:
        """Return the number of characters consumed, plus one if the text may end there."""
        matcher = xgrammar.GrammarMatcher(self._compiled)
        for at, char in enumerate(text):
            if not matcher.accept_string(char):
                return at
        return len(text) + int(matcher.accept_token(END))


def request(mode: Any = "required", *, parallel: bool = True, **extra: JSON) -> Request:
    choice = ToolChoice(mode)
    return Request(model="m", messages=(), tool_choice=choice, parallel_tool_calls=parallel, extra=extra)


def tag_of(dialect: Any, tools: list[Tool], asked: Request) -> JSON:
    made = constraint_for("structural_tag", dialect, tools, asked)
    assert made is not None
    return made.fields["response_format"]


def spoilt(text: str, chance: random.Random) -> str:
    """Change, add or remove one character."""
    at = chance.randrange(len(text))
    return text[:at] + chance.choice(["", *'"\\{}[]:,0x\n <é']) + text[at + chance.choice([0, 1]) :]


# Grammars.


@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_a_grammar_admits_the_same_texts(schema: JSON, seed: int) -> None:
    made = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", schema), NOW])
    assert made is not None
    grammar = limit_tokens(made, 2_000)
    ours, theirs, chance = Matcher(grammar), XgrammarMatcher(gbnf=write_gbnf(grammar)), random.Random(seed)
    text = sample(grammar, seed)

    assert theirs.admits(text), text
    for _ in range(12):
        wrong = spoilt(text, chance)

        assert ours.admits(wrong) == theirs.admits(wrong), wrong


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_compiles(name: str, text: bool) -> None:
    made = grammar_of_calls(DIALECTS[name], [ADD, NOW], text=text)
    assert made is not None
    grammar = limit_tokens(made, None if text else 2_000)
    matcher = XgrammarMatcher(gbnf=write_gbnf(grammar))

    assert [True] * 8 == [matcher.admits(sample(grammar, seed)) for seed in range(8)]


def test_an_unconstrained_document_compiles() -> None:
    made = grammar_of_document({"type": "object"}, FUNCTION_CALL, [ADD])
    assert made is not None
    matcher = XgrammarMatcher(gbnf=write_gbnf(Grammar(made.rules, made.notes, limit_tokens(made, 1_000).limits)))

    assert matcher.admits('{"a": [{"b": [1, null]}]}')
    assert not matcher.begins('{"a": [}')


# Structural tags.


def differs(schema: JSON, text: str, at: int) -> str:
    """Return the known difference at which xgrammar rejects the text."""
    if "\\" in text[at - 1 : at + 1]:
        return "escape"
    return "email" if '"email"' in json.dumps(schema) else "const" if text[at - 1 : at + 1] in {", ", ": "} else ""


def refusal(tag: JSON) -> str:
    """Return xgrammar's error for a tag that it does not compile."""
    try:
        XgrammarMatcher(tag=tag)
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_tag_admits_the_calls_of_each_schema(name: str) -> None:
    tools = [Tool("f", "", SCHEMAS[name]), NOW]
    made = grammar_of_calls(FUNCTION_CALL, tools)
    assert made is not None
    grammar, matcher = limit_tokens(made, 2_000), XgrammarMatcher(tag=tag_of(FUNCTION_CALL, tools, request()))
    for seed in range(25):
        text = sample(grammar, seed)
        at = matcher.reach(text)

        assert at == len(text) + 1 or differs(SCHEMAS[name], text, at) in STRICTER, (text, text[at:])


@given(schema=schemas.arguments)
def test_every_schema_compiles_or_fails_for_a_known_reason(schema: JSON) -> None:
    refused = refusal(tag_of(FUNCTION_CALL, [Tool("f", "", schema), NOW], request()))

    assert not refused or any(known in refused for known in REFUSES), refused


@pytest.mark.parametrize("name", [name for name, row in DIALECTS.items() if call_template_of(row)])
def test_required_calls_admit_nothing_else_in_every_dialect(name: str) -> None:
    dialect = DIALECTS[name]
    one, several = (
        XgrammarMatcher(tag=tag_of(dialect, [ADD, NOW], request(parallel=parallel))) for parallel in (False, True)
    )
    single = grammar_of_calls(dialect, [ADD, NOW], max_calls=1)
    many = grammar_of_calls(dialect, [ADD, NOW])
    assert single is not None
    assert many is not None
    texts = [sample(many, seed) for seed in range(12)]

    assert [True] * 8 == [one.admits(sample(single, seed)) for seed in range(8)]
    assert [True] * 12 == [several.admits(text) for text in texts]
    assert [Matcher(single).admits(text) for text in texts] == [one.admits(text) for text in texts]
    assert not one.begins("Well")


def test_only_allowed_tools_can_be_called() -> None:
    matcher = XgrammarMatcher(tag=tag_of(FUNCTION_CALL, [ADD], request()))

    assert matcher.admits('<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>')
    assert not matcher.begins('<function_call>\n{"name": "now"')


def test_free_text_may_precede_a_call_of_a_strict_tool() -> None:
    tools = [Tool(ADD.name, "", ADD.parameters, strict=True)]
    matcher = XgrammarMatcher(tag=tag_of(FUNCTION_CALL, tools, request("auto")))
    call = f'{call_marker(FUNCTION_CALL)}\n{{"name": "add", "arguments": {{"a": 1}}}}\n</function_call>'

    assert [True, True, True] == [matcher.admits(text) for text in ("Well, 1 < 2.", call, f"Well.\n{call}")]
    assert not matcher.begins(call.replace("1", '"x"'))


def test_a_reply_is_a_document_or_calls() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    matcher = XgrammarMatcher(tag=tag_of(FUNCTION_CALL, [ADD], request("auto", response_format=form)))

    assert matcher.admits('{"city": "Rome"}')
    assert matcher.admits('<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>')
    assert not matcher.begins("Well")
