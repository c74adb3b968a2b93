"""Regular expressions of `response_template`s match like Python's, in linear time."""

import functools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.parse.response_template.pattern import (
    Pattern,
    PatternError,
    compile_pattern,
    group_names,
    listed_texts,
    parse_pattern,
    sample_text,
)
from tests.steps import steps

ATOMS = ["a", "b", r"\w", r"\s", "[ab]", "[^a]", ".", r"\n", "(?:a|b)", "(a|ab)", "(?P<g>b+)", "(?=b)", "(?!a)", r"\|"]
QUANTIFIERS = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}?"]
LOOKS = ("(?=b)", "(?!a)")
EXPRESSIONS = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS)).map(
        lambda pair: pair[0] if pair[0] in LOOKS else "".join(pair)
    ),
    min_size=1,
    max_size=5,
).map(lambda parts: "".join(parts).replace("(?P<g>", "(", "".join(parts).count("(?P<g>") - 1))
TEXTS = st.text("ab| \n", max_size=12)


@given(EXPRESSIONS, TEXTS)
@example("(a|ab)(?P<g>b+)?", "abb")
def test_an_expression_matches_like_pythons(expression: str, text: str) -> None:
    ours, found = Pattern(parse_pattern(expression)), re.compile(expression, re.DOTALL).match(text)
    match = ours.match(text)

    assert (found is None) == (match is None)
    if found is not None and match is not None:
        assert found.end() == match.end
        assert {name: each for name, each in found.groupdict().items() if each is not None} == match.groups


@given(EXPRESSIONS, TEXTS, TEXTS)
def test_more_text_changes_a_match_only_if_it_reached_the_end(expression: str, text: str, more: str) -> None:
    pattern = Pattern(parse_pattern(expression))
    first = pattern.match(text)
    reached_end = pattern.hit_end

    assert reached_end or first == pattern.match(text + more)


@given(EXPRESSIONS)
def test_a_sample_text_matches(expression: str) -> None:
    node = parse_pattern(expression)
    text = sample_text(node, dict.fromkeys(group_names(node), "b"))

    if not any(look in expression for look in LOOKS):
        assert compile_pattern(node).match(text) is not None


@pytest.mark.parametrize(
    "expression", [r"(a+)+b", r"(a|a)*b", r"(a*)*(a*)*b", r"(?:a?){40}a{40}", r"(?P<g>.*?)*c", "a*a*a*b"]
)
def test_the_cost_is_linear(expression: str) -> None:
    pattern = Pattern(parse_pattern(expression))
    short, long = (steps(functools.partial(pattern.match, "a" * size)) for size in (200, 800))

    assert long < 4.5 * short


@pytest.mark.parametrize(
    "expression",
    [
        "\\",
        "[a-z]" * 101,
        "(?i)a",
        "(?<=a)b",
        r"(a)\1",
        "a**",
        "a*+",
        "[a",
        "(a",
        "a)",
        r"\bq",
        "a{3,1}",
        "*a",
        "^a",
        "(?P<1>a)",
        "a{9999}{9999}",
        "(" * 30 + ")" * 30,
    ],
)
def test_what_is_not_supported_is_an_error(expression: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(parse_pattern(expression))


@pytest.mark.parametrize(
    ("expression", "texts"),
    [
        ("</call>", ("</call>",)),
        (r"\s*</a>\s*", ("</a>",)),
        (r"</a>|<\|end\|>|$", ("</a>", "<|end|>")),
        (r"</a>\s*</b>", ("</a></b>", "</a>\n</b>", "</a> </b>")),
        (r"(?:</a>|</A>)(?=\n|$)", ("</a>\n", "</a>", "</A>\n", "</A>")),
        (r"</\w+>", None),
        (r"a.*b", None),
    ],
)
def test_the_texts_of_an_expression_are_listed(expression: str, texts: tuple[str, ...] | None) -> None:
    assert texts == listed_texts(parse_pattern(expression))
