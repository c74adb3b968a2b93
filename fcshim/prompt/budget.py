"""What a prompt leaves out where it would be longer than its budget: old long results first, then tools.

Theory of operation. The conversation is walked from its beginning, and at the end of every step, where a request was
made, the prompt of that request is measured. Where it is over the budget, results are shortened, oldest first, until a
quarter of the budget is free again; where that is not enough, the tools go up the levels of their listing, to one that
is. Where none is, they keep half of the budget: words that are too many are no reason to forget the tools. Nothing is
ever taken back. So every later request decides the same about what came before, and the prompt goes on beginning as it
did for all the steps that fit into the free quarter: an engine reads it again once in a while, not at each step.

Rule: the system text, what user and model said, and the results of the last two steps stay, whatever the budget.
Neighbours: `listing` has the levels, `shortening` the long results, `compose` writes what fits.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from fcshim.messages import AssistantMessage, Message, ToolMessage, text_of
from fcshim.prompt.listing import Listings
from fcshim.prompt.shortening import DEFAULT_MAX_RESULT, shorten_content
from fcshim.prompt.steps import Step

CHARACTERS_PER_TOKEN = 4
"""What English text comes to in the vocabularies in use; only an estimate is made of it."""
KEPT_STEPS = 2
"""Steps whose results stay whole: the model is about to read the last one, and has just worked with the one before."""
MIN_RESULT = 600
"""Characters that are left of an old result: enough to know what it was, and whether to ask for it again."""
_MARKUP_OVERHEAD = 40
"""Characters of markup around a message, a call or a result, on average over the dialects."""


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """How much the prompt may hold; 0 is no limit. `prompt_budget` counts tokens, `max_result` characters."""

    max_tools: int = 0
    prompt_budget: int = 0
    max_result: int = DEFAULT_MAX_RESULT

    @property
    def longest_result(self) -> int:
        """Characters of the longest result: under a budget at most half of it, or nothing else would have room."""
        half = self.prompt_budget * CHARACTERS_PER_TOKEN // 2
        return min(filter(None, (self.max_result, half)), default=0)


DEFAULT_BUDGET = PromptBudget()


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """How a conversation fits: the level of the tools' listing, and which results are short (step, place in it)."""

    level: int = 0
    shortened: frozenset[tuple[int, int]] = frozenset()
    tokens: int = 0
    """What the prompt comes to, estimated."""


def plan_budget(steps: Sequence[Step], listings: Listings, budget: PromptBudget, fixed: int) -> BudgetPlan:
    """Decide what is left out. `fixed` are the characters of the system text."""
    return _BudgetPlanner(steps, listings, budget, fixed).plan() if budget.prompt_budget else BudgetPlan()


def shortened_steps(steps: Sequence[Step], shortened: frozenset[tuple[int, int]], most: int) -> Iterator[Message]:
    """Give the messages of the steps, with results of at most `most` characters, and of `LEAST` the `short` ones."""
    for number, step in enumerate(steps):
        yield from step.assistant_messages
        for at, message in enumerate(step.input_messages):
            if isinstance(message, ToolMessage):
                limit = _min_result(most) if (number, at) in shortened else most
                yield msgspec.structs.replace(message, content=shorten_content(message.content, limit))
            else:
                yield message


class _BudgetPlanner:
    """One way through a conversation, with what was left out so far."""

    def __init__(self, steps: Sequence[Step], listings: Listings, budget: PromptBudget, fixed: int) -> None:
        self._steps = steps
        self._listings = listings
        self._most = budget.longest_result
        self._limit = budget.prompt_budget * CHARACTERS_PER_TOKEN
        self._level = 0
        self._used = fixed + len(listings.at(0).preamble)
        self._shortenable: deque[tuple[tuple[int, int], int]] = deque()  # old results, and what shortening them saves
        self._shortened: set[tuple[int, int]] = set()

    def plan(self) -> BudgetPlan:
        for number, step in enumerate(self._steps):
            self._used += self._step_size(step) + len(self._listings.at(self._level).later_descriptions.get(number, ""))
            if number >= KEPT_STEPS:
                self._shortenable.extend(self._savings(number - KEPT_STEPS))
            if self._used > self._limit:
                self._shorten_results()
                self._shorten_listing(number)
        return BudgetPlan(self._level, frozenset(self._shortened), self._used // CHARACTERS_PER_TOKEN)

    def _shorten_results(self) -> None:
        while self._shortenable and self._used > self._limit * 3 // 4:
            place, saved = self._shortenable.popleft()
            self._shortened.add(place)
            self._used -= saved

    def _shorten_listing(self, number: int) -> None:
        if self._used <= self._limit:
            return
        last, listed = self._listings.last, self._listing_size(number, self._level)
        others = self._used - listed
        room = max(self._limit - others, 0)
        if self._listing_size(number, last) > room:
            room = max(room, self._limit // 2)
        while listed > room and self._level < last:
            self._level += 1
            listed = self._listing_size(number, self._level)
        self._used = others + listed

    def _listing_size(self, number: int, level: int) -> int:
        """Measure what is said of tools up to the end of a step."""
        listing = self._listings.at(level)
        return len(listing.preamble) + sum(len(text) for at, text in listing.later_descriptions.items() if at <= number)

    def _savings(self, number: int) -> Iterable[tuple[tuple[int, int], int]]:
        for at, message in enumerate(self._steps[number].input_messages):
            if isinstance(message, ToolMessage):
                saved = self._result_size(message) - _min_result(self._most)
                if saved > _MARKUP_OVERHEAD:  # the note that says so takes some room, too
                    yield (number, at), saved

    def _step_size(self, step: Step) -> int:
        return sum(map(self._message_size, (*step.assistant_messages, *step.input_messages)))

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


def _min_result(most: int) -> int:
    return min(most, MIN_RESULT) if most else MIN_RESULT
