"""Demanded calls: with `tool_choice`, a client gets one valid call, and no other, even from a model that calls badly.

Rule: only the first attempt counts. Each case is requested twice: with any call demanded, and with that of one tool.
"""

import json
from collections.abc import AsyncIterator, Sequence

import jsonschema
import msgspec

from benchmarks.models.relay import RawReply, serve_relay
from benchmarks.models.run import SAMPLING
from fcshim import Client
from fcshim.evaluate.bfcl import BfclCase, judge_bfcl
from fcshim.events import JSON, ToolCallEnd
from fcshim.parse.stream import parse
from fcshim.reply import Reply, fold
from fcshim.sampling import Sampling

CATEGORIES = ("simple_python", "multiple")
"""Categories whose cases expect one call."""


class DemandedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to one request that demanded a call of `demanded`, the name of a tool or `any`."""

    id: str
    demanded: str
    valid: bool
    """Whether the first attempt had a call of that tool, with arguments that its schema admits."""
    beyond: int
    """Calls after the first one, of the model or as the client got them."""
    right: bool
    """Whether it is the call that the case expects."""
    raw: tuple[RawReply, ...]


async def run_demanded(upstream: str, cases: Sequence[BfclCase]) -> AsyncIterator[DemandedCall]:
    """Yield what comes of demanded calls with the default settings. Raises `FcshimError` if the endpoint fails."""
    async with serve_relay(upstream) as (relay, url), Client(url) as client:
        # Before its first reply, fcshim may try a dialect; that attempt belongs to no case.
        await client.complete("Hello", max_tokens=1)
        for case in cases:
            named = case.expected[0][0].name
            for demanded in ("any", named):
                choice: JSON = {"type": "function", "function": {"name": named}} if demanded == named else "required"
                relay.take()
                sampling: Sampling = {**SAMPLING, "tool_choice": choice}
                reply = await client.complete(case.messages, case.tools, **sampling)
                yield _demanded_call(case, demanded, reply, relay.take())


def demanded_line(results: Sequence[DemandedCall]) -> str:
    """Return the figures as one line."""
    valid, right = sum(each.valid for each in results), sum(each.right for each in results)
    beyond = sum(each.beyond for each in results)
    return f"{len(results)} demanded calls: {valid} valid, {beyond} calls beyond them, {right} as expected"


def _demanded_call(case: BfclCase, demanded: str, reply: Reply, raw: tuple[RawReply, ...]) -> DemandedCall:
    written = fold(parse(raw[0].text, "auto", case.tools)).tool_calls
    return DemandedCall(
        id=case.id,
        demanded=demanded,
        valid=len(raw) == 1 and bool(reply.tool_calls) and _is_valid(case, demanded, reply.tool_calls[0]),
        beyond=max(len(written), len(reply.tool_calls), 1) - 1,
        right=judge_bfcl(case, reply) == "right",
        raw=raw,
    )


def _is_valid(case: BfclCase, demanded: str, call: ToolCallEnd) -> bool:
    schemas = {tool.name: tool.parameters for tool in case.tools}
    if call.error or demanded not in ("any", call.tool_call_name) or call.tool_call_name not in schemas:
        return False
    validator = jsonschema.Draft202012Validator(schemas[call.tool_call_name])
    return bool(validator.is_valid(json.loads(call.tool_call_arguments_complete)))
