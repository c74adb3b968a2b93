"""The work is linear in the length of histories that are made to be slow."""

from collections.abc import Callable

import pytest

from fcshim.messages import AssistantMessage, Message, Request, SystemMessage, Tool, ToolCall, ToolMessage, UserMessage
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt.compose import PromptBudget
from tests.prompt.conversations import text
from tests.steps import steps

ASK = UserMessage(text("hello tool"))


def one_id(count: int) -> list[Message]:
    calls = tuple(ToolCall("1", "tool_1", "{}") for _ in range(count))
    return [ASK, AssistantMessage((), calls), *(ToolMessage("1", text(str(at))) for at in range(count))]


def many_results_of_one_call(count: int) -> list[Message]:
    call = AssistantMessage((), (ToolCall("1", "tool_1", "{}"),))
    return [ASK, call, *(ToolMessage("1", text(str(at))) for at in range(count))]


def orphans(count: int) -> list[Message]:
    return [ASK, AssistantMessage(), *(ToolMessage(str(at), text("x")) for at in range(count))]


def users_in_a_row(count: int) -> list[Message]:
    return [ASK, *(UserMessage(text(f"tool_{at}")) for at in range(count)), *[SystemMessage(text("x"))] * count]


def users_by_turns(count: int) -> list[Message]:
    return [message for at in range(count) for message in (UserMessage(text(f"tool_{at}")), AssistantMessage())]


def broken_arguments(count: int) -> list[Message]:
    calls = tuple(ToolCall(str(at), "tool_1", "{'a': 'b") for at in range(count))
    return [ASK, AssistantMessage((), calls), ASK]


def long_results(count: int) -> list[Message]:
    return [
        message
        for at in range(count)
        for message in (
            AssistantMessage((), (ToolCall(str(at), f"tool_{at % 100}", "{}"),)),
            ToolMessage(str(at), text("x " * 1_000)),
        )
    ]


def work(messages: list[Message], budget: PromptBudget) -> int:
    tools = tuple(Tool(f"tool_{at}") for at in range(20))
    request = Request(model="m", messages=tuple(messages), tools=tools)
    return steps(lambda: prepare_shim(request, budget=budget), "line")


@pytest.mark.parametrize(
    "make",
    [one_id, many_results_of_one_call, orphans, users_in_a_row, users_by_turns, broken_arguments, long_results],
)
@pytest.mark.parametrize(
    "budget", [PromptBudget(), PromptBudget(max_tools=4, prompt_budget=500)], ids=["free", "budget"]
)
def test_work_is_linear_in_the_history(make: Callable[[int], list[Message]], budget: PromptBudget) -> None:
    small, large = work(make(100), budget), work(make(400), budget)

    assert large < 4.8 * small
