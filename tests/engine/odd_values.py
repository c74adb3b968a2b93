"""Commands that the trained model often gets wrong: ten tools, and values that it copies badly.

Rule: a number always gives the same command. A reply is right if its only call is exactly the one in the command.
"""

import asyncio
import json
import random
from dataclasses import dataclass
from typing import Any

from fcshim import Client
from fcshim.demo.random_values import COMMON_WORDS, NOUNS, PARAMETERS, VERBS
from fcshim.reply import Reply, fold
from tests.engine.llama_server import SLOTS

TOOLS = 10
PARAMETERS_OF_EACH = 3
KINDS = ("string", "number", "boolean")
TOKENS = 200
JSON = Any


@dataclass(frozen=True)
class Command:
    """The user's text, the offered tools, and the right call."""

    text: str
    tools: list[JSON]
    name: str
    arguments: JSON


def command(number: int) -> Command:
    """Make the command with that number."""
    rng = random.Random(number)
    offered: dict[str, dict[str, str]] = {}
    while len(offered) < TOOLS:
        names = rng.sample(PARAMETERS, PARAMETERS_OF_EACH)
        offered[f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}"] = {name: rng.choice(KINDS) for name in names}
    name = rng.choice(list(offered))
    arguments = {key: _value(rng, kind) for key, kind in offered[name].items()}
    pairs = ", ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in arguments.items()
    )
    return Command(f"call {name} with {pairs}", [_tool(*each) for each in offered.items()], name, arguments)


async def count_right(url: str, commands: range, *, streamed: bool = False, **settings: JSON) -> int:
    """Count the commands with exactly the right call; run one request per slot at a time."""
    slots = asyncio.Semaphore(SLOTS)
    async with Client(url, **settings) as client:

        async def is_right(number: int) -> bool:
            wanted = command(number)
            async with slots:
                reply = await _asked(client, wanted, streamed=streamed)
            made = [
                (call.tool_call_name, json.loads(call.tool_call_arguments_complete))
                for call in reply.tool_calls
                if call.error is None
            ]
            return made == [(wanted.name, wanted.arguments)]

        return sum(await asyncio.gather(*map(is_right, commands)))


async def _asked(client: Client, wanted: Command, *, streamed: bool) -> Reply:
    if not streamed:
        return await client.complete(wanted.text, wanted.tools, temperature=0, max_tokens=TOKENS)
    async with client.stream(wanted.text, wanted.tools, temperature=0, max_tokens=TOKENS) as stream:
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
