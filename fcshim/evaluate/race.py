"""The race: runs the cases with every candidate, round by round, and drops those that are behind.

Rule: `standings` are usable at every moment, so a race that is interrupted, or out of time, has a result. The cases of
one candidate in a round run one after the other: they share a prompt up to the question, which servers process once.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec

from fcshim.client import Client
from fcshim.errors import FcshimError
from fcshim.evaluate.candidates import Candidate
from fcshim.evaluate.case import Case
from fcshim.evaluate.result import Result
from fcshim.evaluate.runner import DEFAULT_SAMPLING, evaluate
from fcshim.evaluate.standings import Outcome, Standing, count_cases_left, eliminate, find_winner, round_sizes
from fcshim.events import JSON
from fcshim.parse.dialects import AUTO
from fcshim.parse.stream import StreamParser
from fcshim.reply import fold
from fcshim.upstream.measured import ProbeResult

_PROBE_TOKENS = 48
"""Tokens in which a model that can write a form has started a call in it."""
_MAX_FAILURES = 2
"""Consecutive failures of the endpoint after which a candidate is dropped."""
_CALL_VERDICTS = frozenset({"wrong_tool", "extra_call", "wrong_arguments", "called_though_none_fits", "malformed"})
"""Verdicts of replies that have a call, although a reply that was cut off at its start does not hold the whole call."""


@dataclass(frozen=True, slots=True)
class RaceProgress:
    """A step of the race: the candidate that is running, its finished cases in this round, an estimate in seconds."""

    name: str
    done: int
    cases: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class RaceLimits:
    """How long a race may take.

    `budget`: seconds for the whole race; `first_round`: cases that each candidate gets; `max_tokens`: of one reply.
    """

    budget: float
    first_round: int
    max_tokens: int


class Race:
    """A race of candidates, which are tried in their order.

    `open_client` returns the client of a candidate; keywords replace its settings. `on_progress` is called before each
    probe and each case, `on_round` with the standing of a candidate after its round.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        cases: Sequence[Case],
        open_client: Callable[..., Client],
        limits: RaceLimits,
        *,
        on_progress: Callable[[RaceProgress], None],
        on_round: Callable[[Standing], None],
    ) -> None:
        self.ended = False
        """Whether the race has ended: it was decided, or the budget was used. False after an interruption."""
        self.decided = False
        """Whether one candidate was left, or the cases ended."""
        self.requests = 0
        self._candidates = {each.name: each for each in candidates}
        self._standings = {each.name: Standing(name=each.name, settings=each.settings) for each in candidates}
        self._cases = cases
        self._open_client = open_client
        self._limits = limits
        self._on_progress = on_progress
        self._on_round = on_round
        self._clients: dict[str, Client] = {}
        self._sampling = {**DEFAULT_SAMPLING, "max_tokens": limits.max_tokens}
        self._end = 0.0
        self._case_seconds = _Mean()
        self._probe_seconds = _Mean()

    @property
    def standings(self) -> tuple[Standing, ...]:
        """What is known about each candidate so far."""
        return tuple(self._standings.values())

    @property
    def winner(self) -> Standing | None:
        """The best candidate so far; None as long as none has a right call."""
        return find_winner(self.standings, min(self._limits.first_round, len(self._cases)))

    async def run(self) -> None:
        """Run the race until it is decided, the cases end or the budget is used. Raises no documented error."""
        self._end = _now() + self._limits.budget
        async with AsyncExitStack() as stack:
            for candidate in self._candidates.values():
                client = self._open_client(candidate)
                self._clients[candidate.name] = await stack.enter_async_context(client)
            try:
                async with asyncio.timeout(self._limits.budget) as budget:
                    await self._run_rounds()
                    self.decided = True
            except TimeoutError:
                if not budget.expired():
                    raise
        self.ended = True

    async def _run_rounds(self) -> None:
        sizes = round_sizes(self._limits.first_round, len(self._cases))
        for number in range(len(sizes)):
            for standing in self._running():
                await self._run_round(standing.name, sizes[number:])
            for name, reason in eliminate(self._running()).items():
                self._update(name, dropped=reason)
            if len(self._running()) <= 1:
                return

    def _running(self) -> list[Standing]:
        return [each for each in self.standings if not each.dropped]

    async def _run_round(self, name: str, sizes: Sequence[int]) -> None:
        """Run the probe, then the cases of one candidate up to the first of `sizes`, the rounds that are left."""
        failures = 0
        started = len(self._standings[name].outcomes)
        self._report_progress(name, 0, started, sizes)
        if not started:
            await self._probe(name)
        for position in range(started, sizes[0]):
            self._report_progress(name, position, started, sizes)
            result = await self._run_case(name, self._cases[position])
            failures = failures + 1 if result.verdict == "error" else 0
            if failures >= _MAX_FAILURES:
                self._update(name, dropped=result.problem)
                break
        self._on_round(self._standings[name])

    async def _run_case(self, name: str, case: Case) -> Result:
        began = _now()
        self.requests += 1
        (result,) = await evaluate(
            self._clients[name], [case], dialect=name, sampling=self._sampling, concurrency=1, stop_early=True
        )
        self._case_seconds.add(_now() - began)
        made_call = bool(result.calls) or result.verdict in _CALL_VERDICTS
        outcome = Outcome(result.verdict, any(case.expected), made_call)
        self._update(name, outcomes=(*self._standings[name].outcomes, outcome))
        return result

    async def _probe(self, name: str) -> None:
        """Ask for a call, without help: does the model write it in the form that the prompt shows?

        The prompt is that of the cases, so they do not process it again.
        """
        case = next((case for case in self._cases if any(case.expected)), self._cases[0])
        # A model that reasons first gets the tokens for that.
        sampling = {**self._sampling, "max_tokens": max(_PROBE_TOKENS, self._limits.max_tokens // 4)}
        began = _now()
        self.requests += 1
        async with self._open_client(self._candidates[name], rescue=False, max_retries=0) as client:
            try:
                reply = await client.complete(case.messages, case.tools, **sampling)
            except FcshimError:  # the first case says what is wrong
                return
        self._probe_seconds.add(_now() - began)
        tokens = reply.usage.input_tokens if reply.usage is not None else 0
        rescued = StreamParser(AUTO, case.tools)
        other = fold(rescued.feed(reply.text) + rescued.close()).tool_calls
        probe: ProbeResult = "written" if reply.tool_calls else "other" if other else "unclear"
        self._update(name, probe=probe, prompt_tokens=tokens)

    def _update(self, name: str, **fields: JSON) -> None:
        self._standings[name] = msgspec.structs.replace(self._standings[name], **fields)

    def _report_progress(self, name: str, position: int, started: int, sizes: Sequence[int]) -> None:
        done = max(0, position - started)
        self._on_progress(RaceProgress(name, done, sizes[0] - started, self._seconds_left(sizes)))

    def _seconds_left(self, sizes: Sequence[int]) -> float:
        """Return an estimate from the mean times so far, at most the rest of the budget."""
        rest = max(0.0, self._end - _now())
        if not self._case_seconds.count:
            return rest
        running = self._running()
        cases = count_cases_left(running, sizes) * self._case_seconds.value
        probes = sum(not each.outcomes for each in running) * self._probe_seconds.value
        return min(rest, cases + probes)


class _Mean:
    """The mean of the numbers so far."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0

    @property
    def value(self) -> float:
        return self._sum / self.count if self.count else 0.0

    def add(self, number: float) -> None:
        self.count += 1
        self._sum += number


def _now() -> float:
    return asyncio.get_running_loop().time()
