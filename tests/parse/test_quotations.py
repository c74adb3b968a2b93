"""A call that the reply shows instead of making is text, in every dialect: in elements, comments, code and quotations.

Rule: each quotation is tried with each dialect, as the one that was asked for and as another one.
"""

import json
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import parse
from fcshim.prompt.render import render_calls
from tests.parse.laws import executable, normalise

TOOL: dict[str, Any] = {
    "name": "find_file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}},
}
ARGUMENTS = {"path": "a.txt", "depth": 3}
DIALECTS_WITHOUT_FENCE = [dialect for dialect in DIALECTS.values() if not dialect.fenced]
QUOTATIONS: dict[str, Callable[[str], str]] = {
    "example": lambda call: f"It looks like this:\n<example>\n{call}\n</example>\nOk?",
    "example alone": lambda call: f"<example>\n{call}\n</example>",
    "example in upper case": lambda call: f'<EXAMPLE id="1">\n{call}\n</EXAMPLE>\nOk?',
    "example that is not closed": lambda call: f"The format:\n<example>\n{call}",
    "example inside a line": lambda call: f"Write <code>{call}</code> to call it.",
    "preformatted text": lambda call: f"It looks like this:\n\n<pre>{call}</pre>\nOk?",
    "thought": lambda call: f"<thought>\nMaybe\n{call}\nor not.\n</thought>\nNo.",
    "comment": lambda call: f"Hm.\n<!--\n{call}\n-->\nOk?",
    "indented code": lambda call: f"For example:\n\n{textwrap.indent(call, '    ')}\n\nThat is all.",
    "fence": lambda call: f"For example:\n\n~~~\n{call}\n~~~\n\nThat is all.",
    "block quote": lambda call: f"You wrote:\n{textwrap.indent(call, '> ')}\n\nWhy?",
    "quotation marks": lambda call: f'You wrote "{call}" there.',
}


@pytest.mark.parametrize("quotation", QUOTATIONS)
def test_a_quoted_call_is_text_in_every_dialect(quotation: str) -> None:
    ran = [
        (dialect.name, asked)
        for dialect in DIALECTS_WITHOUT_FENCE
        for asked in (dialect.name, "auto", "function_call")
        if _runs(QUOTATIONS[quotation](_render(dialect)), asked)
    ]

    assert ran == []


def test_a_call_after_a_quoted_one_runs_in_every_dialect() -> None:
    replies = [f"<example>\n{_render(dialect)}\n</example>\nNow:\n{_render(dialect)}" for dialect in DIALECTS.values()]
    counts = [_runs(reply, dialect) for reply, dialect in zip(replies, DIALECTS, strict=True)]

    assert counts == [1] * len(DIALECTS)


def _render(dialect: Dialect) -> str:
    return render_calls(dialect, [("find_file", json.dumps(ARGUMENTS))]).strip("\n")


def _runs(reply: str, dialect: str) -> int:
    events = parse(reply, dialect, [TOOL], rescue=True)
    return len(executable(normalise(events)))
