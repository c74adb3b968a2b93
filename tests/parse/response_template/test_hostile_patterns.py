"""Expressions of a model's files that could take long, or raise what nobody expects."""

import pytest

from fcshim.parse.response_template.pattern import (
    PatternError,
    compile_pattern,
    listed_texts,
    longest_literal,
    parse_pattern,
    sample_text,
)
from tests.steps import steps

pytestmark = pytest.mark.security

EXPRESSIONS = {
    "wide classes": "".join(f"[\0-{chr(0x10FFFF - at)}]" for at in range(1_900)),
    "class escapes": r"[\w\W]" * 1_400,
    "counted groups": "((((a{1,99}){1,99}){1,99}){1,99})",
    "a large count": "a{9999}",
    "nested groups": "(" * 5_000 + ")" * 5_000,
    "nested repetitions": "(?:" * 19 + "a" + ")*" * 19,
    "alternatives": "|".join("a" * 4_999),
    "empty repetitions": "(?:)*" * 1_900,
    "nested empty repetitions": "((a*)*)*" * 1_200,
    "lookahead": "(?!a)" * 1_900,
    "lookahead over all": "(?=.*a)" * 1_300 + "b",
    "lazy repetitions": "(a*?)*?b" * 1_200,
    "any text": ".*" * 4_900 + "b",
    "products": "(a|b)" * 1_900,
    "groups": "".join(f"(?P<g{at}>a)" for at in range(800)),
    "one group twice": "(?P<a>x)(?P<a>y)",
    "a backslash at the end": "\\",
    "a bracket at the end": "[",
    "a group at the end": "(?P<",
    "a brace at the end": "a{",
    "NUL": "\0*[\0]",
    "half of a surrogate pair": "\ud800[\ud800-\udfff]",
}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_is_read_within_a_bound_or_refused(expression):
    def read() -> None:
        try:
            node = parse_pattern(expression)
            pattern = compile_pattern(node)
        except PatternError:
            return
        listed_texts(node)
        longest_literal(node)
        sample_text(node, {})
        pattern.match("ab" * 100, 0)

    assert steps(read, "line") < 1_500_000
