"""Resumed calls that a server's own token limit truncates: a real engine, random weights, every value syntax."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fcshim import Client
from fcshim.events import ToolCallEnd
from fcshim.reply import fold
from fcshim.schema.validate import first_violation
from tests.engine.llama_server import SLOTS, LlamaServer, running
from tests.engine.random_models import write_random_model
from tests.engine.schemas import SCHEMAS
from tests.engine.vocabulary import sentencepiece_vocabulary
from tests.parse.laws import normalise

LIMIT, TRIES = 70, 16
CALLS = 16
DIALECTS = ("function_call", "qwen3_xml", "minimax_m3", "llama4", "gemma4")
"""One dialect for each value syntax, except one whose calls take more tokens before the arguments."""
WAYS = [*((dialect, True) for dialect in DIALECTS), ("function_call", False), ("qwen3_xml", False)]


@pytest.fixture(scope="module")
def short_server(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """A server that ends each reply after a few tokens."""
    folder = tmp_path_factory.mktemp("short")
    model = folder / "random.gguf"
    write_random_model(model, sentencepiece_vocabulary())
    with running(program, model, folder, "--predict", str(LIMIT), context=4096) as server:
        yield server


async def last_calls(url: str, dialect: str, *, streamed: bool, max_retries: int) -> list[ToolCallEnd | None]:
    """Require calls, and return the last one of each reply."""
    names = list(SCHEMAS)
    slots = asyncio.Semaphore(SLOTS)
    async with Client(url, dialect=dialect, max_retries=max_retries) as client:

        async def last_call(number: int) -> ToolCallEnd | None:
            schema = SCHEMAS[names[number]]
            tool = {"type": "function", "function": {"name": names[number], "parameters": schema}}
            fields = {"tool_choice": "required", "parallel_tool_calls": True, "temperature": 1.0, "seed": number}
            async with slots:
                if streamed:
                    async with client.stream(f"Go {number}.", [tool], **fields) as stream:
                        events = [event async for event in stream]
                    normalise(events[:-2])
                    reply = fold(events)
                else:
                    reply = await client.complete(f"Go {number}.", [tool], **fields)
            for call in reply.tool_calls:
                if call.error is None:
                    assert first_violation(schema, json.loads(call.tool_call_arguments_complete)) is None
            return reply.tool_calls[-1] if reply.tool_calls else None  # cut off before its name

        return await asyncio.gather(*map(last_call, range(CALLS)))


@pytest.mark.parametrize(("dialect", "streamed"), WAYS)
async def test_truncated_calls_are_resumed(short_server: LlamaServer, dialect: str, streamed: bool) -> None:
    unaided = await last_calls(short_server.url, dialect, streamed=streamed, max_retries=0)
    cut_off = sum(call is None or call.error is not None for call in unaided)
    calls = await last_calls(short_server.url, dialect, streamed=streamed, max_retries=TRIES)
    left = sum(call is None or call.error is not None for call in calls)

    assert cut_off >= 2
    assert 2 * left <= cut_off, f"{left} of {cut_off} are left"
