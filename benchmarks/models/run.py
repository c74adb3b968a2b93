"""Runs the tasks of one model in several modes, in turns, and keeps every result at once."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TypeAlias

import msgspec

from benchmarks.models.conversations import Conversation, judge_conversation
from benchmarks.models.loops import LoopResult, ReplySource
from benchmarks.models.modes import client_of
from benchmarks.models.relay import serve_relay
from benchmarks.models.results import CaseResult, CaseVerdict, Results, ResultT
from fcshim.errors import FcshimError
from fcshim.evaluate.bfcl import BfclCase, judge_bfcl
from fcshim.evaluate.case import Case
from fcshim.evaluate.scoring import calls_of
from fcshim.reply import Reply
from fcshim.sampling import Sampling

SAMPLING: Sampling = {"temperature": 0, "seed": 1, "max_tokens": 400}
"""Greedy decoding; the limit ends a model that repeats itself."""
NO_CALL_TOKENS = 160
"""The limit where BFCL expects no call: an answer in prose is not read to its end."""

Task: TypeAlias = Callable[[ReplySource], Awaitable[ResultT]]
"""Has a client do one task, and judges it. A failure of the endpoint is a verdict."""


async def run_tasks(
    upstream: str, tasks: Mapping[str, Task[ResultT]], files: Mapping[str, Results[ResultT]], deadline: float
) -> None:
    """Run each task in the mode of each file, unless the file has its result, until the deadline of the clock.

    Raises `FcshimError` if the endpoint does not answer at the start.
    """
    pending = {mode: file for mode, file in files.items() if not tasks.keys() <= file.by_id.keys()}
    if not pending:
        return
    async with AsyncExitStack() as stack:
        relay, url = await stack.enter_async_context(serve_relay(upstream))
        clients = {mode: await stack.enter_async_context(client_of(mode, url)) for mode in pending}
        for client in clients.values():
            # Before its first reply, fcshim may try a dialect; that attempt belongs to no task.
            await client.complete([{"role": "user", "content": "Hello"}], (), max_tokens=1)
        for position, (name, task) in enumerate(tasks.items(), 1):
            for mode, file in pending.items():
                if name in file.by_id:
                    continue
                if time.monotonic() > deadline:
                    return
                relay.take()
                result = await task(clients[mode])
                file.add(msgspec.structs.replace(result, raw=relay.take()))
            done = ", ".join(f"{mode} {_share(file)}" for mode, file in pending.items())
            print(f"{position}/{len(tasks)} {name}: {done}", flush=True)


async def run_bfcl_case(client: ReplySource, case: BfclCase) -> CaseResult:
    """Request the reply to a case of BFCL, and judge it."""
    sampling: Sampling = SAMPLING if any(case.expected) else {**SAMPLING, "max_tokens": NO_CALL_TOKENS}
    return await run_case(client, case, partial(judge_bfcl, case), sampling)


async def run_conversation(client: ReplySource, conversation: Conversation) -> CaseResult:
    """Request the reply to a conversation, and judge it."""
    return await run_case(client, conversation.case, partial(judge_conversation, conversation), SAMPLING)


async def run_case(
    client: ReplySource, case: Case, judge: Callable[[Reply], CaseVerdict], sampling: Sampling
) -> CaseResult:
    """Request one reply, and judge it."""
    began = time.perf_counter()
    try:
        reply = await client.complete(case.messages, case.tools, **sampling)
    except FcshimError as error:
        return CaseResult(
            id=case.id, category=case.category, verdict="error", problem=str(error), seconds=_seconds_since(began)
        )
    return CaseResult(
        id=case.id,
        category=case.category,
        verdict=judge(reply),
        calls=calls_of(reply),
        text=reply.text,
        seconds=_seconds_since(began),
    )


def _seconds_since(began: float) -> float:
    return round(time.perf_counter() - began, 2)


def _share(file: Results[CaseResult] | Results[LoopResult]) -> str:
    right = sum(result.verdict == "right" for result in file.by_id.values())
    return f"{right}/{len(file.by_id)}"
