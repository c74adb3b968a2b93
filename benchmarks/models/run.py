"""Runs the cases of one model in several modes, in turns, and keeps every result at once."""

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from benchmarks.models import naive
from benchmarks.models.modes import NAIVE
from benchmarks.models.relay import Attempt, Relay
from benchmarks.models.results import CaseResult, RawReply, Results
from fcshim import Client
from fcshim.demo.serving import serve_app
from fcshim.errors import FcshimError
from fcshim.evaluate.bfcl import BfclCase, judge_bfcl
from fcshim.evaluate.scoring import calls_of
from fcshim.events import JSON
from fcshim.reply import Reply

SAMPLING: Mapping[str, JSON] = {"temperature": 0, "seed": 1, "max_tokens": 400}
"""Greedy decoding; the limit ends a model that repeats itself."""
NO_CALL_TOKENS = 160
"""The limit where no call is expected: an answer in prose is not read to its end."""
TIMEOUT = 600.0


class ModelRun:
    """Runs cases on the model at `upstream`; use it as a context manager."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "ModelRun":
        # llama-server closes idle connections, so none is kept.
        limits = httpx.Limits(max_keepalive_connections=0)
        http = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False, limits=limits)
        self._http = await self._stack.enter_async_context(http)
        self._relay = Relay(self._http, self._upstream)
        self._url = await self._stack.enter_async_context(serve_app(self._relay))
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stack.aclose()

    async def run(
        self, cases: Sequence[BfclCase], modes: Mapping[str, Mapping[str, JSON]], folder: Path, seconds: float
    ) -> None:
        """Run each case in each mode, unless its file has the result, until so many seconds are over."""
        files = {mode: Results(folder / f"{mode}.jsonl") for mode in modes}
        async with AsyncExitStack() as stack:
            clients = {
                mode: await stack.enter_async_context(Client(self._url, **settings))
                for mode, settings in modes.items()
                if mode != NAIVE
            }
            started = time.monotonic()
            for position, case in enumerate(cases, 1):
                for mode, file in files.items():
                    if case.id in file.by_case:
                        continue
                    if time.monotonic() > started + seconds:
                        return
                    file.add(await self._result(case, clients.get(mode)))
                done = ", ".join(f"{mode} {_share(file)}" for mode, file in files.items())
                print(f"{position}/{len(cases)} {case.id}: {done}", flush=True)

    async def _result(self, case: BfclCase, client: Client | None) -> CaseResult:
        began = time.perf_counter()
        self._relay.take()
        try:
            reply = await self._reply(case, client)
        except (FcshimError, httpx.HTTPError) as error:
            attempts = self._relay.take()
            return CaseResult(
                id=case.id,
                category=case.category,
                verdict="error",
                raw=tuple(map(_raw, attempts)),
                problem=str(error),
                seconds=round(time.perf_counter() - began, 2),
            )
        return CaseResult(
            id=case.id,
            category=case.category,
            verdict=judge_bfcl(case, reply),
            calls=calls_of(reply),
            text=reply.text,
            raw=tuple(map(_raw, self._relay.take())),
            seconds=round(time.perf_counter() - began, 2),
        )

    async def _reply(self, case: BfclCase, client: Client | None) -> Reply:
        sampling = SAMPLING if any(case.expected) else {**SAMPLING, "max_tokens": NO_CALL_TOKENS}
        if client is None:
            return await naive.complete(self._http, self._url, case.messages, case.tools, sampling)
        return await client.complete(case.messages, case.tools, **sampling)


def _raw(attempt: Attempt) -> RawReply:
    return RawReply("".join(attempt.chunks), attempt.prompt_tokens, attempt.completion_tokens)


def _share(file: Results) -> str:
    right = sum(result.verdict == "right" for result in file.by_case.values())
    return f"{right}/{len(file.by_case)}"
