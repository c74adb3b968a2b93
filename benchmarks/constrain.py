"""How long a grammar takes to make, and how many demanded calls of a random model are valid under it.

Rule: the calls go through a real llama-server, streamed; without `--engine` only the time is measured.
Neighbours: `tests.engine` has the server, the model and the fifty schemas.

Run `python -m benchmarks.constrain --engine`; it takes some minutes.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Report, arguments
from fcshim import Client
from fcshim.constrain.calls import grammar_of_calls
from fcshim.constrain.fitting import fitted
from fcshim.constrain.gbnf import write_gbnf
from fcshim.messages import Tool
from fcshim.parse.dialects import Dialect, get_dialect
from fcshim.reply import Reply, fold
from fcshim.schema.validate import first_fault
from tests.engine.llama_server import SLOTS, running
from tests.engine.program import find_llama_server
from tests.engine.random_models import write_random_model
from tests.engine.schemas import SCHEMAS
from tests.engine.vocabulary import byte_level_vocabulary, sentencepiece_vocabulary

CALLS = 1_000
TOKENS = 1_000
TOOLS = 128
LANGUAGES = ("function_call", "qwen3_xml", "kimi_k3", "minimax_m3", "pythonic", "gemma4")
"""One dialect of each language in which arguments are written."""
ROUNDS = 7
VOCABULARIES = {"SentencePiece": sentencepiece_vocabulary, "bytes": byte_level_vocabulary}


def main() -> int:
    """Measure and tell."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--engine", action="store_true", help="also ask random models on a llama-server for calls")
    options = parser.parse_args()
    report = Report("constrain")
    schemas = list(SCHEMAS.values())
    tools = [Tool(f"tool_{at}", "", schemas[at % len(schemas)]) for at in range(TOOLS)]
    for dialect in map(get_dialect, LANGUAGES):
        times = milliseconds(tools, dialect)
        report.bar(f"grammar for {TOOLS} tools in {dialect.name}, CPU", times, 50, "ms")
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


def milliseconds(tools: list[Tool], dialect: Dialect) -> float:
    """Give the best time of some: the machine may be busy."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        grammar = grammar_of_calls(dialect, tools)
        assert grammar is not None
        write_gbnf(fitted(grammar, 4_096))
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
        and first_fault(SCHEMAS[call.tool_call_name], json.loads(call.tool_call_arguments_complete)) is None
        for call in calls
    )


if __name__ == "__main__":
    sys.exit(main())
