"""Constrained calls of a random model on a real server: a required call comes, is valid, and is the only one."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from fcshim import Client
from fcshim.events import ToolCallChunk, ToolCallEnd
from fcshim.reply import Reply, fold
from fcshim.schema.validate import first_violation
from tests.engine.conftest import VOCABULARIES
from tests.engine.llama_server import SLOTS, LlamaServer
from tests.engine.schemas import SCHEMAS
from tests.engine.vocabulary import byte_tokens

TOOLS = [{"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()]
TOKENS = 1_000
JSON = Any


@pytest_asyncio.fixture
async def client(random_server: LlamaServer) -> AsyncIterator[Client]:
    async with Client(random_server.url) as client:
        yield client


async def ask(
    client: Client, choice: JSON, seed: int, tools: list[JSON], *, parallel: bool = True, tokens: int = TOKENS
) -> Reply:
    """Request a streamed reply with a tool choice."""
    fields = {"tool_choice": choice, "parallel_tool_calls": parallel, "max_tokens": tokens, "seed": seed}
    async with client.stream(f"Go {seed}.", tools, temperature=1.0, **fields) as stream:
        events = [event async for event in stream]

    assert any(isinstance(event, ToolCallChunk) for event in events)

    return fold(events)


def check(call: ToolCallEnd) -> None:
    assert (None, []) == (call.error, call.coerced), call
    assert first_violation(SCHEMAS[call.tool_call_name], json.loads(call.tool_call_arguments_complete)) is None, call


async def in_turns(each: Any, count: int) -> list[Reply]:
    """Run one request per slot at a time."""
    slots = asyncio.Semaphore(SLOTS)

    async def one(number: int) -> Reply:
        async with slots:
            reply: Reply = await each(number)
            return reply

    return await asyncio.gather(*map(one, range(count)))


async def test_a_named_call_is_valid_for_every_schema(client: Client) -> None:
    names = list(SCHEMAS)

    async def named(number: int) -> Reply:
        choice = {"type": "function", "function": {"name": names[number]}}
        return await ask(client, choice, number, TOOLS[number - 1 : number + 1] or TOOLS[:1], parallel=number % 2 == 0)

    replies = await in_turns(named, len(names))

    for name, reply in zip(names, replies, strict=True):
        assert ("tool_use", "") == (reply.stop_reason, reply.text.strip()), reply
        assert {name} == {call.tool_call_name for call in reply.tool_calls}
        for call in reply.tool_calls:
            check(call)
    assert any(len(reply.tool_calls) > 1 for reply in replies[::2])
    assert {1} == {len(reply.tool_calls) for reply in replies[1::2]}


async def test_a_required_call_comes_and_only_one_without_parallel_calls(client: Client) -> None:
    tools = TOOLS[:4]
    replies = await in_turns(lambda seed: ask(client, "required", seed, tools, parallel=False), 30)

    assert {1} == {len(reply.tool_calls) for reply in replies}
    assert {"tool_use"} == {reply.stop_reason for reply in replies}
    assert len({reply.tool_calls[0].tool_call_name for reply in replies}) > 2
    for reply in replies:
        check(reply.tool_calls[0])


OTHERS = ["hermes", "llama3_json", "granite", "react", "mistral", "qwen3_xml", "glm", "dsml", "kimi_k3", "pythonic"]


@pytest.mark.parametrize("dialect", [*OTHERS, "lfm2", "gemma4", "minimax_m3"])
async def test_calls_in_other_dialects_are_constrained(random_server: LlamaServer, dialect: str) -> None:
    async with Client(random_server.url, dialect=dialect) as client:
        replies = await in_turns(lambda seed: ask(client, "required", seed, TOOLS[seed : seed + 3], tokens=1_500), 6)

    # A random model may reach the token limit inside a long value; the call then ends with an error.
    ended = [reply for reply in replies if reply.stop_reason == "tool_use"]
    assert len(ended) >= len(replies) // 2
    assert {"truncated"} >= {_kind(reply.tool_calls[-1]) for reply in replies if reply.stop_reason == "max_tokens"}
    assert {"tool_use", "max_tokens"} >= {reply.stop_reason for reply in replies}
    for call in (call for reply in ended for call in reply.tool_calls):
        check(call)


def _kind(call: ToolCallEnd) -> str | None:
    return call.error and call.error.kind


async def test_a_model_in_reasoning_ends_it_and_calls(random_server: LlamaServer) -> None:
    async with Client(random_server.url, open_reasoning_tag="<think>") as client:
        replies = await in_turns(lambda seed: ask(client, "required", seed, TOOLS[seed : seed + 2]), 12)

    assert any(reply.reasoning for reply in replies)
    for reply in replies:
        assert "tool_use" == reply.stop_reason, reply
        for call in reply.tool_calls:
            check(call)


LIMITS = (3, 8, 20, 40, 100)
LIMITED = {
    "type": "object",
    "properties": {f"upto{most}": {"type": "string", "maxLength": most, "minLength": 1} for most in LIMITS},
    "required": [f"upto{most}" for most in LIMITS],
}


async def write_limited(server: LlamaServer, preferred: dict[int, float], vocabulary: str, seed: int) -> dict[str, str]:
    """Return the strings of a call that a model writes which prefers these bytes."""
    ids = byte_tokens(VOCABULARIES[vocabulary]())
    bias = [[ids[byte], weight] for byte, weight in preferred.items()]
    tool = {"type": "function", "function": {"name": "f", "parameters": LIMITED}}
    async with Client(server.url, prompt_style="own") as client:  # random weights: each word counts
        fields = {"tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 2_000, "seed": seed}
        reply = await client.complete(f"Go {seed}.", [tool], temperature=1.0, logit_bias=bias, **fields)
    (call,) = reply.tool_calls
    assert call.error is None, call
    found: dict[str, str] = json.loads(call.tool_call_arguments_complete)
    return found


async def test_no_string_is_too_long_whatever_bytes_a_model_prefers(
    random_server: LlamaServer, request: pytest.FixtureRequest
) -> None:
    vocabulary = request.node.callspec.params["random_server"]
    first_bytes = {0xE0: 9.0, 0xF0: 9.0, 0xC3: 7.0, 0xE6: 7.0, **dict.fromkeys(range(0x80, 0xA0), 8.0)}
    replies = await in_turns(lambda seed: write_limited(random_server, first_bytes, vocabulary, seed), 8)

    for strings in replies:
        assert all(1 <= len(strings[f"upto{most}"]) <= most for most in LIMITS), strings
    assert any("\ufffd" in text for strings in replies for text in strings.values())


async def test_strings_of_every_script_are_written_within_a_length(
    random_server: LlamaServer, request: pytest.FixtureRequest
) -> None:
    vocabulary, texts = request.node.callspec.params["random_server"], "नก日ж😀"
    preferred = [{byte: 30.0 - 4 * at for at, byte in enumerate(text.encode())} for text in texts]
    replies = await in_turns(lambda at: write_limited(random_server, preferred[at], vocabulary, 1), len(texts))
    # Other characters of the script have the same first byte.
    counts = [
        sum(char.encode()[0] == text.encode()[0] for char in strings["upto100"])
        for text, strings in zip(texts, replies, strict=True)
    ]

    assert all(count > 20 for count in counts), counts


ODD: dict[str, JSON] = {
    "repetitions inside one another": {"type": "string", "pattern": "^(([a-z]{1,60}-){1,60}_){1,5}$"},
    "paths": {"type": "array", "items": {"type": "string", "pattern": "^[^/]+(/[^/]+)*$"}},
    "many members": {"type": "object", "minProperties": 10**6},
    "a large object": {"type": "object", "additionalProperties": {"enum": list(range(200))}, "minProperties": 900},
    "other members beside named ones": {"properties": {"ab": {}, "ac": {}}, "additionalProperties": {"type": "null"}},
    "names of a pattern": {"type": "object", "propertyNames": {"pattern": "^[a-z]{2,9}$"}, "minProperties": 2},
    "distinct elements": {"type": "array", "items": {"enum": list("abcde")}, "uniqueItems": True, "minItems": 3},
    "other texts": {"type": "string", "not": {"enum": ["", "\n", "abc", 'a "b"']}},
    "one of two members": {
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
        "unevaluatedProperties": False,
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "at most two elements of a kind": {
        "type": "array",
        "contains": {"type": "null"},
        "minContains": 1,
        "maxContains": 2,
    },
    "a negative count": {"type": "string", "minLength": -1},
    "a bound that is exact": {"type": "string", "minLength": 1_999, "maxLength": 1_999},
    "many values, or none": {"anyOf": [{"enum": [f"é{at}" for at in range(200)]}, {"type": "null"}]},
}


@pytest.mark.parametrize("schema", ODD.values(), ids=ODD)
async def test_unusual_schemas_make_a_grammar_that_the_server_accepts(random_server: LlamaServer, schema: JSON) -> None:
    tool = {"type": "function", "function": {"name": "odd", "parameters": {"properties": {"x": schema}}}}
    async with Client(random_server.url) as client, asyncio.timeout(60):
        reply = await client.complete("Go.", [tool], tool_choice="required", max_tokens=300, seed=1)

    assert {"odd"} == {call.tool_call_name for call in reply.tool_calls}, reply


async def test_without_a_constraint_a_random_model_makes_no_calls(random_server: LlamaServer) -> None:
    async with Client(random_server.url, constrain="off") as client:
        reply = await client.complete("Go.", TOOLS[:3], tool_choice="required", max_tokens=50)

    assert not reply.tool_calls
