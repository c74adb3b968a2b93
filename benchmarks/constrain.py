"""What holding a model to a grammar costs, and how many demanded calls of a random model are valid under it.

Rule: without `--engine` only times are measured; with it, the calls go through a real llama-server, streamed.
Neighbours: `tests.engine` has the server, the model and the fifty schemas; `proxy` the endpoint and the load.

Run `python -m benchmarks.constrain --engine`; it takes some minutes.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from benchmarks.proxy.load import CHAT, LoadResult, encode_request, send_request
from benchmarks.proxy.processes import Process, proxy, scripted_upstream
from benchmarks.proxy.upstream import CALL
from benchmarks.report import Report, arguments
from fcshim import Client
from fcshim.constrain.call_template import call_template_of
from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.excluded_markers import text_excluding
from fcshim.constrain.gbnf import write_gbnf
from fcshim.constrain.token_limit import limit_tokens
from fcshim.messages import AUTO, Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.parse.tagged.tags import compile_tags
from fcshim.reply import Reply, fold
from fcshim.schema.validate import first_violation
from tests.engine.llama_server import SLOTS, running
from tests.engine.program import find_llama_server
from tests.engine.random_models import write_random_model
from tests.engine.schemas import SCHEMAS
from tests.engine.vocabulary import byte_level_vocabulary, sentencepiece_vocabulary

CALLS = 1_000
TOKENS = 1_000
TOOLS = 128
ROUNDS = 7
OFFERED_TOOLS = 10
FIRST_CHUNK_DELAY = 0.02
"""Seconds that the scripted endpoint takes to its first chunk: less than any model."""
FIRST_CHUNK_REQUESTS = 200
"""Requests of each kind, one after the other."""
VOCABULARIES = {"SentencePiece": sentencepiece_vocabulary, "bytes": byte_level_vocabulary}


def main() -> int:
    """Measure and tell."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--engine", action="store_true", help="also ask random models on a llama-server for calls")
    options = parser.parse_args()
    report = Report("constrain")
    schemas = list(SCHEMAS.values())
    tools = [Tool(f"tool_{at}", "", schemas[at % len(schemas)]) for at in range(TOOLS)]
    times = {name: grammar_milliseconds(tools, dialect) for name, dialect in DIALECTS.items()}
    slowest = sorted(times, key=times.__getitem__, reverse=True)
    report.table(f"grammar for {TOOLS} tools, by dialect", ("dialect", "ms of CPU"), [(n, times[n]) for n in slowest])
    report.bar(
        f"grammar for {TOOLS} tools in {slowest[0]}, the slowest of {len(times)} dialects", times[slowest[0]], 50, "ms"
    )
    _compare_first_chunks(
        report, tools[:OFFERED_TOOLS], FIRST_CHUNK_REQUESTS // 4 if options.quick else FIRST_CHUNK_REQUESTS
    )
    if options.engine:
        _ask_random_models(report, CALLS // 10 if options.quick else CALLS)
    return report.finish(options.json)


def _ask_random_models(report: Report, calls: int) -> None:
    rows = []
    program = find_llama_server(patient=True)
    for name, make in VOCABULARIES.items():
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "random.gguf"
            write_random_model(model, make())
            with running(program, model, Path(folder)) as server:
                valid, seconds = asyncio.run(valid_calls(server.url, calls))
        rows.append((name, valid, calls, len(SCHEMAS), seconds))
        report.bar(f"demanded calls that are not valid, {name}", calls - valid, 0)
    report.table("demanded calls of random models", ("vocabulary", "valid", "asked", "schemas", "seconds"), rows)


def _compare_first_chunks(report: Report, tools: list[Tool], count: int) -> None:
    """Compare a proxy that holds calls to a grammar, made beforehand, with one that is told not to."""
    script = f"{CALL}:1:{FIRST_CHUNK_DELAY}"
    with (
        tempfile.TemporaryDirectory() as folder,
        scripted_upstream() as upstream,
        proxy("fcshim", upstream, Path(folder), "--constrain", "off") as free,
        proxy("fcshim", upstream, Path(folder), "--constrain", "llama-server") as holding,
    ):
        for what, choice in (("demanded", ToolChoice("required")), ("free", AUTO)):
            asked = encode_request(script, CHAT, tools, choice)
            without, held = (median * 1e3 for median in uvloop.run(_median_first_chunks((free, holding), asked, count)))
            report.table(
                f"a call that is {what}",
                ("constrain", "ms to the first chunk"),
                [("off", without), ("llama-server", held)],
            )
            report.bar(f"first chunk of a call that is {what}, beside `constrain: off`", held / without, 1.05, "x")


async def _median_first_chunks(proxies: Sequence[Process], asked: bytes, count: int) -> list[float]:
    """Return the median seconds until the first chunk; the proxies take turns, in changing order."""
    for process in proxies:
        await send_request(process.port, asked, LoadResult())
    found = [LoadResult() for _ in proxies]
    turns = list(zip(proxies, found, strict=True))
    for _ in range(count):
        turns.reverse()
        for process, seen in turns:
            await send_request(process.port, asked, seen)
    return [seen.median_first_chunk for seen in found]


def grammar_milliseconds(tools: list[Tool], dialect: Dialect) -> float:
    """Return the best time of some, since the machine may be busy; each begins with nothing known of the dialect."""
    times = []
    for _ in range(ROUNDS):
        for known in (call_template_of, text_excluding, compile_tags):
            known.cache_clear()
        started = time.process_time()
        grammar = grammar_of_calls(dialect, tools)
        assert grammar is not None
        write_gbnf(limit_tokens(grammar, 4_096))
        times.append(time.process_time() - started)
    return min(times) * 1_000


async def valid_calls(url: str, calls: int) -> tuple[int, float]:
    """Ask so many times; give how often a valid call came, and the seconds that it took."""
    names = list(SCHEMAS)
    slots = asyncio.Semaphore(SLOTS)
    async with Client(url) as client:

        async def valid(number: int) -> bool:
            """Every other call is named, the others are required; of the named ones every other one is the only one."""
            name = names[number % len(names)]
            is_named, alone = number // len(names) % 2 == 0, number // len(names) % 4 < 2
            other = names[(number + 1) % len(names)]
            choice = {"type": "function", "function": {"name": name}} if is_named else "required"
            tools = [
                {"type": "function", "function": {"name": one, "parameters": SCHEMAS[one]}} for one in (name, other)
            ]
            fields = {"tool_choice": choice, "parallel_tool_calls": not alone, "max_tokens": TOKENS, "seed": number}
            async with slots, client.stream(f"Go {number}.", tools, temperature=1.0, **fields) as stream:
                reply = fold([event async for event in stream])
            right = is_valid(reply, [name] if is_named else [name, other], alone=alone)
            if not right:
                print(number, name, reply.stop_reason, [call.tool_call_arguments_complete for call in reply.tool_calls])
            return right

        started = time.perf_counter()
        found = await asyncio.gather(*map(valid, range(calls)))
        return sum(found), time.perf_counter() - started


def is_valid(reply: Reply, names: list[str], *, alone: bool) -> bool:
    calls = reply.tool_calls
    if reply.stop_reason != "tool_use" or not calls or (alone and len(calls) > 1):
        return False
    return all(
        call.tool_call_name in names
        and call.error is None
        and first_violation(SCHEMAS[call.tool_call_name], json.loads(call.tool_call_arguments_complete)) is None
        for call in calls
    )


if __name__ == "__main__":
    sys.exit(main())
