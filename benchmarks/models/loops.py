"""Loops: tasks in which a model calls tools that really run, until it answers in text.

Rule: a task is right if the results of its calls are, byte for byte, those of an accepted sequence of calls, and its
answers state the expected facts; with failed calls in between it is `recovered`. The conversation is that of the Chat
API, so that every mode gets the same one.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, Unpack

import msgspec

from benchmarks.models.answer_text import Fact, markup_in, missing_facts
from benchmarks.models.relay import RawReply
from benchmarks.models.sandbox import Sandbox, tool_definitions
from fcshim.agent.loop import executable_calls
from fcshim.errors import FcshimError
from fcshim.events import JSON, Usage
from fcshim.messages import Tool
from fcshim.reply import Reply
from fcshim.sampling import Sampling
from fcshim.tools import Executor, ToolResult

MAX_TURNS = 5
"""Replies of the model in one task."""

Split: TypeAlias = Literal["test", "tuning"]
"""The test cases are for the published figures alone; prompts and rules are tuned on the others."""
PlannedCall: TypeAlias = dict[str, dict[str, JSON]]
"""One call: the tool's name, and its arguments."""
Step: TypeAlias = PlannedCall | tuple[PlannedCall, ...]
"""A call, or several in any order."""
LoopVerdict: TypeAlias = Literal["right", "recovered", "wrong_results", "unfinished", "missing_fact", "markup", "error"]
"""`recovered`: right but for calls that failed, after which the model went on; `unfinished`: no answer within the
turns, or an empty one; `missing_fact`: the results are right, the answer is not; `markup`: all is right, but a text has
markup of calls or results; `error`: the endpoint failed."""


ExpectedResults: TypeAlias = tuple[tuple[ToolResult, ...], ...]
"""The results of the calls of each user turn."""


class UserTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the user says, the accepted sequences of calls before the answer, and the facts that the answer states."""

    user: str
    accepted: tuple[tuple[Step, ...], ...] = ((),)
    facts: tuple[Fact, ...] = ()


class LoopTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A conversation of one or more user turns, with the names of the offered tools."""

    id: str
    split: Split
    tools: tuple[str, ...]
    turns: tuple[UserTurn, ...]

    @property
    def definitions(self) -> tuple[Tool, ...]:
        """The offered tools."""
        return tuple(map(tool_definitions().__getitem__, self.tools))


class ExecutedCall(msgspec.Struct, frozen=True):
    """A call of the model, with its arguments as the client got them, and what the tool returned."""

    name: str
    arguments: str
    result: str
    failed: bool = False
    invalid: bool = False
    """Whether it was not run, because it could not be read or its arguments are not those of the tool."""


class TurnOutcome(msgspec.Struct, frozen=True):
    """One user turn as it went: all calls, and the text of the reply without calls; null if there was none."""

    calls: tuple[ExecutedCall, ...]
    answer: str | None


class LoopResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one task. `texts` are those of all replies, in their order."""

    id: str
    verdict: LoopVerdict
    reason: str = ""
    """What differs from the expected results or facts, or the error of the endpoint."""
    turns: int = 0
    outcomes: tuple[TurnOutcome, ...] = ()
    texts: tuple[str, ...] = ()
    raw: tuple[RawReply, ...] = ()
    """What the model wrote in each attempt."""
    markup: str = ""
    """The first marker of a call or a result in a text that the client got."""
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the task was solved without a detour."""
        return self.verdict == "right"

    @property
    def calls(self) -> tuple[ExecutedCall, ...]:
        """The calls of all user turns."""
        return tuple(call for outcome in self.outcomes for call in outcome.calls)


class ReplySource(Protocol):
    """What a task needs of a client: `fcshim.Client` has it."""

    async def complete(
        self, messages: Sequence[dict[str, JSON]], tools: Sequence[Tool], **sampling: Unpack[Sampling]
    ) -> Reply:
        """Return the reply to a conversation in the form of the Chat API."""


def load_tasks(split: Split | None = None) -> list[LoopTask]:
    """Return the tasks of a split, or all."""
    lines = (Path(__file__).parent / "loops.jsonl").read_bytes().splitlines()
    tasks = [msgspec.json.decode(line, type=LoopTask) for line in lines]
    return [task for task in tasks if split in (None, task.split)]


async def run_task(
    client: ReplySource, task: LoopTask, *, sampling: Sampling, max_turns: int = MAX_TURNS
) -> LoopResult:
    """Hold the conversation of a task, with tools that run, and judge it. A failure of the endpoint is a verdict."""
    run = _LoopRun(client, task, sampling, max_turns)
    began = time.perf_counter()
    problem = ""
    try:
        await run.run()
    except FcshimError as error:
        problem = error.message
    texts, usages = [reply.text for reply in run.replies], [reply.usage or Usage() for reply in run.replies]
    markup = markup_in(texts)
    verdict, reason = judge_loop(task, run.outcomes, markup)
    return LoopResult(
        id=task.id,
        verdict="error" if problem else verdict,
        reason=problem or reason,
        turns=len(run.replies),
        outcomes=tuple(run.outcomes),
        texts=tuple(texts),
        markup=markup,
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        seconds=round(time.perf_counter() - began, 3),
    )


class _LoopRun:
    """The state of one conversation."""

    def __init__(self, client: ReplySource, task: LoopTask, sampling: Sampling, max_turns: int) -> None:
        self.replies: list[Reply] = []
        self.outcomes: list[TurnOutcome] = []
        self._client = client
        self._task = task
        self._sampling = sampling
        self._max_turns = max_turns
        self._executor: Executor = Sandbox().executor(task.tools)
        self._messages: list[dict[str, JSON]] = []

    async def run(self) -> None:
        """Say all user turns, as far as the model's turns suffice. Raises `FcshimError` if the endpoint fails."""
        for turn in self._task.turns:
            if len(self.replies) < self._max_turns:
                self._messages.append({"role": "user", "content": turn.user})
                executed: list[ExecutedCall] = []
                answer: str | None = None
                try:
                    answer = await self._answer(executed)
                finally:  # the calls before a failure of the endpoint are kept
                    self.outcomes.append(TurnOutcome(tuple(executed), answer))

    async def _answer(self, executed: list[ExecutedCall]) -> str | None:
        """Ask until a reply has no calls; return its text, or None if the turns are used up."""
        while len(self.replies) < self._max_turns:
            reply = await self._client.complete(self._messages, self._task.definitions, **self._sampling)
            self.replies.append(reply)
            calls = executable_calls(reply)
            past_calls: list[JSON] = []
            results: list[dict[str, JSON]] = []
            for call in calls:
                result = await self._executor.call(call)
                arguments = call.tool_call_arguments_complete
                invalid = call.error is not None
                executed.append(ExecutedCall(call.tool_call_name, arguments, result.text, result.is_error, invalid))
                # An endpoint refuses past arguments that are not JSON.
                function = {"name": call.tool_call_name, "arguments": "{}" if call.error else arguments}
                past_calls.append({"id": call.tool_call_id, "type": "function", "function": function})
                results.append({"role": "tool", "tool_call_id": call.tool_call_id, "content": result.text})
            if not calls:
                self._messages.append({"role": "assistant", "content": reply.text})
                return reply.text
            message = {"role": "assistant", "content": reply.text or None, "tool_calls": past_calls}
            self._messages += [message, *results]
        return None


def judge_loop(task: LoopTask, outcomes: Sequence[TurnOutcome], markup: str = "") -> tuple[LoopVerdict, str]:
    """Return the verdict for the outcomes of a task's turns, and the reason if it is not right.

    `markup` is the first marker in a text that the client got.
    """
    if len(outcomes) < len(task.turns) or not all((outcome.answer or "").strip() for outcome in outcomes):
        return "unfinished", f"no answer after {_results_text(outcomes)}"
    accepted = expected_results(task)
    if not any(_equals_without_failures(outcomes, results) for results in accepted):
        return "wrong_results", f"got {_results_text(outcomes)}, expected {_texts(accepted[0])}"
    for turn, outcome in zip(task.turns, outcomes, strict=True):
        for fact in missing_facts(turn.facts, outcome.answer or ""):
            return "missing_fact", f"{fact[0]!r} is not in the answer"
    if markup:
        return "markup", f"{markup!r} is in a text"
    actual = tuple(tuple(call.result for call in outcome.calls) for outcome in outcomes)
    if actual in map(_texts, accepted):
        return "right", ""
    return "recovered", f"calls failed: {_results_text(outcomes)}"


def _equals_without_failures(outcomes: Sequence[TurnOutcome], expected: ExpectedResults) -> bool:
    """Return whether the results are the expected ones, failed calls aside; where none is expected, none may fail."""
    return all(
        [call.result for call in outcome.calls if not call.failed]
        == [each.text for each in results if not each.is_error]
        and (results or not outcome.calls)
        for outcome, results in zip(outcomes, expected, strict=True)
    )


def _texts(results: ExpectedResults) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each.text for each in turn) for turn in results)


def expected_results(task: LoopTask) -> list[ExpectedResults]:
    """Return the accepted results: those of every accepted sequence of calls, run on fresh data."""
    accepted: list[ExpectedResults] = []
    for sequences in itertools.product(*map(_accepted_sequences, task.turns)):
        sandbox = Sandbox()
        accepted.append(tuple(tuple(_run(sandbox, call) for call in sequence) for sequence in sequences))
    return accepted


def _accepted_sequences(turn: UserTurn) -> Iterator[tuple[PlannedCall, ...]]:
    for path in turn.accepted:
        steps = [step if isinstance(step, tuple) else (step,) for step in path]
        for orders in itertools.product(*map(itertools.permutations, steps)):
            yield tuple(itertools.chain.from_iterable(orders))


def _run(sandbox: Sandbox, call: PlannedCall) -> ToolResult:
    ((name, arguments),) = call.items()
    return sandbox.result_of(name, arguments)


def _results_text(outcomes: Sequence[TurnOutcome]) -> str:
    return str(
        tuple(tuple(f"{call.name}{call.arguments} -> {call.result}" for call in each.calls) for each in outcomes)
    )
