"""Finds a model that repeats calls without progress, from the conversation alone, and leaves the repeats out of it.

Theory of operation. A call *repeats* if the same tool was called with the same arguments and gave the same result
before, since the user has spoken. A *stall* is a row of steps whose calls all repeat; a call with a new result ends it.
A model that sees its own repeats goes on with them, and a reminder does not help; so once a call came for the third
time, the stall is left out of the prompt, and a line says so. Once one came for the fourth time, the line asks for an
answer, and the calls of the stall are refused in this turn.

Rule: what is left out depends only on the steps up to the end of a stall, so that later prompts begin with the same
text. The tools stay as they are, for the same reason.
"""

import fnmatch
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fcshim.messages import Message, TextPart, ToolMessage, UserMessage, has_media_part, text_of
from fcshim.prompt.history import HistoryStep, split_conversation

LEFT_OUT_AT = 3
"""How often the same call gave the same result when the repeats are left out; a second time may have been meant."""
REFUSED_AT = 4
NOTE = "[The same calls were made again {count}, with the same results. They are left out here.]"
ASK = "[Do not make these calls again: their results stay the same. Answer now, from the results that you have.]"
REFUSED = "[A call of {name} was left out: it was made {count} times, each time with the same result.]"

CallKey = tuple[str, str]
"""A tool's name, and its arguments in a form that is equal for equal JSON values."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A conversation without its stalls.

    `refused`: the calls that are refused in this turn, and how often they were made. `notes` are for the log.
    """

    messages: tuple[Message, ...]
    refused: dict[CallKey, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def call_key(name: str, arguments: str) -> CallKey:
    """Return what identifies a call."""
    return name, canonical_arguments(arguments)


def canonical_arguments(arguments: str) -> str:
    """Return a text that is equal for equal JSON values."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def find_repetition(messages: Sequence[Message], repeatable: Sequence[str] = ()) -> Repetition:
    """Return the conversation without its stalls; calls of `repeatable` tools, names or patterns, are always new."""
    results = Counter(text_of(message.content) for message in messages if isinstance(message, ToolMessage))
    if max(results.values(), default=0) < LEFT_OUT_AT:  # nearly always, and cheaper than to compare arguments
        return Repetition(tuple(messages))
    system, steps = split_conversation(messages)
    kept: list[HistoryStep] = []
    stall = _Stall()
    seen: set[tuple[CallKey, str]] = set()
    counts: list[int] = []
    for step in steps:
        found = _results_of(step, repeatable)
        if found and seen.issuperset(found):
            stall.add(step, found)
            continue
        if not found and step.has_user_message and not step.results:
            seen.clear()  # the user has spoken, not an agent that adds a reminder to results
        kept += stall.steps()
        counts += stall.counts()
        stall = _Stall()
        seen.update(found)
        kept.append(step)
    kept += stall.steps(at_end=True)
    counts += stall.counts()
    if not counts:
        return Repetition(tuple(messages))
    written = tuple(message for step in kept for message in (*step.assistant_messages, *step.input_messages))
    note = f"the same call came {max(counts)} times with the same result: the repeats are left out"
    return Repetition((*system, *written), stall.refused(), (note,))


class _Stall:
    """Steps in a row whose calls all repeat."""

    def __init__(self) -> None:
        self._steps: list[HistoryStep] = []
        self._calls: Counter[CallKey] = Counter()

    def add(self, step: HistoryStep, found: Iterable[tuple[CallKey, str]]) -> None:
        self._steps.append(step)
        self._calls.update({key for key, _ in found})

    @property
    def _count(self) -> int:
        """How often the most frequent call was made, including the one before the stall."""
        return max(self._calls.values(), default=0) + 1

    def counts(self) -> list[int]:
        """Return how often a call was made, if the stall is left out."""
        return [self._count] if self._count >= LEFT_OUT_AT else []

    def refused(self) -> dict[CallKey, int]:
        """Return the calls to refuse, with how often each was made."""
        return {key: count + 1 for key, count in self._calls.items()} if self._count >= REFUSED_AT else {}

    def steps(self, *, at_end: bool = False) -> list[HistoryStep]:
        """Return the steps, or one with a line in their place."""
        if self._count < LEFT_OUT_AT:
            return self._steps
        times = "twice" if self._count == LEFT_OUT_AT else f"{self._count - 1} times"
        lines = [NOTE.format(count=times), *([ASK] if at_end and self._count >= REFUSED_AT else [])]
        said = [each for step in self._steps for each in step.input_messages if isinstance(each, UserMessage)]
        return [HistoryStep((), (*said, UserMessage((TextPart(" ".join(lines)),))))]


def _results_of(step: HistoryStep, repeatable: Sequence[str]) -> set[tuple[CallKey, str]]:
    """Return the calls of a step with their results; nothing, unless each has one that can be compared."""
    calls, results = step.calls, {each.tool_call_id: each for each in step.results}
    if not calls or len(results) != len(calls) or any(has_media_part(each.content) for each in results.values()):
        return set()
    if any(call.id not in results or _matches(call.name, repeatable) for call in calls):
        return set()
    return {(call_key(call.name, call.arguments), text_of(results[call.id].content)) for call in calls}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
