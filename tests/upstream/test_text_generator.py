"""A client of a function that generates text: everything works as with an endpoint."""

import asyncio
import json
import threading
from dataclasses import dataclass

import pytest

from fcshim import Client, SyncClient
from fcshim.agent import Agent, RoundEnded
from fcshim.demo.text_generator import EmbeddedGenerator
from fcshim.errors import ConfigError, ModelOutputError, UpstreamError
from fcshim.events import Reasoning, Stop, Text, ToolCallEnd, Usage
from fcshim.tools import CallFinished

CALL = '<function_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</function_call>'


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Scripted:
    """Gives one reply after the other, and records what it was called with."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.calls = []

    def __call__(self, messages, *, stop, grammar, max_tokens, temperature, seed):
        self.calls.append((messages, stop, grammar, max_tokens, temperature, seed))
        return self.replies.pop(0)


def in_pieces(text):
    yield from (text[at : at + 5] for at in range(0, len(text), 5))


async def async_pieces(text):
    for piece in in_pieces(text):
        await asyncio.sleep(0)
        yield piece


class OnlyIterates:
    """An async iterator without `aclose`."""

    def __init__(self, text):
        self._pieces = in_pieces(text)

    def __aiter__(self):
        return self

    async def __anext__(self):
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


async def later(text):
    await asyncio.sleep(0)
    return text


async def later_pieces(text):
    await asyncio.sleep(0)
    return async_pieces(text)


FORMS = [str, in_pieces, list, async_pieces, OnlyIterates, later, later_pieces, lambda text: iter([text])]


@pytest.mark.parametrize("form", FORMS)
async def test_the_reply_is_text_or_pieces_of_it(form):
    model = Scripted(form("Let me see. " + CALL), form("It is 3."))
    async with Client(generate=model) as client:
        result = await client.run("1 + 2?", [add])

    assert "It is 3." == result.text
    assert "3" in model.calls[1][0][-1]["content"]


@pytest.mark.parametrize("form", FORMS)
def test_the_synchronous_client_does_the_same(form):
    with SyncClient(generate=Scripted(form(CALL), form("It is 3."))) as client:
        assert "It is 3." == client.run("1 + 2?", [add]).text


async def test_async_functions_and_generators_are_called_in_the_event_loop():
    threads = []

    async def generate(messages, *, stop, grammar, max_tokens, temperature, seed):
        threads.append(threading.current_thread())
        for piece in ("Hel", "lo"):
            yield piece

    async with Client(generate=generate) as client:
        reply = await client.complete("Hi")

    assert ("Hello", [threading.main_thread()]) == (reply.text, threads)


async def test_a_slow_function_leaves_the_event_loop_free():
    """A task of the loop lets the function go on: if the loop waited for it, neither would end."""
    released = threading.Event()

    def generate(messages, **options):
        assert released.wait(60)
        yield "Hello"
        assert released.wait(60)

    async def release():
        released.set()

    async with Client(generate=generate) as client:
        reply, _ = await asyncio.gather(client.complete("Hi"), release())

    assert "Hello" == reply.text


async def test_options_become_arguments():
    model = Scripted("Hi", "Hi")
    async with Client(generate=model) as client:
        await client.complete("Hello", stop="END", max_tokens=7, temperature=0.5, seed=3)
        await client.complete([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}])
    first, second = model.calls

    assert ([{"role": "user", "content": "Hello"}], ["END"], None, 7, 0.5, 3) == first
    assert (["system", "user"], [], None, None, None, None) == ([each["role"] for each in second[0]], *second[1:])


async def test_events_say_more_than_text():
    model = Scripted([Reasoning("So"), "Hel", Text("lo"), Usage(input_tokens=3, output_tokens=2), Stop("max_tokens")])
    async with Client(generate=model) as client:
        reply = await client.complete("Hi")

    assert ("So", "Hello", "max_tokens") == (reply.reasoning, reply.text, reply.stop_reason)
    assert (3, 2) == (reply.usage.input_tokens, reply.usage.output_tokens)


async def test_a_missing_call_is_asked_for_again():
    model = Scripted("I will not.", CALL)
    async with Client(generate=model) as client:
        reply = await client.complete("1 + 2?", [add], tool_choice="required")
    correction = model.calls[1][0][-1]["content"]

    assert ["add"] == [call.tool_call_name for call in reply.tool_calls]
    assert ("user", True) == (model.calls[1][0][-1]["role"], "call" in correction)


async def test_an_invalid_call_is_asked_for_again():
    model = Scripted(CALL.replace('"b": 2', '"c": 2'), CALL, "It is 3.")
    async with Client(generate=model) as client:
        result = await client.run("1 + 2?", [add])

    assert "It is 3." == result.text
    assert 3 == len(model.calls)


async def test_a_call_that_stays_invalid_is_an_error():
    async with Client(generate=lambda messages, **options: "I will not.") as client:
        with pytest.raises(ModelOutputError) as caught:
            await client.run("1 + 2?", [add], tool_choice="required")
    assert "missing_call" == caught.value.kind


@dataclass
class Stay:
    city: str
    nights: int = 1


async def test_the_answer_has_a_type():
    answer = '<function_call>\n{"name": "final_answer", "arguments": {"city": "Oslo"}}\n</function_call>'
    async with Client(generate=Scripted(answer)) as client:
        result = await client.run("Where?", output_type=Stay)

    assert Stay("Oslo") == result.output


@pytest.mark.parametrize(
    ("kind", "holding"),
    [
        ("gbnf", "::="),
        ("llguidance", "%llguidance"),
        ("guidance", "start:"),
        ("regex", "(?:"),
        ("json_schema", "anyOf"),
    ],
)
async def test_a_required_call_has_a_grammar_of_the_named_kind(kind, holding):
    model = Scripted(CALL)
    async with Client(generate=model, constrain=kind) as client:
        await client.complete("1 + 2?", [add, _noop], tool_choice="required")

    assert holding in json.dumps(model.calls[0][2])


def _noop() -> None:
    """Do nothing."""


async def test_a_schema_asks_for_calls_without_tags():
    """The grammar and the prompt are of one dialect, and the reply is read in it."""
    model = Scripted('{"name": "add", "arguments": {"a": 1, "b": 2}}')
    async with Client(generate=model, constrain="json_schema", model="qwen3-8b") as client:
        reply = await client.complete("1 + 2?", [add], tool_choice="required")

    assert "<tool_call>" not in json.dumps(model.calls[0][0])
    assert ["add"] == [call.tool_call_name for call in reply.tool_calls]


@pytest.mark.parametrize(
    ("constrain", "expected"), [("off", None), ("auto", None), ("gbnf", str), ("json_schema", dict)]
)
async def test_a_response_format_becomes_a_grammar_if_the_function_takes_one(constrain, expected):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    model = Scripted('{"a": 1}')
    async with Client(generate=model, constrain=constrain) as client:
        await client.complete("One.", response_format=form)
    grammar = model.calls[0][2]

    assert grammar is None if expected is None else isinstance(grammar, expected)


async def test_a_grammar_of_the_caller_is_passed_on():
    model = Scripted("x")
    async with Client(generate=model) as client:
        await client.complete("x?", grammar='root ::= "x"')

    assert 'root ::= "x"' == model.calls[0][2]


async def test_the_models_name_chooses_the_dialect():
    model = Scripted('<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>', "It is 3.")
    async with Client(generate=model, model="qwen3-8b") as client:
        assert ["qwen3-8b"] == await client.models()
        assert "It is 3." == (await client.run("1 + 2?", [add])).text
    assert "<tool_call>" in model.calls[0][0][0]["content"]


async def test_an_agent_streams_its_events():
    async with Client(generate=Scripted(in_pieces(CALL), in_pieces("It is 3."))) as client:
        events = [each async for each in Agent(client.stream, [add]).run("1 + 2?")]

    (call,) = [each for each in events if isinstance(each, ToolCallEnd)]
    (finished,) = [each for each in events if isinstance(each, CallFinished)]
    assert {"a": 1, "b": 2} == call.arguments
    assert "3" == finished.message.content[0].text
    assert isinstance(events[-1], RoundEnded)
    assert "It is 3." == events[-1].answer


async def test_an_agent_asks_any_async_iterator():
    async def ask(messages, tools):
        for event in (Text("Hel"), Text("lo"), Stop("complete")):
            yield event

    class Iterates(OnlyIterates):
        def __init__(self, messages, tools):
            self._pieces = iter((Text("Hello"), Stop("complete")))

    assert "Hello" == (await Agent(ask, []).answer("Hi")).answer
    assert "Hello" == (await Agent(Iterates, []).answer("Hi")).answer


@pytest.mark.parametrize("is_async", [False, True])
async def test_leaving_a_stream_closes_the_iterator(is_async):
    closed = []

    def pieces():
        try:
            while True:
                yield "on and "
        finally:
            closed.append("closed")

    async def async_pieces():
        try:
            while True:
                await asyncio.sleep(0)
                yield "on and "
        finally:
            closed.append("closed")

    async with Client(generate=lambda messages, **options: async_pieces() if is_async else pieces()) as client:
        async with client.stream("Hi") as stream:
            assert Text("on and ") == await anext(stream)
        assert ["closed"] == closed


def test_leaving_a_stream_waits_for_the_piece_that_the_model_is_writing():
    """Another request may then use the model, which is one object in one process."""
    writing, closed = threading.Event(), []

    def generate(messages, **_):
        try:
            yield "one "
            writing.set()
            threading.Event().wait(0.2)  # the model is busy
            yield "two"
        finally:
            closed.append("closed")

    with SyncClient(generate=generate) as client:
        stream = client.stream("Hi")  # a stream that nothing holds may end before the model goes on
        next(stream)
        assert writing.wait(60)

    assert ["closed"] == closed


async def test_a_reply_that_ends_early_stops_the_model():
    """The model invents the tool's result; the shim ends the reply, and the iterator is closed."""
    taken = []

    def pieces():
        for piece in (CALL, "\n<function_result", '>{"sum": 3}</function_result>', *["and on"] * 100):
            taken.append(piece)
            yield piece

    async with Client(generate=lambda messages, **options: pieces()) as client:
        reply = await client.complete("1 + 2?", [add])

    assert ["add"] == [call.tool_call_name for call in reply.tool_calls]
    assert len(taken) < 6


class OwnError(Exception):
    """An error of the program."""


def raising(messages, **options):
    raise OwnError


def raising_later(messages, **options):
    yield "Hel"
    raise OwnError


async def raising_async(messages, **options):
    yield "Hel"
    raise OwnError


@pytest.mark.parametrize("generate", [raising, raising_later, raising_async])
async def test_an_error_of_the_function_reaches_the_caller(generate):
    async with Client(generate=generate) as client:
        with pytest.raises(OwnError):
            await client.complete("Hi")


async def test_an_upstream_error_of_the_function_is_one():
    def generate(messages, **options):
        raise UpstreamError("the model is not loaded")

    async with Client(generate=generate) as client:
        with pytest.raises(UpstreamError, match="not loaded"):
            await client.complete("Hi", [add])


@pytest.mark.parametrize("generated", [None, 5, [5], [None, "x"], b"x", {"a": 1}, [["x"]], object()])
async def test_what_is_no_text_is_a_type_error(generated):
    async with Client(generate=lambda messages, **options: generated) as client:
        if generated == {"a": 1}:  # iterates over its keys
            assert "a" == (await client.complete("Hi")).text
            return
        with pytest.raises(TypeError, match="generate: expected text"):
            await client.complete("Hi")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "url: expected a URL"),
        ({"url": "http://127.0.0.1:1", "generate": raising}, "generate: expected a url or a function"),
        ({"generate": "text"}, "generate: expected a function"),
        ({"generate": lambda messages: "x"}, "generate: expected a function generate"),
        ({"generate": lambda: "x"}, "generate: expected a function generate"),
        ({"generate": raising, "constrain": "llama-server"}, "constrain: expected off or one of gbnf"),
        ({"generate": raising, "tools": "native"}, "tools: a function"),
        ({"generate": raising, "dialect": None}, "tools: a function"),
        ({"generate": raising, "dialect": "nope"}, "unknown dialect"),
    ],
)
async def test_a_wrong_setting_is_a_clear_error(settings, message):
    with pytest.raises(ConfigError, match=message):
        Client(**settings)


async def test_replies_at_the_same_time_do_not_mix():
    def generate(messages, **options):
        yield from messages[-1]["content"]

    async with Client(generate=generate) as client:
        replies = await asyncio.gather(*[client.complete(f"number {at} " * 20) for at in range(20)])

    assert [f"number {at} " * 20 for at in range(20)] == [reply.text for reply in replies]


async def test_half_a_surrogate_pair_is_replaced():
    async with Client(generate=lambda messages, **options: "a\ud800b") as client:
        assert "a\ufffdb" == (await client.complete("Hi")).text


@dataclass
class Sum:
    first: int
    second: int


def add_numbers(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def test_a_real_model_runs_tools_and_gives_typed_answers():
    with SyncClient(generate=EmbeddedGenerator(), model="fcshim-tiny") as client:
        result = client.run("call add_numbers with first=19, second=23", [add_numbers])
        typed = client.run("call final_answer with first=19, second=23", output_type=Sum)

    assert "add_numbers returned 42" == result.text.strip()
    assert Sum(19, 23) == typed.output
