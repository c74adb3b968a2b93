"""Conversations: their data, and the verdict for a reply."""

import json
from collections import Counter

import pytest

from benchmarks.models.conversations import judge_conversation, load_conversations
from benchmarks.models.sandbox import Sandbox
from fcshim.events import ToolCallEnd
from fcshim.reply import Reply

ALL = load_conversations()
BY_ID = {each.case.id: each for each in ALL}
ids = list(BY_ID)


def test_each_category_has_six_test_cases_and_three_others():
    kinds = ("answer", "second_call", "correction", "no_call")
    expected = {(kind, split): count for kind in kinds for split, count in (("test", 6), ("tuning", 3))}

    assert expected == Counter((each.case.category, each.split) for each in ALL)
    assert len(ALL) == len(BY_ID)
    assert [each for each in ALL if each.split == "tuning"] == load_conversations("tuning")


@pytest.mark.parametrize("conversation", ALL, ids=ids)
def test_past_results_are_those_of_the_sandbox(conversation):
    sandbox = Sandbox()
    messages = conversation.case.messages
    calls = {call["id"]: call["function"] for each in messages for call in each.get("tool_calls", ())}
    offered = {tool.name for tool in conversation.case.tools}
    results = [each for each in messages if each["role"] == "tool"]

    assert len(calls) == len(results) > 0
    for message in results:
        call = calls[message["tool_call_id"]]
        assert call["name"] in offered
        assert sandbox.result_of(call["name"], json.loads(call["arguments"])).text == message["content"]


@pytest.mark.parametrize("conversation", ALL, ids=ids)
def test_an_expected_call_succeeds(conversation):
    for expected in (call for calls in conversation.case.expected for call in calls):
        arguments = {name: values[0] for name, values in expected.arguments.items()}
        assert not Sandbox().result_of(expected.name, arguments).is_error


@pytest.mark.parametrize("conversation", [each for each in ALL if each.case.category == "answer"])
def test_an_answer_needs_a_fact_of_the_last_results(conversation):
    assert conversation.facts


@pytest.mark.parametrize(
    ("case", "reply", "verdict"),
    [
        ("answer-distance", Reply(text="870 km."), "right"),
        ("answer-distance", Reply(text="540 km."), "missing_fact"),
        ("answer-distance", Reply(text="<function_result>870</function_result>"), "markup"),
        ("answer-distance", Reply(text=""), "no_answer"),
        ("thanks-mail", Reply(text="You are welcome."), "right"),
    ],
)
def test_the_text_decides_where_no_call_is_expected(case, reply, verdict):
    assert verdict == judge_conversation(BY_ID[case], reply)


@pytest.mark.parametrize(
    ("case", "name", "arguments", "text", "verdict"),
    [
        ("second-basket", "put_in_basket", {"sku": "M-33", "quantity": 4}, "", "right"),
        ("second-basket", "put_in_basket", {"sku": "M-34", "quantity": 4}, "", "wrong_arguments"),
        ("second-basket", "find_articles", {"words": "mug"}, "", "wrong_tool"),
        ("second-basket", "put_in_basket", {"sku": "M-33", "quantity": 4}, "<tool_response>", "markup"),
        ("thanks-mail", "supplier_contact", {"supplier": "Vika Textiles"}, "", "called_though_none_fits"),
    ],
)
def test_the_call_decides_where_one_is_made(case, name, arguments, text, verdict):
    call = ToolCallEnd("1", name, json.dumps(arguments), 0)

    assert verdict == judge_conversation(BY_ID[case], Reply(text=text, tool_calls=(call,)))
