"""Lazy grammars on a real server: text is free, and every call that begins is valid."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from gguf import TokenType

from fcshim import Client
from fcshim.constrain.constraint import constraint_for
from fcshim.errors import UpstreamError
from fcshim.events import Event, Text, ToolCallChunk
from fcshim.messages import Request, Tool
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.reply import Reply, fold
from fcshim.schema.validate import first_violation
from tests.engine import templates
from tests.engine.conftest import VOCABULARIES
from tests.engine.llama_server import SLOTS, LlamaServer, running
from tests.engine.marker_splits import bias_to, marker_splits
from tests.engine.proxy import proxying
from tests.engine.random_models import write_random_model
from tests.engine.schemas import SCHEMAS
from tests.engine.vocabulary import Token

LAZY = "llama-server-lazy"
MARKER = FUNCTION_CALL.call.open
JSON = Any


def tool(name: str, schema: JSON) -> JSON:
    return {"type": "function", "function": {"name": name, "parameters": schema}}


WEATHER = tool(
    "get_weather",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
)
ADD = Tool("add", "", {"type": "object", "properties": {"a": {"type": "integer"}}})
COMMANDS = ["call get_weather with city=Paris, days=3", "say hello there"]


@contextmanager
def random_model(kind: str, program: Path, folder: Path, *options: str) -> Iterator[LlamaServer]:
    model = folder / f"{kind}.gguf"
    write_random_model(model, VOCABULARIES[kind]())
    with running(program, model, folder, *options) as server:
        yield server


@pytest.fixture(scope="module", params=VOCABULARIES)
def rambling(
    request: pytest.FixtureRequest, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, LlamaServer]]:
    """A kind of vocabulary, and a server with a random model that uses it."""
    with random_model(request.param, program, tmp_path_factory.mktemp("lazy")) as server:
        yield request.param, server


@pytest_asyncio.fixture
async def client(trained_server: LlamaServer) -> AsyncIterator[Client]:
    async with Client(trained_server.url, constrain=LAZY, new_id=lambda: "id") as client:
        yield client


async def events_of(client: Client, said: str, **fields: JSON) -> list[Event]:
    async with client.stream(said, [WEATHER], **fields) as stream:
        return [event async for event in stream]


async def in_turns(each: Any, count: int) -> list[Any]:
    """Run one request per slot at a time."""
    slots = asyncio.Semaphore(SLOTS)

    async def one(number: int) -> Any:
        async with slots:
            return await each(number)

    return await asyncio.gather(*map(one, range(count)))


def same(reply: Reply) -> JSON:
    """Return the parts of a reply that must equal those of the chat endpoint."""
    calls = [(call.tool_call_name, call.tool_call_arguments_complete, call.error) for call in reply.tool_calls]
    return reply.text, calls, reply.stop_reason, reply.usage.input_tokens, reply.usage.output_tokens


async def test_a_trained_model_replies_as_on_the_chat_endpoint(client: Client, trained_server: LlamaServer) -> None:
    async with Client(trained_server.url, constrain="off") as other:
        for said in COMMANDS:
            events = await events_of(client, said, temperature=0)
            expected = fold(await events_of(other, said, temperature=0))

            assert same(expected) == same(fold(events))
            assert 1 < sum(isinstance(event, Text | ToolCallChunk) for event in events)


async def test_the_prompt_equals_the_chat_endpoints_and_hits_its_cache(
    client: Client, trained_server: LlamaServer
) -> None:
    async with Client(trained_server.url, constrain="off") as other:
        first = fold(await events_of(other, COMMANDS[1], temperature=0, id_slot=0))
        second = fold(await events_of(client, COMMANDS[1], temperature=0, id_slot=0))

    assert first.usage.input_tokens == second.usage.input_tokens
    assert second.usage.input_tokens - 1 <= second.usage.cached_tokens


async def test_the_stop_reason_is_reported(client: Client) -> None:
    cut = await client.complete(COMMANDS[1], [WEATHER], temperature=0, max_tokens=2)
    stopped = await client.complete(COMMANDS[1], [WEATHER], temperature=0, stop=["there"])
    broken = await client.complete(COMMANDS[0], [WEATHER], temperature=0, max_tokens=20)

    assert ("max_tokens", 2) == (cut.stop_reason, cut.usage.output_tokens)
    assert ("stop_sequence", "hello ") == (stopped.stop_reason, stopped.text)
    assert "max_tokens" == broken.stop_reason
    assert not [call for call in broken.tool_calls if call.error is None]


async def test_a_prefilled_answer_is_continued(client: Client) -> None:
    said: list[JSON] = [{"role": "user", "content": COMMANDS[1]}, {"role": "assistant", "content": "hello"}]
    reply = await client.complete(said, [WEATHER], temperature=0)

    assert " there" == reply.text


async def test_a_prompt_that_is_too_long_is_the_usual_error(client: Client) -> None:
    with pytest.raises(UpstreamError) as caught:
        await client.complete("word " * 3_000, [WEATHER])

    assert "context_length_exceeded" == caught.value.kind


async def test_text_is_the_same_as_without_a_grammar(rambling: tuple[str, LlamaServer]) -> None:
    """With the same seed. After a character that may begin a marker, the grammar admits no incomplete UTF-8 bytes."""
    _, server = rambling

    async def said(constrain: str, seed: int) -> str:
        fields = {"seed": seed, "max_tokens": 30, "logit_bias": [["<", 2.0]], "cache_prompt": False}
        async with Client(server.url, constrain=constrain, max_retries=0, rescue=False) as client:
            return (await client.complete("Go.", [WEATHER], temperature=1.0, **fields)).text

    # One request at a time and no cache: batches and cached prompts change how the engine rounds.
    free = [await said("off", seed) for seed in range(40)]
    lazy = [await said(LAZY, seed) for seed in range(40)]
    behind = 0
    for text, other in zip(free, lazy, strict=True):
        before, begins, rest = text.partition("<")

        assert before == other.partition("<")[0]
        if "\ufffd" not in rest:
            assert text == other
            behind += bool(begins)
    assert behind


async def test_every_call_is_valid_for_any_tokens_of_its_marker(
    rambling: tuple[str, LlamaServer],
) -> None:
    kind, server = rambling
    ways = marker_splits(VOCABULARIES[kind](), MARKER, 24)
    names = list(SCHEMAS)

    async def stumble(number: int, constrain: str, tokens: int) -> Reply:
        name = names[number]
        fields = {"temperature": 1.0, "seed": number, "max_tokens": tokens, "logit_bias": bias_to(ways[number])}
        async with Client(server.url, constrain=constrain, max_retries=0, rescue=False) as client:
            return await client.complete("Go.", [tool(name, SCHEMAS[name])], **fields)

    replies = await in_turns(lambda number: stumble(number, LAZY, 700), len(ways))
    unheld = await in_turns(lambda number: stumble(number, "off", 200), len(ways))
    called = [call for reply in replies for call in reply.tool_calls]
    good = [call for call in called if call.error is None]

    assert len(ways) == 24
    assert any(MARKER in reply.text for reply in unheld)
    for name, reply in zip(names, replies, strict=False):
        _, begun, rest = reply.text.partition(MARKER)  # a call that is truncated before its arguments is text

        assert not begun or f'\n{{"name": "{name}", "arguments": '.startswith(rest), reply
    assert {None, "truncated"} >= {call.error and call.error.kind for call in called}
    assert len(good) >= 5, Counter(reply.stop_reason for reply in replies)
    for call in good:
        arguments = json.loads(call.tool_call_arguments_complete)
        assert not call.coerced
        assert first_violation(SCHEMAS[call.tool_call_name], arguments) is None, call


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("type_", [TokenType.CONTROL, TokenType.USER_DEFINED])
async def test_a_marker_that_is_one_special_token_starts_a_valid_call(
    program: Path, tmp_path: Path, kind: str, type_: TokenType
) -> None:
    vocabulary = VOCABULARIES[kind]()
    vocabulary.tokens.append(Token(MARKER.encode(), type_))
    model = tmp_path / "special.gguf"
    write_random_model(model, vocabulary)
    bias = [[len(vocabulary.tokens) - 1, 4.0]]
    with running(program, model, tmp_path) as server:
        async with Client(server.url, constrain=LAZY, max_retries=0, rescue=False) as client:
            replies = [
                await client.complete("Go.", [WEATHER], temperature=1.0, seed=seed, max_tokens=400, logit_bias=bias)
                for seed in range(8)
            ]
    good = [call for reply in replies for call in reply.tool_calls if call.error is None]

    assert any(reply.text for reply in replies)
    assert len(good) >= 4
    for call in good:
        schema = WEATHER["function"]["parameters"]
        assert first_violation(schema, json.loads(call.tool_call_arguments_complete)) is None, call


@pytest.mark.parametrize("model", ["tiny", "qwq-32b"])
def test_the_server_accepts_the_lazy_grammar_of_every_dialect(trained_server: LlamaServer, model: str) -> None:
    """With no tokens to generate: the server refuses a grammar that it cannot parse before that."""
    request = Request(model=model, messages=())
    made = [constraint_for("gbnf", row, [ADD], request, eager=True, lazy=True) for row in DIALECTS.values()]
    waiting = [constraint for constraint in made if constraint is not None and constraint.lazy]
    with httpx.Client(base_url=trained_server.url, trust_env=False) as http:
        for constraint in waiting:
            body = {"prompt": "a", "n_predict": 1, **constraint.fields}
            answer = http.post("/completion", json=body, headers={"Connection": "close"})

            assert 200 == answer.status_code, (constraint.dialect.name, answer.text)
    assert len(waiting) > 30


@pytest.mark.parametrize("setting", ["", "<think>"])
async def test_calls_in_reasoning_that_the_template_opens_stay_reasoning(
    program: Path, tmp_path: Path, setting: str
) -> None:
    file = tmp_path / "template.jinja"
    file.write_text(templates.THINKING, encoding="utf-8")
    way = marker_splits(VOCABULARIES["sentencepiece"](), MARKER, 1)[0]
    fields = {"temperature": 1.0, "max_tokens": 300, "ignore_eos": True, "logit_bias": bias_to(way)}
    with random_model("sentencepiece", program, tmp_path, "--chat-template-file", str(file)) as server:
        async with Client(server.url, constrain=LAZY, open_reasoning_tag=setting, max_retries=0) as client:
            replies = [await client.complete("Go.", [WEATHER], seed=seed, **fields) for seed in range(4)]

    assert [("", (), "max_tokens")] * 4 == [(reply.text, reply.tool_calls, reply.stop_reason) for reply in replies]
    assert any(MARKER in reply.reasoning for reply in replies)
    assert not any("<think>" in reply.reasoning for reply in replies)


@pytest.fixture(scope="module")
def lazy_proxy(trained_server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with proxying(trained_server.url, tmp_path_factory.mktemp("proxy"), "--constrain", LAZY) as url:
        yield url


@pytest.mark.parametrize("stream", [False, True])
def test_the_lazy_grammar_works_through_the_proxy(lazy_proxy: str, proxy: str, stream: bool) -> None:
    for said in COMMANDS:
        body = {"messages": [{"role": "user", "content": said}], "tools": [WEATHER], "stream": stream}
        answers = [
            httpx.post(f"{url}/v1/chat/completions", json=body, trust_env=False).raise_for_status().text
            for url in (lazy_proxy, proxy)
        ]
        found, expected = (_said(answer, stream=stream) for answer in answers)

        assert expected == found


def _said(answer: str, *, stream: bool) -> JSON:
    """Return text, calls and finish reason of a response, without ids, times and usage."""
    chunks = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith("data: {")]
    parts = [(chunk["choices"][0].get("delta") or {}) for chunk in chunks] if stream else []
    if not stream:
        parts = [json.loads(answer)["choices"][0]["message"]]
    calls = [call["function"] for part in parts for call in part.get("tool_calls") or ()]
    choices = [chunk["choices"][0] for chunk in chunks] if stream else json.loads(answer)["choices"]
    return (
        "".join(part.get("content") or "" for part in parts),
        "".join(call.get("name") or "" for call in calls),
        "".join(call.get("arguments") or "" for call in calls),
        [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
    )


def test_the_lazy_grammar_works_for_clients_of_other_apis(lazy_proxy: str) -> None:
    schema = WEATHER["function"]
    asked = {"max_tokens": 200, "tools": [{"name": schema["name"], "input_schema": schema["parameters"]}]}
    bodies = [{**asked, "messages": [{"role": "user", "content": said}]} for said in COMMANDS]
    called, said = (
        httpx.post(f"{lazy_proxy}/v1/messages", json=body, trust_env=False).raise_for_status().json() for body in bodies
    )

    assert ["tool_use", "end_turn"] == [called["stop_reason"], said["stop_reason"]]
    assert {"city": "Paris", "days": 3} == called["content"][-1]["input"]
    assert "hello there" == said["content"][0]["text"]
