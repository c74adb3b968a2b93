"""xgrammar, which vLLM and SGLang hold models with, compiles what is written and admits the same texts.

Where it does not, the difference has a name below. `make test-xgrammar` runs this in an environment that has torch.
"""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcshim.constrain.call_template import call_template_of
from fcshim.constrain.calls import call_marker, grammar_of_calls, grammar_of_document
from fcshim.constrain.constraint import constraint_for
from fcshim.constrain.gbnf import write_gbnf
from fcshim.constrain.grammar import Grammar
from fcshim.constrain.token_limit import limit_tokens
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
"""What xgrammar says to schemas that it does not compile, and what it is about."""
STRICTER = {
    "escape": "in a string whose length counts, a quotation mark or any escape",
    "email": "a host whose last part is short, or whose parts are digits",
    "const": "white space inside an array or object of an enumeration",
}
"""What xgrammar does not admit of a schema that we do."""


class Judge:
    """One grammar or structural tag, compiled by xgrammar."""

    def __init__(self, *, gbnf: str = "", tag: JSON = None) -> None:
        bytes_and_end = [bytes([value]) for value in range(END)] + [b"<end>"]
        info = xgrammar.TokenizerInfo(bytes_and_end, vocab_type=xgrammar.VocabType.RAW, stop_token_ids=[END])
        compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._compiled = compiler.compile_grammar(gbnf) if gbnf else compiler.compile_structural_tag(json.dumps(tag))

    def admits(self, text: str) -> bool:
        """Tell whether this is a whole text."""
        return self.reach(text) == len(text) + 1

    def begins(self, text: str) -> bool:
        """Tell whether a text may begin so."""
        return self.reach(text) >= len(text)

    def reach(self, text: str) -> int:
        """Give how many characters are taken, and one more where the text may end there."""
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
    """Change, add or leave out one character."""
    at = chance.randrange(len(text))
    return text[:at] + chance.choice(["", *'"\\{}[]:,0x\n <é']) + text[at + chance.choice([0, 1]) :]


# Grammars, as they are.


@settings(max_examples=150, deadline=None)
@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_a_grammar_admits_the_same_texts(schema: JSON, seed: int) -> None:
    made = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", schema), NOW])
    assert made is not None
    grammar = limit_tokens(made, 2_000)
    ours, theirs, chance = Matcher(grammar), Judge(gbnf=write_gbnf(grammar)), random.Random(seed)
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
    judge = Judge(gbnf=write_gbnf(grammar))

    assert [True] * 8 == [judge.admits(sample(grammar, seed)) for seed in range(8)]


def test_a_document_of_any_kind_compiles() -> None:
    made = grammar_of_document({"type": "object"}, FUNCTION_CALL, [ADD])
    assert made is not None
    judge = Judge(gbnf=write_gbnf(Grammar(made.rules, made.notes, limit_tokens(made, 1_000).limits)))

    assert judge.admits('{"a": [{"b": [1, null]}]}')
    assert not judge.begins('{"a": [}')


# Structural tags.


def differs(schema: JSON, text: str, at: int) -> str:
    """Name the difference that ends the text there."""
    if "\\" in text[at - 1 : at + 1]:
        return "escape"
    return "email" if '"email"' in json.dumps(schema) else "const" if text[at - 1 : at + 1] in {", ", ": "} else ""


def refusal(tag: JSON) -> str:
    """Give what xgrammar says to a tag that it does not compile."""
    try:
        Judge(tag=tag)
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_tag_admits_the_calls_of_each_schema(name: str) -> None:
    tools = [Tool("f", "", SCHEMAS[name]), NOW]
    made = grammar_of_calls(FUNCTION_CALL, tools)
    assert made is not None
    grammar, judge = limit_tokens(made, 2_000), Judge(tag=tag_of(FUNCTION_CALL, tools, request()))
    for seed in range(25):
        text = sample(grammar, seed)
        at = judge.reach(text)

        assert at == len(text) + 1 or differs(SCHEMAS[name], text, at) in STRICTER, (text, text[at:])


@settings(max_examples=150, deadline=None)
@given(schema=schemas.arguments)
def test_every_schema_compiles_or_it_is_known_why_not(schema: JSON) -> None:
    refused = refusal(tag_of(FUNCTION_CALL, [Tool("f", "", schema), NOW], request()))

    assert not refused or any(known in refused for known in REFUSES), refused


@pytest.mark.parametrize("name", [name for name, row in DIALECTS.items() if call_template_of(row)])
def test_calls_that_are_demanded_are_all_there_is_in_every_dialect(name: str) -> None:
    dialect = DIALECTS[name]
    one, several = (Judge(tag=tag_of(dialect, [ADD, NOW], request(parallel=parallel))) for parallel in (False, True))
    single = grammar_of_calls(dialect, [ADD, NOW], parallel=False)
    many = grammar_of_calls(dialect, [ADD, NOW])
    assert single is not None
    assert many is not None
    texts = [sample(many, seed) for seed in range(12)]

    assert [True] * 8 == [one.admits(sample(single, seed)) for seed in range(8)]
    assert [True] * 12 == [several.admits(text) for text in texts]
    assert [Matcher(single).admits(text) for text in texts] == [one.admits(text) for text in texts]
    assert not one.begins("Well")


def test_only_the_tools_that_are_allowed_are_called() -> None:
    judge = Judge(tag=tag_of(FUNCTION_CALL, [ADD], request()))

    assert judge.admits('<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>')
    assert not judge.begins('<function_call>\n{"name": "now"')


def test_text_goes_up_to_a_call_of_a_strict_tool() -> None:
    tools = [Tool(ADD.name, "", ADD.parameters, strict=True)]
    judge = Judge(tag=tag_of(FUNCTION_CALL, tools, request("auto")))
    call = f'{call_marker(FUNCTION_CALL)}\n{{"name": "add", "arguments": {{"a": 1}}}}\n</function_call>'

    assert [True, True, True] == [judge.admits(text) for text in ("Well, 1 < 2.", call, f"Well.\n{call}")]
    assert not judge.begins(call.replace("1", '"x"'))


def test_a_document_or_calls() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    judge = Judge(tag=tag_of(FUNCTION_CALL, [ADD], request("auto", response_format=form)))

    assert judge.admits('{"city": "Rome"}')
    assert judge.admits('<function_call>\n{"name": "add", "arguments": {"a": 1}}\n</function_call>')
    assert not judge.begins("Well")
