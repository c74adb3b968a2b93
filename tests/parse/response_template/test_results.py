"""Dialects of `response_template`s read replies as transformers does; its results are recorded in `data`.

A reply's `ours` is what is read here where policy differs, and `why` says which: the table of the parser's policies
stands in ARCHITECTURE.md.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from fcshim.parse.dialect import Dialect
from fcshim.parse.response_template.shapes import template_dialect
from fcshim.parse.response_template.template import decode_template
from fcshim.parse.stream import StreamParser
from fcshim.reply import fold
from fcshim.testing.splits import splits
from tests.parse.cases import Case, check
from tests.parse.laws import Piece

DATA = Path(__file__).parent / "data"
TEMPLATES, TOOLS, REPLIES, RESULTS = (
    json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    for name in ("templates", "tools", "replies", "results")
)
CASES = [
    pytest.param(case, result, id=f"{case['template']}: {case['name']}")
    for case, result in zip(REPLIES, RESULTS, strict=True)
]


@pytest.mark.parametrize(("case", "result"), CASES)
def test_a_reply_is_read_as_transformers_reads_it(case: dict[str, Any], result: dict[str, Any] | None) -> None:
    reply = case["reply"]
    expected = case["ours"] if "ours" in case else message_of(result)

    for pieces in ([reply], *splits(reply, random.Random(reply))):
        assert expected == read(case, pieces), pieces


WITH_CALLS = [
    pytest.param(case, result, id=f"{case['template']}: {case['name']}")
    for case, result in zip(REPLIES, RESULTS, strict=True)
    if (case["ours"]["calls"] if "ours" in case else "tool_calls" in result)
]


@pytest.mark.parametrize(("case", "result"), WITH_CALLS)
def test_a_reply_keeps_the_laws_under_every_split(case: dict[str, Any], result: dict[str, Any] | None) -> None:
    calls = (case["ours"] if "ours" in case else message_of(result))["calls"]
    options = {"dialect": dialect_of(case), "open_reasoning_tag": case.get("open_reasoning_tag", "")}
    expected: list[Piece] = [
        {"call": call["name"], "value": call["arguments"]} for call in calls if "arguments" in call
    ]

    check(Case(case["name"], case["reply"], calls=expected, tools=TOOLS, options=options, last=True))


def dialect_of(case: dict[str, Any]) -> Dialect:
    """Return the dialect of a case's template."""
    return template_dialect(case["template"], decode_template(TEMPLATES[case["template"]]))


def read(case: dict[str, Any], pieces: list[str]) -> dict[str, Any]:
    """Read a reply in pieces, and return its message."""
    parser = StreamParser(dialect_of(case), TOOLS, open_reasoning_tag=case.get("open_reasoning_tag", ""))
    reply = fold([event for piece in pieces for event in parser.feed(piece)] + parser.close())
    calls = [
        {"name": call.tool_call_name, "arguments": json.loads(call.tool_call_arguments_complete)}
        if call.error is None
        else {"name": call.tool_call_name, "error": call.error.kind}
        for call in reply.tool_calls
    ]
    return {"content": reply.text.strip(), "reasoning": reply.reasoning.strip(), "calls": calls}


def message_of(result: dict[str, Any] | None) -> dict[str, Any]:
    """Return the message that transformers read, in the form of `read`."""
    assert result is not None, "transformers has no result: the reply needs `ours`"
    reasoning = next((result[key] for key in ("thinking", "reasoning_content", "reasoning") if key in result), "")
    return {
        "content": result.get("content", ""),
        "reasoning": reasoning,
        "calls": calls_of(result.get("tool_calls", [])),
    }


def calls_of(found: Any) -> list[Any]:
    """Return the calls of a field, which may be one call, a list of them, or a list of lists."""
    if isinstance(found, list):
        return [call for item in found for call in calls_of(item)]
    call = found.get("function", found)
    arguments = call["arguments"]
    return [{"name": call["name"], "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments}]


@pytest.mark.parametrize("start", ["(?:^|<think>\\s*)", "^|<think>"])
def test_reasoning_may_begin_with_the_reply(start: str) -> None:
    calls = {"open": "<call>", "close": "</call>", "repeats": True, "content": "json", "transform": "{content}"}
    fields = {"thinking": {"open_pattern": start, "close": "</think>"}, "tool_calls": calls}
    dialect = template_dialect("begins", decode_template({"start_anchor": "<|bot|>", "fields": fields}))
    reply = 'So.</think><call>{"name": "add", "arguments": {"a": 1}}</call>'
    call: Piece = {"call": "add", "value": {"a": 1}}

    check(Case("in the reply", f"<think>{reply}", calls=[call], tools=TOOLS, options={"dialect": dialect}))
    options = {"dialect": dialect, "open_reasoning_tag": "<think>"}
    check(Case("in the prompt", reply, calls=[call], tools=TOOLS, options=options))
