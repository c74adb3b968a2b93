"""The whole prompt of one request: system text, tools and conversation within the budget.

Rule: whatever is left out is marked in the prompt at its place, and noted for the log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fcshim.messages import Message, Request, Tool, ToolChoice, ToolMessage, count_leading_system, text_of
from fcshim.parse.dialect import Dialect
from fcshim.prompt.budget import BudgetPlan, PromptBudget, plan_budget, shortened_steps
from fcshim.prompt.escape import Escaper
from fcshim.prompt.history import write_history
from fcshim.prompt.listing import Listing, Listings
from fcshim.prompt.profiles import Profile
from fcshim.prompt.signature import ToolsStyle
from fcshim.prompt.steps import Step, split_steps


@dataclass(frozen=True, slots=True)
class Prompt:
    """Messages without tool calls or tool messages; `notes` list what was left out."""

    messages: tuple[Message, ...]
    notes: tuple[str, ...]


def compose(
    request: Request,
    tools: Sequence[Tool],
    choice: ToolChoice,
    escape: Escaper,
    *,
    dialect: Dialect,
    profile: Profile,
    style: ToolsStyle,
    budget: PromptBudget,
) -> Prompt:
    """Write the request's messages; `tools` and `choice`, already escaped, become part of the system text."""
    messages = request.messages
    count = count_leading_system(messages)
    system, steps = messages[:count], split_steps(messages[count:])
    parallel = request.parallel_tool_calls
    listings = Listings(
        dialect, tools, steps, escape, choice=choice, parallel=parallel, style=style, max_tools=budget.max_tools
    )
    plan = plan_budget(steps, listings, budget, sum(len(text_of(message.content)) for message in system))
    listing = listings.at(plan.level)
    written = write_history(
        (*system, *shortened_steps(steps, plan.shortened, budget.longest_result)),
        escape,
        dialect=dialect,
        profile=profile,
        preamble=listing.preamble,
        later_descriptions=listing.later_descriptions,
    )
    return Prompt(written, tuple(_notes(steps, plan, listing, budget, len(tools))))


def _notes(
    steps: Sequence[Step], plan: BudgetPlan, listing: Listing, budget: PromptBudget, tools: int
) -> Iterator[str]:
    long = sum(
        len(text_of(message.content)) > budget.longest_result > 0
        for step in steps
        for message in step.input_messages
        if isinstance(message, ToolMessage)
    )
    if long:
        subject = "1 tool result is" if long == 1 else f"{long} tool results are"
        yield f"{subject} longer than {budget.longest_result} characters: the middle is left out"
    if plan.shortened:
        results = "1 older tool result" if len(plan.shortened) == 1 else f"{len(plan.shortened)} older tool results"
        yield f"the prompt's budget has no room for {results}: the middle is left out"
    if plan.level:
        yield f"the prompt's budget has room for {tools - listing.name_only_count} of {tools} tools, by signature"
    if plan.tokens > budget.prompt_budget:
        yield f"the prompt takes about {plan.tokens} tokens, more than its budget of {budget.prompt_budget}"
