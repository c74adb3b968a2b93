"""The measured context length: of simulated servers in virtual time, and through HTTP."""

import asyncio
from dataclasses import dataclass

import pytest

from fcshim.evaluate.probes import run_probes
from fcshim.evaluate.probes_context import probe_measured_context
from fcshim.evaluate.result import ProbeResult
from fcshim.evaluate.target import ProbeResponse, ProbeTarget
from fcshim.events import Usage
from fcshim.messages import Request, text_of
from fcshim.pipeline.backends import get_backend
from fcshim.reply import Reply
from fcshim.upstream import Upstream
from tests.evaluate.test_probes import rejection, reply_with_usage, reply_without_usage
from tests.scripted import Script, scripted_upstream
from tests.virtual_time import in_virtual_time


def tokens_in(text: str) -> int:
    return len(text.split()) + 9


@dataclass
class Server:
    """How a server treats prompts: the tokens of its context, whether it refuses longer ones, and its speed."""

    context: int
    refuses: bool = False
    counts: bool = True
    tokens_per_second: float = 1_000.0
    kept: float = 1.0
    """The part of the context that is left of a prompt that was cut."""
    fails: int = 0
    """The status with which it answers more than 1,000 tokens."""


class SimulatedTarget(ProbeTarget):
    """A target whose server takes time to read a prompt."""

    def __init__(self, server: Server, told: int, seconds: float) -> None:
        super().__init__(Upstream("http://127.0.0.1:1"), "m", get_backend("generic"))
        self.server, self.context_length, self.context_seconds = server, told, seconds
        self.sizes: list[int] = []

    async def send(self, request: Request, **_options: object) -> ProbeResponse:
        tokens = tokens_in(text_of(request.messages[0].content))
        self.sizes.append(tokens)
        if self.server.fails and tokens > 1_000:
            return ProbeResponse(status=self.server.fails, problem="no")
        if tokens > self.server.context:
            if self.server.refuses:
                return ProbeResponse(status=400, problem="too long")
            tokens = int(self.server.context * self.server.kept)
        await asyncio.sleep(tokens / self.server.tokens_per_second)
        usage = Usage(input_tokens=tokens if self.server.counts else 0, output_tokens=1)
        return ProbeResponse(status=200, reply=Reply(usage=usage))


async def measure(server: Server, told: int = 0, seconds: float = 1_000.0) -> tuple[ProbeResult, list[int], float]:
    """Return what was found, the sizes of the prompts, and the seconds."""
    target = SimulatedTarget(server, told, seconds)
    began = asyncio.get_running_loop().time()
    found = await probe_measured_context(target)

    assert found is not None
    return found, target.sizes, asyncio.get_running_loop().time() - began


@pytest.mark.parametrize("told", [0, 300, 4_096, 40_960])
@pytest.mark.parametrize("kept", [1.0, 0.5])
@pytest.mark.parametrize("context", [256, 512, 2_048, 4_096, 6_000, 32_768])
@in_virtual_time
async def test_a_prompt_that_is_cut_in_silence_shows_the_limit(context, kept, told):
    found, sizes, _ = await measure(Server(context, kept=kept), told)

    assert ("yes", int(context * kept)) == (found.verdict, found.value)
    assert "the server read no more" in found.evidence
    assert "in silence" in found.means
    assert (told > context * 1.2) <= (f"it reports {told}" in found.evidence)
    assert len(sizes) <= 10


@pytest.mark.parametrize("context", [512, 2_048, 4_096, 6_000, 32_768])
@in_virtual_time
async def test_a_refusal_is_narrowed_down(context):
    found, sizes, _ = await measure(Server(context, refuses=True))

    assert "yes" == found.verdict
    assert context / 1.06 <= found.value <= context
    assert "too long" in found.evidence
    assert len(sizes) <= 12


@pytest.mark.parametrize("context", [512, 2_048, 4_096, 6_000, 32_768, 131_072])
@in_virtual_time
async def test_a_limit_that_the_server_reports_takes_two_long_prompts(context):
    found, sizes, _ = await measure(Server(context, refuses=True, tokens_per_second=10_000), context)

    assert ("yes", context) == (found.verdict, found.value)
    assert "reports" not in found.evidence
    assert 4 == len(sizes)


@pytest.mark.parametrize("refuses", [True, False])
@in_virtual_time
async def test_a_server_that_reports_less_than_it_reads_is_measured(refuses):
    found, _, _ = await measure(Server(16_384, refuses=refuses), told=4_096)

    assert 16_384 / 1.06 <= found.value <= 16_384
    assert "it reports 4096" in found.evidence


@pytest.mark.parametrize("speed", [20.0, 100.0, 1_000.0])
@pytest.mark.parametrize("told", [0, 131_072])
@in_virtual_time
async def test_the_time_is_kept_and_used(told, speed):
    found, sizes, seconds = await measure(Server(131_072, tokens_per_second=speed), told, seconds=60.0)

    assert ("unclear", None) == (found.verdict, found.value)
    assert f"at least {sizes[-1]} tokens; a longer prompt takes more than 60 s" == found.evidence
    assert 15 <= seconds <= 60


@in_virtual_time
async def test_a_server_that_gets_slower_than_expected_is_left_when_the_time_is_over():
    target = SimulatedTarget(Server(10**9, tokens_per_second=1.0), 0, 60.0)
    found = await probe_measured_context(target)

    assert 60 == asyncio.get_running_loop().time()
    assert ProbeResult("unclear", "no answer within 60 s") == found


@in_virtual_time
async def test_the_requests_are_bounded():
    found, sizes, _ = await measure(Server(10**9, tokens_per_second=10**9))

    assert "unclear" == found.verdict
    assert found.evidence.endswith("no longer prompt is sent")
    assert len(sizes) <= 16
    assert max(sizes) <= 2**20


@pytest.mark.parametrize("status", [0, 413, 429, 503])
@in_virtual_time
async def test_a_failure_that_is_no_refusal_of_the_prompt_ends_the_search(status):
    found, sizes, _ = await measure(Server(8_192, fails=status or 503))

    assert ("unclear", None) == (found.verdict, found.value)
    assert f"at least {sizes[1]} tokens; no" == found.evidence


@in_virtual_time
async def test_a_server_that_counts_no_tokens_is_not_measured():
    found, sizes, _ = await measure(Server(512, counts=False))

    assert ProbeResult("unclear", "the server does not count the tokens of a prompt") == found
    assert 2 == len(sizes)


def cutting(context: int, *, refuses: bool = False, counts: bool = True):
    def respond(asked) -> Script:
        tokens = sum(tokens_in(message["content"]) for message in asked.body["messages"])
        if refuses and tokens > context:
            return rejection(f"the request exceeds the available context size ({context} tokens)")
        return reply_with_usage(min(tokens, context), "Hello.") if counts else reply_without_usage("Hello.")

    return respond


async def findings(respond, listed: int, seconds: float) -> dict:
    async with scripted_upstream(respond=respond, pages={}) as upstream, Upstream(upstream.url) as client:
        target = ProbeTarget(client, "m", get_backend("vllm"), {"data": [{"id": "m", "max_model_len": listed}]})
        target.context_seconds = seconds
        found = {each.probe: each async for each in run_probes(target, quick=True)}
        longest = max(len(str(asked.body["messages"])) for asked in upstream.requests)
        return found | {"longest": longest}


async def test_a_context_that_the_server_reports_wrongly_is_found_through_http():
    found = await findings(cutting(4_096), listed=32_768, seconds=60.0)

    assert [32_768, 4_096] == [found[name].value for name in ("context", "measured_context")]
    assert "it reports 32768" in found["measured_context"].evidence


async def test_a_refusal_through_http_confirms_what_the_server_reports():
    found = await findings(cutting(4_096, refuses=True), listed=4_096, seconds=60.0)

    assert ("yes", 4_096) == (found["measured_context"].verdict, found["measured_context"].value)
    assert "exceeds the available context size" in found["measured_context"].evidence


async def test_no_long_prompt_is_sent_by_default():
    found = await findings(cutting(4_096), listed=32_768, seconds=0.0)

    assert "measured_context" not in found
    assert found["longest"] < 1_000
