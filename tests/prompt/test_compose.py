"""The whole prompt of one request."""

import itertools
from typing import Any

import pytest
from hypothesis import given

from fcshim.messages import (
    AUTO,
    AssistantMessage,
    Message,
    Request,
    SystemMessage,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
    text_of,
)
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL, Dialect
from fcshim.prompt.compose import Prompt, PromptBudget, compose
from fcshim.prompt.content import Escaper
from fcshim.prompt.escape import BUNDLED
from fcshim.prompt.listing import LATER_HEADING
from fcshim.prompt.profiles import DEFAULT
from fcshim.prompt.render import render_system
from fcshim.prompt.styles import OWN_STYLE
from tests.examples import examples
from tests.prompt.conversations import chatml, conversations, text

TOOLS = tuple(Tool(f"tool_{at}", f"Does {'long' if at == 3 else 'short'} things.") for at in range(6))
Conversation = tuple[list[Message], list[Message], list[list[Message]]]


def prompt(
    *messages: Message, tools: tuple[Tool, ...] = TOOLS, dialect: Dialect = FUNCTION_CALL, **options: Any
) -> Prompt:
    request = Request(model="m", messages=messages)
    fields = {"choice": AUTO, "budget": PromptBudget(), "style": OWN_STYLE, **options}
    choice = fields.pop("choice")
    return compose(request, tools, choice, Escaper(BUNDLED), dialect=dialect, profile=DEFAULT, **fields)


def round_of(size: int, name: str = "tool_5") -> list[Message]:
    return [AssistantMessage((), (ToolCall("1", name, "{}"),)), ToolMessage("1", text("y" * size))]


def test_without_limits_the_prompt_is_the_system_text_the_tools_and_the_conversation() -> None:
    made = prompt(SystemMessage(text("Be kind.")), UserMessage(text("hi")))

    assert (SystemMessage(text("Be kind.\n\n" + render_system(FUNCTION_CALL, TOOLS))), UserMessage(text("hi"))) == (
        made.messages
    )
    assert () == made.notes


def test_too_many_tools_are_listed_by_name_and_described_when_needed() -> None:
    made = prompt(UserMessage(text("something long")), *round_of(3), budget=PromptBudget(max_tools=1))
    system, _, _, result = (text_of(message.content) for message in made.messages)

    assert '{"name": "tool_3"' in system
    assert '{"name": "tool_0"' not in system
    assert "\n" + "\n".join(f"tool_{at}()" for at in range(6)) + "\n" in system
    assert f"</function_result>\n\n<system_note>\n{LATER_HEADING}\n\n" in result
    assert '{"name": "tool_5"' in result
    assert () == made.notes


def test_a_required_tool_is_described() -> None:
    made = prompt(UserMessage(text("hi")), choice=ToolChoice("required", ("tool_4",)), budget=PromptBudget(max_tools=1))

    assert '{"name": "tool_4"' in text_of(made.messages[0].content)


def test_what_is_left_out_is_noted() -> None:
    budget = PromptBudget(prompt_budget=450, max_result=2_000)
    made = prompt(UserMessage(text("hi")), *(message for _ in range(4) for message in round_of(3_000)), budget=budget)

    assert (
        "4 tool results are longer than 900 characters: the middle is left out",
        "the prompt's budget has no room for 2 older tool results: the middle is left out",
        "the prompt's budget has room for 1 of 6 tools, in a shorter form",
    ) == made.notes[:3]
    assert made.notes[3].startswith("the prompt takes about ")
    assert "\n\ntool_5: Does short things.\n" in text_of(made.messages[3].content)


def test_a_note_about_one_result_is_in_the_singular() -> None:
    made = prompt(UserMessage(text("hi")), *round_of(3_000), budget=PromptBudget(max_result=2_000))

    assert ("1 tool result is longer than 2000 characters: the middle is left out",) == made.notes


def test_without_tools_the_budget_still_shortens_results() -> None:
    conversation = [UserMessage(text("hi")), *(message for _ in range(4) for message in round_of(3_000))]
    made = prompt(*conversation, tools=(), budget=PromptBudget(prompt_budget=2_000))

    assert ("the prompt's budget has no room for 2 older tool results: the middle is left out",) == made.notes


def check(conversation: Conversation, dialect: Dialect, budget: PromptBudget) -> None:
    """While nothing more is left out, each prompt starts with the one before, up to the model's turn."""
    system, first, later = conversation
    requests = itertools.accumulate(later, lambda said, exchange: [*said, *exchange], initial=[*system, *first])
    made = [prompt(*said, dialect=dialect, budget=budget) for said in requests]
    for before, after in itertools.pairwise(made):
        if _left_out(before) == _left_out(after):
            assert chatml(after.messages).startswith(chatml(before.messages))
        else:
            assert budget.prompt_budget


def _left_out(made: Prompt) -> list[str]:
    """Return the notes on what the budget left out."""
    return [note for note in made.notes if "budget has" in note]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@examples(4)
@given(conversation=conversations)
def test_each_prompt_is_a_prefix_of_the_next_in_every_dialect(dialect: Dialect, conversation: Conversation) -> None:
    check(conversation, dialect, PromptBudget(max_tools=2, max_result=150))


@given(conversation=conversations)
def test_each_prompt_is_a_prefix_of_the_next_under_a_budget(conversation: Conversation) -> None:
    check(conversation, FUNCTION_CALL, PromptBudget(max_tools=4, prompt_budget=500, max_result=150))
