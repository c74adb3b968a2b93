"""Writes the whole prompt of one request (system text, tools, conversation), shortened to the budget.

Theory of operation. First the middle of old long results is left out, then tool descriptions. The planner replays the
conversation step by step. A request was made at the end of each step, so it measures the prompt there. If the prompt is
over the budget, results are shortened, oldest first, until a quarter of the budget is free; if that is not enough, the
tool listing goes up its levels until the prompt fits. If no level fits, the tools keep half of the budget, so that a
conversation that is too long does not remove them. No decision is undone. So every later request makes the same
decisions about earlier steps, and its prompt starts with the same text for all steps that fit into the free quarter:
the engine's prefix cache is invalidated once in many steps, not at each one.

Rule: the system text, the texts of user and model, and the results of the last two steps are never shortened. Whatever
is left out is marked in the prompt at its place, and noted for the log.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.messages import (
    AssistantMessage,
    Message,
    Request,
    Tool,
    ToolChoice,
    ToolMessage,
    text_of,
)
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.content import DEFAULT_MAX_RESULT, Escaper, shorten_content
from fcshim.prompt.escape import escaper_for
from fcshim.prompt.history import HistoryStep, split_conversation, write_history
from fcshim.prompt.listing import Listing, Listings
from fcshim.prompt.profiles import Profile
from fcshim.prompt.styles import OWN_STYLE, PromptStyle

CHARACTERS_PER_TOKEN = 4
"""Average of English text in current vocabularies; only used for estimates."""
KEPT_STEPS = 2
"""Last steps whose results stay whole: the model has not read the last one yet and has just used the one before."""
MIN_RESULT = 600
"""Characters kept of an old result: enough to see what it was and whether to request it again."""
_MARKUP_OVERHEAD = 40
"""Characters of markup around a message, a call or a result, on average over the dialects."""


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """Limits of a prompt, 0 for none: tools described in full, tokens of the prompt, characters of one tool result."""

    max_tools: int = 0
    prompt_budget: int = 0
    max_result: int = DEFAULT_MAX_RESULT

    @property
    def longest_result(self) -> int:
        """The limit of one result in characters: at most half of the prompt budget, so that other text fits too."""
        half = self.prompt_budget * CHARACTERS_PER_TOKEN // 2
        return min(filter(None, (self.max_result, half)), default=0)


DEFAULT_BUDGET = PromptBudget()


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """How a conversation fits: the level of the tool listing, and the shortened results as (step, input message)."""

    level: int = 0
    shortened: frozenset[tuple[int, int]] = frozenset()
    tokens: int = 0
    """The estimated size of the prompt."""


def plan_budget(steps: Sequence[HistoryStep], listings: Listings, budget: PromptBudget, fixed: int) -> BudgetPlan:
    """Decide what the prompt leaves out. `fixed` is the size of the system text in characters."""
    return _BudgetPlanner(steps, listings, budget, fixed).plan() if budget.prompt_budget else BudgetPlan()


def shortened_steps(
    steps: Sequence[HistoryStep], shortened: frozenset[tuple[int, int]], maximum: int
) -> list[HistoryStep]:
    """Return the steps with results of at most `maximum` characters, `MIN_RESULT` for `shortened` ones.

    A step whose results are all short enough stays the same object.
    """
    found: list[HistoryStep] = []
    least = _min_result(maximum)
    for number, step in enumerate(steps):
        changed: dict[int, ToolMessage] = {}
        for at, message in enumerate(step.input_messages):
            if isinstance(message, ToolMessage):
                limit = least if (number, at) in shortened else maximum
                if len(text_of(message.content)) > limit > 0:
                    changed[at] = msgspec.structs.replace(message, content=shorten_content(message.content, limit))
        if changed:
            inputs = tuple(changed.get(at, message) for at, message in enumerate(step.input_messages))
            found.append(HistoryStep(step.assistant_messages, inputs))
        else:
            found.append(step)
    return found


class _BudgetPlanner:
    """Replays a conversation and keeps what was left out so far."""

    def __init__(self, steps: Sequence[HistoryStep], listings: Listings, budget: PromptBudget, fixed: int) -> None:
        self._steps = steps
        self._listings = listings
        self._most = budget.longest_result
        self._limit = budget.prompt_budget * CHARACTERS_PER_TOKEN
        self._level = 0
        self._used = fixed + len(listings.at(0).preamble)
        self._shortenable: deque[tuple[tuple[int, int], int]] = deque()  # old results with the characters to save
        self._shortened: set[tuple[int, int]] = set()

    def plan(self) -> BudgetPlan:
        for number, step in enumerate(self._steps):
            self._used += sum(map(self._message_size, (*step.assistant_messages, *step.input_messages)))
            self._used += len(self._listings.at(self._level).later_descriptions.get(number, ""))
            if number >= KEPT_STEPS:
                self._shortenable.extend(self._savings(number - KEPT_STEPS))
            if self._used > self._limit:
                while self._shortenable and self._used > self._limit * 3 // 4:
                    position, saved = self._shortenable.popleft()
                    self._shortened.add(position)
                    self._used -= saved
                self._shorten_listing(number)
        return BudgetPlan(self._level, frozenset(self._shortened), self._used // CHARACTERS_PER_TOKEN)

    def _shorten_listing(self, number: int) -> None:
        if self._used <= self._limit:
            return
        last, listed = self._listings.last, self._listing_size(number, self._level)
        others = self._used - listed
        available = max(self._limit - others, 0)
        if self._listing_size(number, last) > available:
            available = max(available, self._limit // 2)
        while listed > available and self._level < last:
            self._level += 1
            listed = self._listing_size(number, self._level)
        self._used = others + listed

    def _listing_size(self, number: int, level: int) -> int:
        """Return the characters of tool descriptions up to the end of a step."""
        listing = self._listings.at(level)
        return len(listing.preamble) + sum(len(text) for at, text in listing.later_descriptions.items() if at <= number)

    def _savings(self, number: int) -> Iterable[tuple[tuple[int, int], int]]:
        for at, message in enumerate(self._steps[number].input_messages):
            if isinstance(message, ToolMessage):
                saved = self._result_size(message) - _min_result(self._most)
                if saved > _MARKUP_OVERHEAD:  # the note in its place takes some characters too
                    yield (number, at), saved

    def _message_size(self, message: Message) -> int:
        if isinstance(message, ToolMessage):
            return self._result_size(message) + _MARKUP_OVERHEAD
        size = len(text_of(message.content)) + _MARKUP_OVERHEAD
        if isinstance(message, AssistantMessage):
            size += sum(len(call.name) + len(call.arguments) + _MARKUP_OVERHEAD for call in message.tool_calls)
        return size

    def _result_size(self, message: ToolMessage) -> int:
        size = len(text_of(message.content))
        return min(size, self._most) if self._most else size


def _min_result(maximum: int) -> int:
    return min(maximum, MIN_RESULT) if maximum else MIN_RESULT


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
    style: PromptStyle,
    budget: PromptBudget,
) -> Prompt:
    """Write the request's messages; `tools` and `choice`, already escaped, become part of the system text."""
    system, steps = split_conversation(request.messages)
    parallel = request.allows_parallel_calls
    listings = Listings(
        dialect, tools, steps, escape, choice=choice, parallel=parallel, style=style, max_tools=budget.max_tools
    )
    plan = plan_budget(steps, listings, budget, sum(len(text_of(message.content)) for message in system))
    listing = listings.at(plan.level)
    shorter = shortened_steps(steps, plan.shortened, budget.longest_result)
    written = write_history(
        system,
        shorter,
        escape,
        dialect=dialect,
        profile=profile,
        preamble=listing.preamble,
        later_descriptions=listing.later_descriptions,
        after_results=style.after_results if tools else "",
    )
    changed = [step for step, new in zip(steps, shorter, strict=True) if new is not step]
    # Without a budget, only a changed step leaves something out.
    notes = tuple(_notes(changed, plan, listing, budget, len(tools))) if changed or budget.prompt_budget else ()
    return Prompt(written, notes)


def fit_messages(request: Request, budget: PromptBudget) -> Prompt:
    """Return the messages of a request with native tools, its old results shortened to the budget.

    The tools stay: the server writes them. The same decisions are made as for a prompt, with the same prefix.
    """
    if not budget.prompt_budget:
        return Prompt(request.messages, ())
    system, steps = split_conversation(request.messages)
    escape = Escaper(escaper_for(FUNCTION_CALL))
    nothing_listed = Listings(
        FUNCTION_CALL, (), steps, escape, choice=request.tool_choice, parallel=True, style=OWN_STYLE, max_tools=0
    )
    fixed = sum(len(text_of(message.content)) for message in system) + len(msgspec.json.encode(request.tools))
    plan = plan_budget(steps, nothing_listed, budget, fixed)
    shorter = shortened_steps(steps, plan.shortened, budget.longest_result)
    changed = [step for step, new in zip(steps, shorter, strict=True) if new is not step]
    messages = (message for step in shorter for message in (*step.assistant_messages, *step.input_messages))
    return Prompt((*system, *messages), tuple(_notes(changed, plan, nothing_listed.at(0), budget, 0)))


def _notes(
    changed: Sequence[HistoryStep], plan: BudgetPlan, listing: Listing, budget: PromptBudget, tools: int
) -> Iterator[str]:
    maximum = budget.longest_result
    long = sum(
        len(text_of(message.content)) > maximum > 0
        for step in changed
        for message in step.input_messages
        if isinstance(message, ToolMessage)
    )
    if long:
        subject = "1 tool result is" if long == 1 else f"{long} tool results are"
        yield f"{subject} longer than {maximum} characters: the middle is left out"
    if plan.shortened:
        results = "1 older tool result" if len(plan.shortened) == 1 else f"{len(plan.shortened)} older tool results"
        yield f"the prompt's budget has no room for {results}: the middle is left out"
    if plan.level:
        yield f"the prompt's budget has room for {tools - listing.name_only_count} of {tools} tools, in a shorter form"
    if plan.tokens > budget.prompt_budget:
        yield f"the prompt takes about {plan.tokens} tokens, more than its budget of {budget.prompt_budget}"
