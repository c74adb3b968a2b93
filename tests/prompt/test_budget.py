"""What a prompt over its budget leaves out."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fcshim.messages import AUTO, AssistantMessage, Message, Tool, ToolCall, ToolMessage, UserMessage, text_of
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.compose import MIN_RESULT, BudgetPlan, PromptBudget, plan_budget, shortened_steps
from fcshim.prompt.content import Escaper
from fcshim.prompt.escape import BUNDLED
from fcshim.prompt.history import HistoryStep, split_steps
from fcshim.prompt.listing import Listings
from fcshim.prompt.styles import OWN_STYLE
from tests.prompt.conversations import text

TOOLS = tuple(Tool(f"tool_{at}", "x" * 400) for at in range(8))
ASK = UserMessage(text("go"))


def round_of(size: int) -> list[Message]:
    return [AssistantMessage((), (ToolCall("1", "f", "{}"),)), ToolMessage("1", text("y" * size))]


def rounds(*sizes: int) -> list[HistoryStep]:
    return split_steps([ASK, *(message for size in sizes for message in round_of(size))])


def fitted(steps: list[HistoryStep], tools: tuple[Tool, ...] = (), fixed: int = 0, **budget: Any) -> BudgetPlan:
    options = {"choice": AUTO, "parallel": True, "style": OWN_STYLE, "max_tools": budget.get("max_tools", 0)}
    listings = Listings(FUNCTION_CALL, tools, steps, Escaper(BUNDLED), **options)
    return plan_budget(steps, listings, PromptBudget(**budget), fixed)


def test_without_a_budget_nothing_is_left_out() -> None:
    assert BudgetPlan() == fitted(rounds(9_000, 9_000, 9_000, 9_000))


def test_a_prompt_that_fits_is_unchanged() -> None:
    made = fitted(rounds(9_000, 9_000, 9_000, 9_000), TOOLS, prompt_budget=20_000)

    assert (0, frozenset()) == (made.level, made.shortened)
    assert 9_900 < made.tokens < 11_000


def test_old_results_are_shortened_until_a_quarter_of_the_budget_is_free() -> None:
    made = fitted(rounds(4_000, 4_000, 4_000, 4_000, 4_000), prompt_budget=4_800)

    assert {(1, 0), (2, 0)} == made.shortened
    assert made.tokens <= 4_800 * 3 / 4


def test_the_results_of_the_last_two_steps_are_kept() -> None:
    assert {(1, 0)} == fitted(rounds(9_000, 9_000, 9_000), prompt_budget=5_000).shortened
    assert not fitted(rounds(9_000, 9_000), fixed=9_000, prompt_budget=5_000).shortened


def test_a_result_that_saves_little_is_not_shortened() -> None:
    assert not fitted(rounds(MIN_RESULT + 40, 10, 10, 10), prompt_budget=1).shortened


def test_a_long_result_counts_with_its_shortened_length() -> None:
    assert not fitted(rounds(90_000, 90_000, 10, 10), prompt_budget=5_000, max_result=7_000).shortened
    assert fitted(rounds(90_000, 90_000, 10, 10), prompt_budget=5_000, max_result=70_000).shortened


def test_no_result_takes_more_than_half_of_the_budget() -> None:
    rooms = [
        PromptBudget(),
        PromptBudget(prompt_budget=100),
        PromptBudget(prompt_budget=100, max_result=0),
        PromptBudget(max_result=0),
    ]

    assert [65_536, 200, 200, 0] == [budget.longest_result for budget in rooms]


def test_if_results_are_not_enough_the_tools_are_listed_at_a_shorter_level() -> None:
    levels = [fitted(rounds(10), TOOLS, prompt_budget=budget).level for budget in (1_500, 1_200, 1_100, 800, 600, 1)]

    assert [0, 1, 2, 3, 4, 5] == levels


def test_the_system_text_counts() -> None:
    assert 0 < fitted(rounds(10), TOOLS, fixed=4_000, prompt_budget=2_200).level


def test_a_conversation_over_the_budget_leaves_the_tools_half_of_it() -> None:
    assert 0 == fitted(rounds(10), TOOLS, fixed=90_000, prompt_budget=2_700).level
    assert 3 == fitted(rounds(10), TOOLS, fixed=90_000, prompt_budget=2_000).level


def test_shortened_steps_shortens_only_results() -> None:
    steps = rounds(5_000, 3_000, 10)
    shorter = shortened_steps(steps, frozenset({(1, 0)}), 2_000)
    sizes = [len(text_of(result.content)) for step in shorter for result in step.results]

    assert [MIN_RESULT, 2_000, 10] == [size - size % 100 if size > 100 else size for size in sizes]
    assert steps == shortened_steps(steps, frozenset(), 0)


def test_an_old_result_is_never_longer_than_the_result_limit() -> None:
    (step,) = shortened_steps(rounds(5_000)[1:], frozenset({(0, 0)}), 300)

    assert "[... 4,700 characters left out ...]" in text_of(step.results[0].content)


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=30), st.integers(1, 6_000))
def test_what_was_left_out_stays_left_out(sizes: list[int], budget: int) -> None:
    made = [fitted(rounds(*sizes[:count]), TOOLS, prompt_budget=budget) for count in range(1, len(sizes) + 1)]

    for before, after in itertools.pairwise(made):
        assert before.shortened <= after.shortened
        assert before.level <= after.level


def test_most_steps_leave_nothing_more_out() -> None:
    short = [fitted(rounds(*[3_000] * count), prompt_budget=12_000).shortened for count in range(60)]
    changes = [after != before for before, after in itertools.pairwise(short)]

    assert 0 < sum(changes) <= 60 / 4
