"""Commands that the trained model often gets wrong: ten tools, and values that it copies badly.

Rule: a number always gives the same command. A reply is right if its calls are exactly those of the command.
"""

import asyncio
import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fcshim import Client
from fcshim.demo.random_values import COMMON_WORDS, NOUNS, PARAMETERS, VERBS
from fcshim.reply import Reply, fold
from tests.engine.llama_server import SLOTS

TOOLS = 10
PARAMETERS_OF_EACH = 3
KINDS = ("string", "number", "boolean")
MAX_TOKENS = 200
JSON = Any


@dataclass(frozen=True)
class Command:
    """The user's text, the offered tools, and the right calls: each a name and its arguments."""

    text: str
    tools: list[JSON]
    calls: list[tuple[str, JSON]]


def command(number: int, *, shuffled: bool = False) -> Command:
    """Make the command with that number; `shuffled`: it names the arguments in another order than the schema."""
    rng = random.Random(number)
    offered: dict[str, dict[str, str]] = {}
    while len(offered) < TOOLS:
        names = rng.sample(PARAMETERS, PARAMETERS_OF_EACH)
        offered[f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}"] = {name: rng.choice(KINDS) for name in names}
    name = rng.choice(list(offered))
    arguments = {key: _value(rng, kind) for key, kind in offered[name].items()}
    pairs = [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in arguments.items()]
    if shuffled:
        rng.shuffle(pairs)
    tools = [_tool(*each) for each in offered.items()]
    return Command(f"call {name} with {', '.join(pairs)}", tools, [(name, arguments)])


def unoffered_command(number: int) -> Command:
    """Make the same command, but do not offer its tool, so that no call is right."""
    wanted = command(number)
    ((name, _),) = wanted.calls
    return Command(wanted.text, [tool for tool in wanted.tools if tool["function"]["name"] != name], [])


async def count_right(
    url: str,
    commands: Iterable[Command],
    *,
    streamed: bool = False,
    max_tokens: int | None = MAX_TOKENS,
    **settings: JSON,
) -> int:
    """Count the commands with exactly the right calls; run one request per slot at a time."""
    slots = asyncio.Semaphore(SLOTS)
    sampling: JSON = {"temperature": 0} if max_tokens is None else {"temperature": 0, "max_tokens": max_tokens}
    async with Client(url, **settings) as client:

        async def is_right(wanted: Command) -> bool:
            async with slots:
                reply = await _ask(client, wanted, sampling, streamed=streamed)
            made = [
                (call.tool_call_name, json.loads(call.tool_call_arguments_complete))
                for call in reply.tool_calls
                if call.error is None
            ]
            return made == wanted.calls

        return sum(await asyncio.gather(*map(is_right, commands)))


async def _ask(client: Client, wanted: Command, sampling: JSON, *, streamed: bool) -> Reply:
    if not streamed:
        return await client.complete(wanted.text, wanted.tools, **sampling)
    async with client.stream(wanted.text, wanted.tools, **sampling) as stream:
        return fold([event async for event in stream])


def _value(rng: random.Random, kind: str) -> JSON:
    match kind:
        case "number":
            return rng.randrange(1, 400) / 10
        case "boolean":
            return rng.random() < 0.5
    return f"{rng.choice(COMMON_WORDS).lower()}{rng.randrange(10, 100)}"


def _tool(name: str, parameters: dict[str, str]) -> JSON:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": schema}}
