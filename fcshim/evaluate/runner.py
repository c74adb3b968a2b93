"""Runs cases, several at the same time, and reports each result when its reply is complete.

Rule: the failure of one case is its verdict; an endpoint that keeps failing ends the run.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from fcshim.client import Client
from fcshim.codecs.upstream_errors import CONTEXT_LENGTH
from fcshim.errors import FcshimError, UpstreamError
from fcshim.evaluate.bfcl import BfclCase, judge_bfcl
from fcshim.evaluate.case import Case
from fcshim.evaluate.result import Result, Verdict
from fcshim.evaluate.scoring import calls_of, early_verdict, judge
from fcshim.events import JSON, Event, Usage
from fcshim.reply import Reply, fold

DEFAULT_SAMPLING: Mapping[str, JSON] = {"temperature": 0, "seed": 1, "max_tokens": 2048}
"""Greedy decoding with a fixed seed, for reproducible results, and a limit for endless replies."""
CONCURRENCY = 4
"""Concurrent requests: what small servers have slots for."""
TIMEOUT = 300.0
"""Seconds for one reply."""
_MAX_CONSECUTIVE_FAILURES = 10
"""Consecutive failures of the endpoint after which the run ends: the other cases would fail as well."""
_BUSY_STATUSES = frozenset({429, 503})
"""Statuses of an endpoint that is overloaded or still loads its model; the request is retried."""
_RETRY_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry."""
_CANCEL_GAPS, _CANCEL_SECONDS, _MAX_CANCEL_SECONDS = 2, 0.05, 2.0
"""Pause after a cancelled reply, in gaps between its events and in seconds. llama-server notices a lost client at its
next token; a request that comes before goes to another slot, which has to process the whole prompt again."""
_MAX_TEXT = 2000
"""Characters of a text that a result keeps: enough to see what the model did instead."""


async def evaluate(
    client: Client,
    cases: Sequence[Case],
    *,
    dialect: str = "auto",
    sampling: Mapping[str, JSON] = DEFAULT_SAMPLING,
    concurrency: int = CONCURRENCY,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - it applies to each case, not to the whole call
    on_result: Callable[[Result], None] | None = None,
    stop_early: bool = False,
) -> list[Result]:
    """Run every case once and return the results in the order of the cases.

    `on_result` is called with each result when it is complete. `dialect` is only copied to the results: `client`
    decides. `sampling` are fields of the Chat API, `timeout` is in seconds for one reply. `stop_early`: cancel a reply
    as soon as its verdict is certain; its tokens are then unknown. Raises `UpstreamError` after ten consecutive
    failures of the endpoint.
    """
    run = _EvalRun(client, dialect, sampling, timeout, on_result, stop_early=stop_early)
    waiting = iter(enumerate(cases))
    workers = [asyncio.create_task(run.run_cases(waiting)) for _ in range(min(concurrency, len(cases)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [result for _, result in sorted(run.results.items())]


class _EvalRun:
    """The state of one call of `evaluate`: the settings that all requests share, and the results so far."""

    def __init__(
        self,
        client: Client,
        dialect: str,
        sampling: Mapping[str, JSON],
        seconds: float,
        on_result: Callable[[Result], None] | None,
        *,
        stop_early: bool,
    ) -> None:
        self.results: dict[int, Result] = {}
        self._client = client
        self._dialect = dialect
        self._sampling = sampling
        self._seconds = seconds
        self._on_result = on_result
        self._stop_early = stop_early
        self._failures = 0

    async def run_cases(self, cases: Iterator[tuple[int, Case]]) -> None:
        """Run cases until the iterator, which all workers share, is exhausted. Raises `UpstreamError`."""
        for position, case in cases:
            result = await self._run_case(case)
            self.results[position] = result
            if self._on_result is not None:
                self._on_result(result)
            if self._failures >= _MAX_CONSECUTIVE_FAILURES:
                raise UpstreamError(f"{_MAX_CONSECUTIVE_FAILURES} consecutive cases failed: {result.problem}")

    async def _run_case(self, case: Case) -> Result:
        blank = Result(dialect=self._dialect, id=case.id, category=case.category, verdict="error")
        try:
            reply, verdict, seconds = await self._reply_when_available(case)
        except FcshimError as error:
            # A prompt that exceeds the context is a problem of this case; the next one may be shorter.
            return self._failed_result(blank, error.message, counts=error.kind != CONTEXT_LENGTH)
        except TimeoutError:
            return self._failed_result(blank, f"no whole reply after {self._seconds:g} s", counts=True)
        self._failures = 0
        usage = reply.usage or Usage()
        return msgspec.structs.replace(
            blank,
            verdict=verdict,
            calls=calls_of(reply),
            text=reply.text[:_MAX_TEXT],
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            seconds=seconds,
        )

    def _failed_result(self, blank: Result, problem: str, *, counts: bool) -> Result:
        self._failures += counts
        return msgspec.structs.replace(blank, problem=problem)

    async def _reply_when_available(self, case: Case) -> tuple[Reply, Verdict, float]:
        """Return the reply, its verdict and its seconds, with retries while the endpoint is busy.

        Raises `FcshimError` and `TimeoutError`.
        """
        for pause in _RETRY_DELAYS:
            try:
                return await self._reply(case)
            except UpstreamError as error:
                if error.status not in _BUSY_STATUSES:
                    raise
            await asyncio.sleep(pause)
        return await self._reply(case)

    async def _reply(self, case: Case) -> tuple[Reply, Verdict, float]:
        choice = {} if case.tool_choice == "auto" else {"tool_choice": case.tool_choice}
        sampling = {**self._sampling, **choice}
        began = time.perf_counter()
        async with asyncio.timeout(self._seconds):
            if self._stop_early:
                reply, verdict = await self._streamed_reply(case, sampling)
            else:
                reply = await self._client.complete(case.messages, case.tools, **sampling)
                verdict = judge_bfcl(case, reply) if isinstance(case, BfclCase) else judge(case, reply)
        return reply, verdict, round(time.perf_counter() - began, 3)

    async def _streamed_reply(self, case: Case, sampling: Mapping[str, JSON]) -> tuple[Reply, Verdict]:
        """Return the reply up to where its verdict is certain, and the verdict. Raises `FcshimError`."""
        events: list[Event] = []
        verdict: Verdict | None = None
        began = time.perf_counter()
        async with self._client.stream(case.messages, case.tools, **sampling) as stream:
            async for event in stream:
                began = began if events else time.perf_counter()
                events.append(event)
                if verdict := early_verdict(case, events):
                    break
        if verdict:
            gap = (time.perf_counter() - began) / len(events)
            await asyncio.sleep(min(_CANCEL_GAPS * gap + _CANCEL_SECONDS, _MAX_CANCEL_SECONDS))
            return fold(events), verdict
        reply = fold(events)
        if reply.error is not None:
            raise UpstreamError(reply.error.message, kind=reply.error.kind)
        return reply, judge(case, reply)
