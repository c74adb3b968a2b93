"""The derivative of a grammar admits exactly what completes the prefix, in time linear in the prefix."""

import json
import math
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.constrain.call_template import call_template_of, write_partial_calls
from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.constraint import constraint_for, constraint_for_rest, dialect_note
from fcshim.constrain.derivative import MAX_CONTINUATIONS, derivative
from fcshim.constrain.grammar import (
    ROOT,
    Expression,
    Grammar,
    GrammarLimits,
    LiteralText,
    Repeat,
    RuleRef,
    chars,
    choice,
    series,
)
from fcshim.constrain.writer import write_gbnf
from fcshim.messages import Request, Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from tests.constrain import schemas
from tests.constrain.matcher import Matcher, admits
from tests.constrain.sampler import sample
from tests.steps import steps

JSON = Any
WRITE = Tool(
    "write",
    "",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "text": {"type": "string"}, "mode": {"enum": ["append", "new"]}},
        "required": ["path", "text"],
    },
)
REQUIRED = Request(model="m", messages=(), tool_choice=ToolChoice("required"))
WIDE = GrammarLimits(characters=60_000, items=1_000, further_calls=7)
"""Limits that no sampled text reaches, since the limits of a derivative count from zero."""

_letters = st.text("ab", max_size=3)
_leaves: st.SearchStrategy[Expression] = st.one_of(
    _letters.map(LiteralText), st.sampled_from([chars("a"), chars("ab"), chars("bc"), RuleRef("one"), RuleRef("two")])
)


def _composed(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=1, max_size=3)
    bounds = st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 2)))
    repeated = st.builds(
        lambda part, ends: Repeat(part, ends[0], None if ends[1] is None else sum(ends)), inner, bounds
    )
    return st.one_of(several.map(lambda parts: series(*parts)), several.map(choice), repeated)


expressions = st.recursive(_leaves, _composed, max_leaves=8)
grammars = st.builds(
    lambda one, two, root: Grammar({"one": one, "two": two, ROOT: root}),
    st.sampled_from([LiteralText("ab"), Repeat(chars("a"), 0, 2), choice([LiteralText("a"), LiteralText("b")])]),
    st.sampled_from([series(RuleRef("one"), LiteralText("b")), Repeat(RuleRef("one"), 1, None), LiteralText("")]),
    expressions,
)
AMBIGUOUS = Grammar({ROOT: Repeat(choice([LiteralText("a"), LiteralText("aa")]), 3, 4)})
EMPTY_ROUNDS = Grammar({ROOT: series(Repeat(Repeat(chars("a"), 0, None), 2, None), LiteralText("b"))})


@given(grammar=grammars, prefix=st.text("abc", max_size=5), rest=st.text("abc", max_size=4))
@example(AMBIGUOUS, "aaaa", "aaaa")
@example(AMBIGUOUS, "a", "a")
@example(EMPTY_ROUNDS, "aa", "ab")
def test_a_rest_is_admitted_if_and_only_if_the_whole_text_is(grammar: Grammar, prefix: str, rest: str) -> None:
    found = derivative(grammar, prefix)

    assert admits(grammar, prefix + rest) == (found is not None and admits(found, rest))


@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_the_derivative_by_any_prefix_of_a_call_admits_its_rest_and_no_invalid_one(schema: JSON, seed: int) -> None:
    made = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", schema), Tool("add")])
    assert made is not None
    grammar = Grammar(made.rules, made.notes, WIDE)
    chance = random.Random(seed)
    text = sample(grammar, seed)
    at = chance.randrange(len(text))
    wrong = text[:at] + chance.choice('"\\{}[],:0a<\n ')
    rest = derivative(grammar, text[:at])
    assert rest is not None
    matcher = Matcher(rest)

    assert matcher.admits(text[at:])
    assert not matcher.admits(text[at:-1])
    assert not matcher.admits(text[at:] + "x")
    assert Matcher(grammar).begins(wrong) == matcher.begins(wrong[at:]) == (derivative(grammar, wrong) is not None)


def test_derivatives_compose() -> None:
    grammar = grammar_of_calls(FUNCTION_CALL, [WRITE])
    assert grammar is not None
    text = sample(grammar, 3)
    once, left = derivative(grammar, text[:60]), grammar
    for char in text[:60]:
        stepped = derivative(left, char)
        assert stepped is not None
        left = stepped
    assert once is not None

    assert sample(once, 5) == sample(left, 5)
    assert Matcher(left).admits(text[60:])


def test_only_the_empty_text_follows_a_complete_one() -> None:
    grammar = Grammar({ROOT: LiteralText("abc")})
    rest = derivative(grammar, "abc")
    assert rest is not None

    assert LiteralText("") == rest.rules[ROOT]
    assert derivative(grammar, "abcd") is None
    assert derivative(grammar, "") is grammar


def test_long_literal_texts_are_distinguished() -> None:
    long = "".join(random.Random(1).choices("ab", k=5_000))
    grammar = Grammar({ROOT: choice([LiteralText(long + "c"), LiteralText(long + "d")])})
    rest = derivative(grammar, long)
    assert rest is not None

    assert (True, True, False) == (admits(rest, "c"), admits(rest, "d"), admits(rest, "e"))
    assert derivative(grammar, long[:-1] + "c") is None


def test_a_long_bounded_repetition_has_few_continuations() -> None:
    grammar = Grammar({ROOT: Repeat(choice([LiteralText("a"), LiteralText("aa"), LiteralText("ab")]), 1_000, 1_000)})
    rest = derivative(grammar, "aab" * 300)
    assert rest is not None

    assert len(write_gbnf(rest)) < 1_000


def test_too_many_continuations_give_none() -> None:
    members = [series(LiteralText("a"), Repeat(chars("az"), at, at)) for at in range(MAX_CONTINUATIONS + 1)]
    grammar = Grammar({ROOT: choice([series(member, LiteralText(f"{at}")) for at, member in enumerate(members)])})

    assert derivative(grammar, "a") is None


def test_chains_of_optional_members_do_not_exceed_the_recursion_limit() -> None:
    """Five hundred rules, each of which refers to the next."""
    schema = {"type": "object", "properties": {f"p{at}": {"type": "null"} for at in range(500)}}
    grammar = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", schema)], max_calls=1)
    assert grammar is not None
    prefix = write_partial_calls(FUNCTION_CALL, [("f", '{"p7":null,')])
    assert prefix is not None
    rest = derivative(grammar, prefix)
    assert rest is not None

    assert Matcher(rest).admits('"p499":null}}\n</function_call>')
    assert not Matcher(rest).begins('"p6":')


@pytest.mark.parametrize("piece", ["x", '\\n\\"', "é"])
@pytest.mark.parametrize("bounded", [False, True])
def test_work_is_linear_in_the_prefix(piece: str, bounded: bool) -> None:
    text = {"type": "string", **({"maxLength": 99_000} if bounded else {})}
    tool = Tool("f", "", {"type": "object", "properties": {"text": text, "n": {"type": "integer"}}})
    grammar = grammar_of_calls(FUNCTION_CALL, [tool, WRITE])
    assert grammar is not None
    sizes = [2_048, 16_384]
    opening = '<function_call>\n{"name": "f", "arguments": {"text": "'
    works = [
        steps(lambda size=size: derivative(grammar, opening + piece * (size // len(piece))), "line") for size in sizes
    ]
    slope = math.log(works[1] / works[0]) / math.log(sizes[1] / sizes[0])

    assert slope < 1.1, works


# Resumed calls.


def test_the_rest_of_a_call_is_constrained_to_the_prefix_and_the_schema() -> None:
    prefix = write_partial_calls(FUNCTION_CALL, [("write", '{ "path": "a b",\n "text": "one \\"')])
    assert prefix is not None
    made = constraint_for_rest("gbnf", FUNCTION_CALL, [WRITE, Tool("add")], REQUIRED, prefix)
    whole = constraint_for("gbnf", FUNCTION_CALL, [WRITE, Tool("add")], REQUIRED)
    assert made is not None
    assert whole is not None

    assert '<function_call>\n{"name": "write", "arguments": {"path":"a b","text":"one \\"' == prefix
    assert FUNCTION_CALL is made.dialect
    assert made.fields["grammar"].startswith("root ::= (block0{0,127} string-char{0,63} | block0{128})")
    assert whole.key != made.key


CONSTRAINED = {name: row for name, row in DIALECTS.items() if not dialect_note(row)}


@pytest.mark.parametrize("dialect", CONSTRAINED.values(), ids=CONSTRAINED)
def test_in_every_json_dialect_a_second_call_can_be_resumed(dialect: Any) -> None:
    template = call_template_of(dialect)
    assert template is not None
    if not template.is_json:
        assert write_partial_calls(dialect, [("write", "{")]) is None
        return
    calls = [("write", json.dumps({"path": "a", "text": "b"})), ("write", '{"path": "a')]
    several = write_partial_calls(dialect, calls) or write_partial_calls(dialect, calls[1:])
    assert several is not None

    assert constraint_for_rest("gbnf", dialect, [WRITE], REQUIRED, several) is not None
    assert constraint_for_rest("gbnf", dialect, [WRITE], REQUIRED, several + '", "other": ') is None
    assert constraint_for_rest("json_schema", dialect, [WRITE], REQUIRED, several) is None


def test_the_rest_is_limited_to_the_remaining_tokens() -> None:
    prefix = write_partial_calls(FUNCTION_CALL, [("write", '{"path": "' + "x" * 9_000)])
    assert prefix is not None
    few = Request(model="m", messages=(), tool_choice=ToolChoice("required"), max_tokens=300)
    made = constraint_for_rest("gbnf", FUNCTION_CALL, [WRITE], few, prefix)
    assert made is not None

    assert made.fields["grammar"].startswith("root ::= string-char{0,128}")
