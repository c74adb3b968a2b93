"""The cost of constraining a model with a grammar, and how many required calls of a random model are then valid.

Rule: without `--engine` only times are measured; with it, calls of random models are streamed from a real llama-server.

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
from fcshim.constrain.token_limit import limit_tokens
from fcshim.constrain.writer import write_gbnf
from fcshim.messages import AUTO, Tool, ToolChoice
from fcshim.parse.dialects import DIALECTS, Dialect
from fcshim.parse.tagged.tag_reading import compile_tags
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
"""Seconds until the first chunk of the scripted endpoint: less than any model takes."""
FIRST_CHUNK_REQUESTS = 200
"""Requests for each tool choice, one after the other."""
VOCABULARIES = {"SentencePiece": sentencepiece_vocabulary, "bytes": byte_level_vocabulary}


def main() -> int:
    """Measure, report and return the exit status."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--engine", action="store_true", help="also request calls of random models on a llama-server")
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
        report.bar(f"required calls that are not valid, {name}", calls - valid, 0)
    report.table("required calls of random models", ("vocabulary", "valid", "asked", "schemas", "seconds"), rows)


def _compare_first_chunks(report: Report, tools: list[Tool], count: int) -> None:
    """Compare the first chunk of a proxy that sends a grammar, which is cached by then, with `--constrain off`."""
    script = f"{CALL}:1:{FIRST_CHUNK_DELAY}"
    with (
        tempfile.TemporaryDirectory() as folder,
        scripted_upstream() as upstream,
        proxy("fcshim", upstream, Path(folder), "--constrain", "off") as unconstrained,
        proxy("fcshim", upstream, Path(folder), "--constrain", "llama-server") as constrained,
    ):
        for what, choice in (("required", ToolChoice("required")), ("free", AUTO)):
            request = encode_request(script, CHAT, tools, choice)
            without, with_grammar = (
                median * 1e3
                for median in uvloop.run(_median_first_chunks((unconstrained, constrained), request, count))
            )
            report.table(
                f"a call that is {what}",
                ("constrain", "ms to the first chunk"),
                [("off", without), ("llama-server", with_grammar)],
            )
            report.bar(
                f"first chunk of a call that is {what}, beside `constrain: off`", with_grammar / without, 1.05, "x"
            )


async def _median_first_chunks(proxies: Sequence[Process], request: bytes, count: int) -> list[float]:
    """Return the median seconds until the first chunk; the proxies take turns, in alternating order."""
    for process in proxies:
        await send_request(process.port, request, LoadResult())
    results = [LoadResult() for _ in proxies]
    turns = list(zip(proxies, results, strict=True))
    for _ in range(count):
        turns.reverse()
        for process, result in turns:
            await send_request(process.port, request, result)
    return [result.median_first_chunk for result in results]


def grammar_milliseconds(tools: list[Tool], dialect: Dialect) -> float:
    """Return the best of several times, since the machine may be busy; caches are cleared before each."""
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
    """Send `calls` requests; return the number of valid calls and the seconds."""
    names = list(SCHEMAS)
    slots = asyncio.Semaphore(SLOTS)
    async with Client(url) as client:

        async def valid(number: int) -> bool:
            """Send one request: half of them name the tool, half require any; half of each forbid parallel calls."""
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
            is_right = is_valid(reply, [name] if is_named else [name, other], alone=alone)
            if not is_right:
                print(number, name, reply.stop_reason, [call.tool_call_arguments_complete for call in reply.tool_calls])
            return is_right

        started = time.perf_counter()
        results = await asyncio.gather(*map(valid, range(calls)))
        return sum(results), time.perf_counter() - started


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
