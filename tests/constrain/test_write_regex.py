"""Regular expressions: Python's engine admits the sampled texts, and rejects damaged ones."""

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.grammar import ROOT, Grammar, LiteralText, Repeat, RuleRef, chars, choice, series
from fcshim.constrain.writer import write_regex
from fcshim.messages import Tool
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from tests.constrain import schemas
from tests.constrain.sampler import sample
from tests.examples import examples

JSON = Any
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def admits(grammar: Grammar, text: str) -> bool:
    regex = write_regex(grammar)
    assert regex is not None
    return re.fullmatch(regex, text) is not None


@examples(20)
@given(schema=schemas.arguments, seed=st.integers(0, 2**32))
def test_sampled_texts_are_admitted_and_shortened_ones_are_not(schema: JSON, seed: int) -> None:
    grammar = grammar_of_calls(FUNCTION_CALL, [Tool("f", "", schema), Tool("add")], max_calls=1)
    assert grammar is not None
    if write_regex(grammar) is None:  # a schema of many members
        return
    text = sample(grammar, seed)

    assert admits(grammar, text)
    assert not admits(grammar, text[: random.Random(seed).randrange(len(text))])
    assert not admits(grammar, text + "x")


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_has_one_that_admits_its_calls_or_none(name: str) -> None:
    grammar = grammar_of_calls(DIALECTS[name], [Tool("get_weather", "", CITY)], max_calls=1)
    regex = None if grammar is None else write_regex(grammar)

    assert regex is None or (grammar is not None and re.fullmatch(regex, sample(grammar, 1)))


@pytest.mark.parametrize("text", [*r"\.^$|?*+()[]{}-&~#/ ", "\n", "\t", "\x00", "\x7f", "é", " ", "😀", "a-z", "[^a]"])
def test_a_literal_text_means_itself(text: str) -> None:
    grammar = Grammar({ROOT: series(LiteralText(text), LiteralText("x"))})

    assert admits(grammar, text + "x")
    assert not admits(grammar, "q" * len(text) + "x")


@pytest.mark.parametrize("ends", ["]-", "^^", "--", "\\\\", "[[", "&&", "~~", "||", "\x00\x1f", "az"])
def test_a_class_has_its_ends_and_no_more(ends: str) -> None:
    grammar = Grammar({ROOT: chars(*([ends] if ends[0] <= ends[1] else ends))})
    others = [chr(ord(min(ends)) - 1)] if ends[0] > "\x00" else []

    assert all(admits(grammar, end) for end in ends)
    assert not any(admits(grammar, other) for other in [*others, chr(ord(max(ends)) + 1), ""])


@pytest.mark.parametrize(
    ("minimum", "maximum"), [(0, 0), (0, 1), (0, None), (1, None), (2, 2), (2, 4), (3, None), (0, 3), (1, 1)]
)
def test_a_repetition_counts(minimum: int, maximum: int | None) -> None:
    grammar = Grammar({ROOT: Repeat(LiteralText("ab"), minimum, maximum)})
    expected = [minimum <= count and (maximum is None or count <= maximum) for count in range(7)]

    assert expected == [admits(grammar, "ab" * count) for count in range(7)]


def test_rules_that_multiply_give_none_and_take_no_memory() -> None:
    rules = {"r0": choice([LiteralText("a"), LiteralText("b")])}
    rules |= {f"r{at}": series(RuleRef(f"r{at - 1}"), RuleRef(f"r{at - 1}")) for at in range(1, 64)}

    assert write_regex(Grammar({**rules, ROOT: RuleRef("r63")})) is None
    assert write_regex(Grammar({**rules, ROOT: RuleRef("r4")})) is not None
