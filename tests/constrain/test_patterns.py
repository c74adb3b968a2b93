"""Strings that are admitted for a pattern match it, and the work is bounded for every pattern."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.constraint import dialect_note
from fcshim.constrain.derivative import derivative
from fcshim.constrain.grammar import ROOT, Grammar
from fcshim.constrain.patterns import analyse_expression, read_pattern, with_length
from fcshim.constrain.regex import read_regex
from fcshim.events import ToolCallEnd
from fcshim.messages import Tool
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.parse.stream import parse
from tests.constrain.matcher import admits
from tests.constrain.sampler import sample
from tests.steps import steps

JSON = Any
READ = [
    *(r"^[A-Z]{3}-\d{4}$", r"^\d{5}(-\d{4})?$", r"^#[0-9a-fA-F]{6}$", r"^(foo|bar|baz)$", r"^v?\d+\.\d+\.\d+$"),
    *(r"^[a-z]+(-[a-z0-9]+)*$", r"^https?://", r"\.(png|jpe?g)$", r"^[^\s@]+@[^\s@]+$", r"^\+?[1-9]\d{1,14}$"),
    *(r"^(?:[01]\d|2[0-3]):[0-5]\d$", r"^(?<year>\d{4})-(?<month>0[1-9]|1[0-2])$", r"^\S+$", r"^[\w.-]+$", r"^.*$"),
    *(
        r"^$",
        r"^\u0041\x42$",
        r'^"quoted\\path"$',
        r"^[\]\-a]+$",
        r"^(a|b)",
        r"^/.*",
        r".+/$",
        r"^\w+?\s\w+$",
        r"^[<>]=?$",
        r"^é+$",
    ),
    *(r"^[\w.+-]+@[a-z0-9.-]+\.[a-z]{2,}$", r"^a*a*b$"),
]
NOT_READ = [
    *(
        r"^(a+)+$",
        r"^(a|a)*$",
        r"^(a|ab)*$",
        r"(x+x+)+y",
        r"^(\w+\s?)+$",
        r"foo",
        r"^\bfoo$",
        r"^a|b$",
        r"^(?=a)a$",
        r"^(a)\1$",
    ),
    *(
        r"^\p{L}+$",
        r"^a{3000}$",
        r"^(a{200}){200}$",
        r"^a{3,2}$",
        r"^(a",
        r"^a)$",
        r"^[a$",
        r"^*$",
        r"^[z-a]$",
        "a" * 600,
    ),
    *("^" + "(" * 30 + "a" + ")" * 30 + "$", r"^(a*)*$", "\\", r"^a{2}{3}$", r"(?i)a"),
    *(r"^a|b$", r"^.*a.*b.*$"),
]


@pytest.mark.parametrize("text", READ)
def test_sampled_texts_match(text: str) -> None:
    found = read_pattern(text)
    assert found is not None
    compiled = re.compile(text.replace("(?<", "(?P<"))
    for seed in range(60):
        word = sample(Grammar({ROOT: found}), seed)

        assert compiled.search(word), word


@pytest.mark.parametrize("text", NOT_READ)
def test_unsupported_and_ambiguous_patterns_give_none(text: str) -> None:
    assert read_pattern(text) is None


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (r"^[a-z]+(-[a-z]+)*$", ["a", "ab-c-d"], ["", "a-", "-a", "a--b"]),
        (r"^ab?c{2,3}$", ["acc", "abccc"], ["ac", "abbcc"]),
        (r"^(a|b)", ["a", "axx", "b"], ["xa", ""]),
        (r"^[^a-c]$", ["d", " ", "é"], ["a", "b", ""]),
        (r"\.png$", [".png", "x.png", ".png.png"], ["png", ".pngx"]),
    ],
)
def test_admitted_texts_match_and_others_do_not(text: str, good: list[str], bad: list[str]) -> None:
    found = read_pattern(text)
    assert found is not None
    grammar = Grammar({ROOT: found})

    assert [True] * len(good) == [admits(grammar, word) for word in good]
    assert [False] * len(bad) == [admits(grammar, word) for word in bad]


@given(text=st.text(r"ab^$()|*+?[]{}-.,\d12", max_size=14), seed=st.integers(0, 2**32))
def test_any_pattern_is_read_correctly_or_not_at_all(text: str, seed: int) -> None:
    found = read_pattern(text)
    if found is None:
        return
    word = sample(Grammar({ROOT: found}), seed)

    assert re.search(text, word), word


@pytest.mark.parametrize(
    ("text", "minimum", "maximum", "expected"),
    [
        (r"^[a-z]+$", 3, 5, r"^[a-z]{3,5}$"),
        (r"^[a-z]{2,9}$", 0, 4, r"^[a-z]{2,4}$"),
        (r"^\d{5}(-\d{4})?$", 5, 10, r"^\d{5}(-\d{4})?$"),
        (r"^\d{5}(-\d{4})?$", 0, 9, None),
        (r"^[a-z]{5}$", 0, 4, None),
        (r"^a+b$", 0, 9, None),
    ],
)
def test_length_keywords_apply_where_they_can_be_expressed(
    text: str, minimum: int, maximum: int, expected: str | None
) -> None:
    found = read_pattern(text)
    assert found is not None
    limited = with_length(found, minimum, maximum)
    if expected is None:
        assert limited is None
        return
    assert limited is not None
    words = [sample(Grammar({ROOT: limited}), seed) for seed in range(40)]

    assert all(re.search(expected, word) for word in words)


CONSTRAINED = {name: row for name, row in DIALECTS.items() if not dialect_note(row)}


@pytest.mark.parametrize("name", CONSTRAINED)
def test_in_every_dialect_the_parsed_argument_matches(name: str) -> None:
    texts = [r"^[A-Z]{3}-\d{4}$", r'^(a"b|c\\d|e<f|g\[h)$', r"^[^x]{4}$"]
    properties = {f"p{at}": {"type": "string", "pattern": text} for at, text in enumerate(texts)}
    tool = Tool("f", "", {"type": "object", "properties": properties, "required": ["p0"]})
    grammar = grammar_of_calls(DIALECTS[name], [tool], max_calls=1)
    assert grammar is not None
    held = [text for text in texts if not any("pattern" in note for note in grammar.notes)]
    for seed in range(12):
        ends = [
            event
            for event in parse(sample(grammar, seed), dialect=name, tools=[tool])
            if isinstance(event, ToolCallEnd)
        ]
        arguments = json.loads(ends[0].tool_call_arguments_complete)
        for at, text in enumerate(held):
            value = arguments.get(f"p{at}")

            assert value is None or re.search(text, value), value


@pytest.mark.parametrize(
    "text", ["(" * 250 + "a" * 250, "a|" * 250, "[" + "a-b" * 160 + "]", "(a?){9}" * 70, "^(a|b|ab)*" * 40]
)
def test_no_pattern_takes_much_work(text: str) -> None:
    assert steps(lambda: read_pattern.__wrapped__(text), "line") < 1_250_000


def test_a_sampler_keeps_few_states() -> None:
    for text in READ:
        tool = Tool("f", "", {"type": "object", "properties": {"x": {"type": "string", "pattern": text}}})
        grammar = grammar_of_calls(FUNCTION_CALL, [tool], max_calls=1)
        assert grammar is not None
        word = sample(grammar, 3)
        rest = derivative(grammar, word[: len(word) // 2])
        assert rest is not None

        assert len(getattr(rest.rules[ROOT], "options", ())) < 20


@pytest.mark.parametrize(
    ("text", "ends", "restarts"),
    [
        (r"^[a-z]+(-[a-z]+)*$", True, True),
        (r"^(a|b)*$", True, True),
        (r"^(a{1,3}b)*$", True, True),
        (r"^[a-z.]+\.[a-z]+$", False, True),
        (r"^(a*|ab*)$", False, True),
        (r"^a?a?a?$", True, True),
        (r"^(a+)+$", True, False),
        (r"^(a|ab)*$", True, False),
        (r"^(a?)*$", True, False),
        (r"^(a?){9}$", True, True),
    ],
)
def test_ambiguous_ends_and_restarts_of_repetitions_are_found(text: str, *, ends: bool, restarts: bool) -> None:
    found = analyse_expression(read_regex(text))

    assert (ends, restarts) == (found.ends_determined, found.restarts_determined)
