"""fcshim reads the fixtures of CanIToolCall and the shapes of toolcall-repair-bench; each difference has a reason.

Rule: a call that runs is expected by its fixture, or by `differences.json`, which names the law or policy behind it.
"""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fcshim import StreamParser
from fcshim.model_defaults import defaults_for
from fcshim.reply import Reply, fold
from fcshim.testing.conformance import Call, ConformanceCase, load
from fcshim.testing.splits import splits
from tests.conformance.environment import FIXTURES

Fixture = Mapping[str, Any]
FOLDER = Path(__file__).parent
DIFFERENCES = json.loads((FOLDER / "differences.json").read_text(encoding="utf-8"))
SHAPES = load("repair_shapes")
REASONING_TAGS = ("<think>", "<|open|>think<|sep|>")
PROMPT_ENDS = {
    model["repo"]: model.get("default_generation_prompt", "")
    for file in FIXTURES.glob("*/family.json")
    for model in json.loads(file.read_text(encoding="utf-8"))["reference_models"]
}
LINES = [line for file in sorted(FIXTURES.glob("*/*.jsonl")) for line in file.read_text(encoding="utf-8").splitlines()]
CASES = {fixture["id"]: fixture for fixture in map(json.loads, LINES)}


@pytest.mark.parametrize("name", CASES)
def test_a_fixture_is_read_as_expected_or_differs_for_a_named_reason(name: str) -> None:
    fixture, difference = CASES[name], DIFFERENCES.get(name, {})
    whole = read_fixture(fixture, [fixture["raw_output"]])

    assert [call for call in _calls(whole) if call not in (*_expected(fixture), *difference.get("calls", ()))] == []
    assert bool(difference) == (not _is_expected(fixture, whole))
    for pieces in splits(fixture["raw_output"], random.Random(name), count=1):
        assert outcome(whole) == outcome(read_fixture(fixture, pieces))


@pytest.mark.skipif(not CASES, reason="python -m tests.conformance.environment")
def test_the_suite_is_whole_and_every_difference_is_one_of_its_fixtures() -> None:
    assert len(CASES) == 469
    assert set(DIFFERENCES) <= set(CASES)


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.name)
def test_a_shape_of_a_broken_call_is_read_or_is_no_call(case: ConformanceCase) -> None:
    for dialect in ("function_call", "hermes", "bare_json"):
        for pieces in ([case.input], *splits(case.input, random.Random(case.name), count=1)):
            parser = StreamParser(dialect, tools=case.tools, rescue=True)
            events = [event for piece in pieces for event in parser.feed(piece)]

            assert case.calls == _calls(fold(events + parser.close(case.stop_reason)))  # type: ignore[arg-type]


def read_fixture(fixture: Fixture, pieces: Sequence[str]) -> Reply:
    """Read a reply with the defaults of its model, and what the prompt of the fixture ends with."""
    model = fixture["models"][0]
    prompt_end = (fixture.get("generation_prompt") or PROMPT_ENDS.get(model, "")).rstrip()
    open_reasoning_tag = next((tag for tag in REASONING_TAGS if prompt_end.endswith(tag)), "")
    parser = StreamParser(
        defaults_for(model).dialect, tools=fixture["tools"], rescue=True, open_reasoning_tag=open_reasoning_tag
    )
    events = [event for piece in pieces for event in parser.feed(piece)]
    return fold(events + parser.close("max_tokens" if "truncated" in fixture["tags"] else "complete"))


def _calls(reply: Reply) -> list[Call]:
    """Return the calls that run."""
    return [
        {"name": call.tool_call_name, "arguments": json.loads(call.tool_call_arguments_complete)}
        for call in reply.tool_calls
        if call.error is None
    ]


def _expected(fixture: Fixture) -> list[Call]:
    return fixture["expected"]["tool_calls"] if "expected" in fixture else []


def _is_expected(fixture: Fixture, reply: Reply) -> bool:
    """Compare as the suite does, which ignores white space around text; a damaged fixture expects no call."""
    if _calls(reply) != _expected(fixture):
        return False
    if "expected" not in fixture:
        passed_through = reply.text.strip() == fixture["raw_output"].strip()
        return passed_through or "no_tool_calls" in fixture["expected_error"]["accept"]
    wanted = [fixture["expected"][part] or "" for part in ("content", "reasoning_content")]
    return [text.strip() for text in wanted] == [reply.text.strip(), reply.reasoning.strip()]


def outcome(reply: Reply) -> tuple[list[Call], str, str]:
    """Return the calls, the text and the reasoning of a reply."""
    return _calls(reply), reply.text, reply.reasoning
