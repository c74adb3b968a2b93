"""Hostile patterns of Glob and Grep: neither stops this process, which serves others meanwhile."""

import asyncio

import pytest

from fcshim.tools.builtin import Search, Workspace
from fcshim.tools.builtin.search import MAX_EXPRESSION, MAX_PATTERN, GlobPattern
from tests.steps import steps
from tests.tools.builtin.tool_calls import call, error_text

pytestmark = pytest.mark.security

WIDE_SET = "[\0-\U0010ffff]"
"""One of the slowest sets to compile: 3 ms."""
SLOW = {
    "sets": WIDE_SET * (MAX_EXPRESSION // len(WIDE_SET)),
    "escaped sets": r"[\x00-\U0010ffff]" * 58,
    "sets in any case": f"(?i){WIDE_SET * 190}",
    "nested groups": "(" * 90 + "a" + ")" * 90,
    "counted groups": "((((a{1,40}){1,40}){1,40}){1,40})",
    "alternatives": "|".join("abcdefghij" * 9),
    "look-behind": r"(?<=" + "a" * 900 + ")b",
    "classes": r"[\w\W\s\S]" * 90,
    "backtracking": "(a+)+$" * 100,
    "flags": "(?x)" + " " * 900 + "a",
}


@pytest.fixture
def tools(tmp_path):
    (tmp_path / "a").write_text("ab\n")
    return Search(Workspace(tmp_path)).tools()


@pytest.mark.parametrize("pattern", SLOW.values(), ids=SLOW)
def test_a_slow_pattern_is_compiled_in_the_worker_only(tools, pattern):
    """In this process the first one takes 600 ms of the event loop, as long as every other pattern together."""

    def lines(expression: str) -> int:
        return steps(lambda: asyncio.run(call(tools, "Grep", pattern=expression, path="a")), "line")

    plain = lines("b")

    assert lines(pattern) < plain * 3


@pytest.mark.parametrize("pattern", ["x" * (MAX_EXPRESSION + 1), WIDE_SET * 100_000, "(" * 10**6])
async def test_a_long_pattern_is_refused(tools, pattern):
    said = await error_text(tools, "Grep", pattern=pattern)

    assert f"pattern has {len(pattern)} characters: expected a regular expression of at most 1000." == said


@pytest.mark.parametrize("parameter", [{"pattern": "x" * (MAX_PATTERN + 1)}, {"pattern": WIDE_SET * 10_000}])
async def test_a_long_glob_is_refused(tools, parameter):
    assert "expected at most 500" in await error_text(tools, "Glob", **parameter)
    assert "expected at most 500" in await error_text(tools, "Grep", pattern="x", include=parameter["pattern"])


async def test_braces_do_not_multiply_a_slow_glob(tools):
    assert "more than 4000 characters" in await error_text(tools, "Glob", pattern="{a,b}" * 6 + WIDE_SET * 90)


def test_a_glob_with_many_wildcards_does_not_backtrack():
    """A matcher that backtracks does not end here."""
    assert not GlobPattern("*a" * 200 + "b").matches("a" * 255)
