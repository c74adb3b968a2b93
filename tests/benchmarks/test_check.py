"""The check of kept replies: a delivered call must stand in what the model wrote, and be read in any split."""

import json

import pytest

from benchmarks.models.check import Findings, check, check_loops
from benchmarks.models.loops import ExecutedCall, LoopResult, TurnOutcome, load_tasks
from benchmarks.models.relay import RawReply
from benchmarks.models.results import CaseResult
from fcshim.evaluate.case import Case, ExpectedCall
from fcshim.evaluate.result import ActualCall
from fcshim.messages import Tool

CASE = Case(
    id="a",
    category="simple_python",
    messages=({"role": "user", "content": "?"},),
    tools=(Tool("get_weather", "", {}),),
    expected=((ExpectedCall("get_weather", {"city": ["Oslo"]}),),),
)
LOOP = load_tasks("tuning")[0]


def written(text, calls=""):
    return (RawReply(text=text, prompt_tokens=0, completion_tokens=0, calls=calls),)


def result(raw, *calls, verdict="right"):
    return CaseResult(id="a", category="simple_python", verdict=verdict, calls=calls, raw=raw)


@pytest.mark.parametrize(
    ("raw", "findings"),
    [
        (written('{"name": "get_weather", "arguments": {"city": "Oslo"}}'), Findings()),
        (written("get_weather(city='oslo')"), Findings()),
        (written('{"name": "get_weather", "arguments": {"city": "Rome"}}'), Findings(wrong=["a"])),
        (written('{"name": "weather", "arguments": {"city": "Oslo"}}'), Findings(wrong=["a"])),
        (written("", 'get_weather{"city": "Oslo"}'), Findings()),
    ],
)
def test_a_call_that_the_model_did_not_write_is_wrong(raw, findings):
    assert findings == check([CASE], [result(raw, ActualCall("get_weather", {"city": "Oslo"}))])


def test_a_call_that_stands_in_the_text_and_was_not_delivered_is_lost():
    raw = written("get_weather ~ Oslo")

    assert Findings(lost=["a"]) == check([CASE], [result(raw, verdict="missing_call")])
    assert Findings() == check([CASE], [result(raw, verdict="wrong_arguments")])


@pytest.mark.parametrize(("text", "wrong"), [("1030", []), ("1031", [LOOP.id])])
def test_a_call_of_a_loop_must_stand_in_a_reply_of_it(text, wrong):
    call = ExecutedCall(LOOP.tools[0], json.dumps({"order": 1030}), "{}")
    raw = written("Let me look.") + written(f'{LOOP.tools[0]} {{"order": {text}}}')
    loop = LoopResult(id=LOOP.id, verdict="right", outcomes=(TurnOutcome((call,), "Done."),), raw=raw)

    assert Findings(wrong=wrong) == check_loops([LOOP], [loop])


def test_an_invalid_call_of_a_loop_is_no_wrong_one():
    call = ExecutedCall(LOOP.tools[0], '{"order": ', "not JSON", failed=True, invalid=True)
    loop = LoopResult(id=LOOP.id, verdict="unfinished", outcomes=(TurnOutcome((call,), None),), raw=written("?"))

    assert Findings() == check_loops([LOOP], [loop])
