"""Loops: the tasks, the conversation that runs, and the verdict."""

import json
from collections import Counter

import pytest

from benchmarks.models.answer_text import missing_facts
from benchmarks.models.loops import (
    MAX_TURNS,
    ExecutedCall,
    LoopTask,
    TurnOutcome,
    UserTurn,
    expected_results,
    judge_loop,
    load_tasks,
    run_task,
)
from benchmarks.models.sandbox import Sandbox
from fcshim import Client
from fcshim.errors import UpstreamError
from fcshim.events import CallError, ToolCallEnd
from fcshim.reply import Reply
from tests.scripted import scripted_upstream, text_reply

SAMPLING = {"temperature": 0, "seed": 1}
STATUS = {"order_status": {"order": 1030}}
POSITION = {"parcel_position": {"parcel": "PX-590"}}
WHERE = UserTurn("Where is the parcel of order 1030?", ((STATUS, POSITION),), (("Malmö",),))
THANKS = UserTurn("Thanks!")
TOOLS = ("order_status", "parcel_position")
TASK = LoopTask("where", "tuning", TOOLS, (WHERE, THANKS))
TASKS = load_tasks()
ids = [task.id for task in TASKS]


def executed(*planned):
    """Run planned calls on fresh data, as the model's calls."""
    sandbox = Sandbox()
    calls = [next(iter(call.items())) for call in planned]
    results = [sandbox.result_of(name, arguments) for name, arguments in calls]
    return tuple(
        ExecutedCall(name, json.dumps(arguments), result.text, result.is_error)
        for (name, arguments), result in zip(calls, results, strict=True)
    )


GOOD = TurnOutcome(executed(STATUS, POSITION), "In Malmö.")
WELCOME = TurnOutcome((), "You are welcome.")


def test_there_are_twenty_test_tasks_and_twelve_others():
    assert {"test": 20, "tuning": 12} == Counter(task.split for task in TASKS)
    assert len(TASKS) == len(set(ids))
    assert [task for task in TASKS if task.split == "test"] == load_tasks("test")


def test_at_least_four_test_tasks_have_a_turn_without_calls():
    assert 4 <= sum(any(turn.accepted == ((),) for turn in task.turns) for task in load_tasks("test"))


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_a_task_fits_into_the_turns_with_one_call_in_each(task):
    for results in expected_results(task):
        assert 2 <= sum(map(len, results)) <= 4
        assert sum(map(len, results)) + len(task.turns) <= MAX_TURNS


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_a_task_offers_three_to_five_tools_and_those_that_it_needs(task):
    needed = {name for turn in task.turns for path in turn.accepted for step in path for name in names_of(step)}
    assert 3 <= len(task.definitions) <= 5
    assert needed < set(task.tools)


def names_of(step):
    return [name for call in as_calls(step) for name in call]


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_a_later_call_needs_an_earlier_result(task):
    said = " ".join(turn.user for turn in task.turns)
    paths = [path for turn in task.turns for path in turn.accepted if path]
    for path in paths:
        values = [
            value for step in path[1:] for call in as_calls(step) for each in call.values() for value in each.values()
        ]
        assert any(str(value) not in said for value in values), path


def as_calls(step):
    return step if isinstance(step, tuple) else (step,)


@pytest.mark.parametrize("task", TASKS, ids=ids)
def test_a_fact_is_a_part_of_the_results_and_not_of_the_request(task):
    accepted = expected_results(task)
    for number, turn in enumerate(task.turns):
        if turn.accepted != ((),):
            assert turn.facts
            assert any(
                not missing_facts(turn.facts, "\n".join(each.text for each in results[number])) for results in accepted
            )
            assert all(missing_facts([fact], turn.user) for fact in turn.facts)


async def test_a_loop_runs_the_calls_and_hands_their_results_to_the_model():
    replies = [call_text(STATUS), "Now the parcel.\n" + call_text(POSITION), "It is in Malmö.", "You are welcome."]
    async with scripted_upstream(*map(text_reply, replies)) as upstream, client_of(upstream) as client:
        result = await run_task(client, TASK, sampling=SAMPLING)

    assert ("right", "") == (result.verdict, result.reason)
    assert 4 == result.turns
    assert executed(STATUS, POSITION) == result.calls
    assert ["", "Now the parcel.\n", "It is in Malmö.", "You are welcome."] == list(result.texts)
    assert (40, 20) == (result.input_tokens, result.output_tokens)
    last = upstream.requests[-1].body["messages"]
    assert "Thanks!" in last[-1]["content"]
    assert "PX-590" in json.dumps(last)


async def test_every_source_of_replies_gets_the_conversation_of_the_chat_api():
    source = WrittenReplies(called(STATUS, "a"), called(POSITION, "b"), Reply(text="In Malmö."), Reply(text="Bye."))
    result = await run_task(source, TASK, sampling=SAMPLING)

    assert result.right
    assert [1, 3, 5, 7] == source.lengths
    assert ["user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant"] == [
        message["role"] for message in source.messages
    ]
    function = {"name": "order_status", "arguments": '{"order": 1030}'}
    assert [{"id": "a", "type": "function", "function": function}] == source.messages[1]["tool_calls"]
    assert {"role": "tool", "tool_call_id": "a", "content": result.calls[0].result} == source.messages[2]
    assert SAMPLING == source.sampling


async def test_a_model_that_repeats_its_call_is_stopped_after_five_turns():
    source = WrittenReplies(*[called(STATUS, str(number)) for number in range(9)])
    result = await run_task(source, TASK, sampling=SAMPLING)

    assert ("unfinished", 5, 5) == (result.verdict, result.turns, len(result.calls))


async def test_an_unreadable_call_is_answered_with_an_error():
    broken = ToolCallEnd("x", "order_status", '{"order":', 0, error=CallError("malformed", "not JSON", "{"))
    source = WrittenReplies(
        Reply(tool_calls=(broken,), stop_reason="tool_use"),
        called(STATUS, "a"),
        called(POSITION, "b"),
        Reply(text="In Malmö."),
        Reply(text="Bye."),
    )
    result = await run_task(source, TASK, sampling=SAMPLING)

    assert ("recovered", False) == (result.verdict, result.right)
    assert result.calls[0].failed
    assert "{}" == source.messages[1]["tool_calls"][0]["function"]["arguments"]


async def test_calls_of_a_truncated_reply_do_not_run():
    (status,) = called(STATUS, "a").tool_calls
    source = WrittenReplies(Reply(text="Hm", tool_calls=(status,), stop_reason="max_tokens"), Reply(text="Bye."))
    result = await run_task(source, TASK, sampling=SAMPLING)

    assert ((), "wrong_results", 2) == (result.calls, result.verdict, result.turns)


async def test_a_failing_endpoint_is_a_verdict_and_the_calls_before_it_are_kept():
    source = WrittenReplies(called(STATUS, "a"), UpstreamError("the prompt is too long"))
    result = await run_task(source, TASK, sampling=SAMPLING)

    assert ("error", "the prompt is too long", 1) == (result.verdict, result.reason, result.turns)
    assert executed(STATUS) == result.calls


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([GOOD, WELCOME], "right"),
        ([GOOD], "unfinished"),
        ([TurnOutcome(GOOD.calls, None)], "unfinished"),
        ([GOOD, TurnOutcome((), " \n")], "unfinished"),
        ([TurnOutcome(GOOD.calls[:1], "In Malmö."), WELCOME], "wrong_results"),
        ([TurnOutcome(GOOD.calls[::-1], "In Malmö."), WELCOME], "wrong_results"),
        ([TurnOutcome((*GOOD.calls, GOOD.calls[1]), "In Malmö."), WELCOME], "wrong_results"),
        ([GOOD, TurnOutcome(GOOD.calls[:1], "Bye.")], "wrong_results"),
        ([TurnOutcome(GOOD.calls, "In Bergen."), WELCOME], "missing_fact"),
    ],
)
def test_the_verdict_compares_results_and_then_facts(outcomes, verdict):
    assert verdict == judge_loop(TASK, outcomes)[0]


def test_a_task_with_failed_calls_is_not_right_but_recovered():
    lost = {"parcel_position": {"parcel": "1030"}}
    for outcomes, verdict in [
        ([TurnOutcome(executed(lost, STATUS, POSITION), "In Malmö."), WELCOME], "recovered"),
        ([TurnOutcome(executed(STATUS, lost, POSITION), "In Malmö."), WELCOME], "recovered"),
        ([TurnOutcome(executed(lost, STATUS, POSITION), "No idea."), WELCOME], "missing_fact"),
        ([TurnOutcome(executed(lost, STATUS), "In Malmö."), WELCOME], "wrong_results"),
        ([GOOD, TurnOutcome(executed(lost), "Bye.")], "wrong_results"),
    ]:
        assert verdict == judge_loop(TASK, outcomes)[0]


def test_a_failure_that_the_request_expects_is_no_detour():
    (task,) = [task for task in TASKS if task.id == "missing-invoice"]
    (path,) = task.turns[0].accepted
    for calls, verdict in [(path, "right"), (path[1:], "recovered"), ((path[0], *path), "recovered")]:
        assert verdict == judge_loop(task, [TurnOutcome(executed(*calls), "365 EUR")])[0]


def test_markup_in_any_text_spoils_a_right_task():
    assert ("markup", "'<function_result' is in a text") == judge_loop(TASK, [GOOD, WELCOME], "<function_result")


def test_a_result_that_differs_in_one_byte_is_wrong():
    changed = ExecutedCall("parcel_position", "{}", GOOD.calls[1].result.replace("Malmö", "Malmo"))
    assert "wrong_results" == judge_loop(TASK, [TurnOutcome((GOOD.calls[0], changed), "In Malmö."), WELCOME])[0]


def test_calls_of_one_step_may_come_in_any_order_and_paths_are_alternatives():
    kettle, tray = {"stock_level": {"sku": "K-12"}}, {"stock_level": {"sku": "T-40"}}
    task = LoopTask("x", "tuning", ("stock_level",), (UserTurn("?", (((kettle, tray),), (kettle,))),))
    for calls, verdict in [
        ((kettle, tray), "right"),
        ((tray, kettle), "right"),
        ((kettle,), "right"),
        ((tray,), "wrong_results"),
    ]:
        assert verdict == judge_loop(task, [TurnOutcome(executed(*calls), "17")])[0]


def test_later_results_depend_on_what_earlier_calls_changed():
    timer = {"run_timer": {"minutes": 5}}
    task = LoopTask("x", "tuning", ("run_timer",), (UserTurn("?", ((timer,),)), UserTurn("Again", ((timer,),))))

    first, second = '{"timer": 1, "rings_in_minutes": 5}', '{"timer": 2, "rings_in_minutes": 5}'
    assert [[[first], [second]]] == [
        [[each.text for each in turn] for turn in results] for results in expected_results(task)
    ]


def client_of(upstream):
    return Client(upstream.url, model="m", dialect="function_call", constrain="off")


def call_text(planned):
    ((name, arguments),) = planned.items()
    return f"<function_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</function_call>"


def called(planned, call_id):
    ((name, arguments),) = planned.items()
    return Reply(tool_calls=(ToolCallEnd(call_id, name, json.dumps(arguments), 0),), stop_reason="tool_use")


class WrittenReplies:
    """A source of replies that were written before; it keeps the conversation that it got last."""

    def __init__(self, *replies):
        self.messages, self.sampling, self.lengths = [], {}, []
        self._replies = iter(replies)

    async def complete(self, messages, tools, **sampling):
        self.messages, self.sampling = messages, sampling
        self.lengths.append(len(messages))
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        return reply
