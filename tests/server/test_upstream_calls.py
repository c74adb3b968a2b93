"""Calls that the upstream has parsed itself, although it was sent no tools: every API gets what their text gives."""

import pytest

from fcshim.codecs.routes import CODECS
from fcshim.messages import Request, TextPart, ToolChoice, UserMessage
from tests.pipeline.test_upstream_calls import call_text, parsed, written
from tests.scripted import Script, model_list, scripted_upstream
from tests.server.proxy import running_proxy
from tests.server.test_api_pairs import TOOLS, ask

APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
STREAMS = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
GOOD = ("add", '{"a": 1}')
REPLIES = {
    "good": [GOOD],
    "not offered": [("subtract", '{"a": 1}')],
    "bad JSON": [("add", '{"a": }')],
    "text and call": ["Let me see. ", GOOD],
    "two calls": [GOOD, ("math.mul", '{"a": 2}')],
    "one of two calls has bad JSON": [GOOD, ("math.mul", '{"a": }')],
}
"""Text, and calls as name and arguments; `tests/pipeline/test_upstream_calls.py` has more."""


def request(**fields) -> Request:
    hello = UserMessage((TextPart("Hi"),))
    return Request(model="m", messages=(hello,), tools=TOOLS, max_tokens=50, **fields)


def summary(reply):
    """Return all but the calls with an error, of which a client gets more or less as the bytes are split."""
    calls = [(each.tool_call_name, each.tool_call_arguments_complete) for each in reply.tool_calls if not each.error]
    return reply.text, calls, reply.stop_reason, reply.error


async def replies_to(codec, *scripts, stream, asked=None):
    """Return the replies in the client's API, one for each script."""
    async with (
        scripted_upstream(*scripts, listing=model_list("m")) as upstream,
        running_proxy(upstream.url, tools="prompt", max_retries=0) as url,
    ):
        return [summary(await ask(url, codec, asked or request(), stream=stream)) for _ in scripts]


@APIS
@STREAMS
@pytest.mark.parametrize("size", [100, 3], ids=["at once", "split"])
@pytest.mark.parametrize("parts", REPLIES.values(), ids=REPLIES)
async def test_a_parsed_call_gives_what_its_text_gives(codec, stream, size, parts):
    # One write each: what a client gets of a call that fails depends on how the upstream's bytes arrive.
    scripts = [Script((b"".join(script.pieces),)) for script in (written(parts, size), parsed(parts, size))]
    text, call = await replies_to(codec, *scripts, stream=stream)

    assert text == call


@APIS
@STREAMS
async def test_a_parsed_call_of_a_tool_that_is_not_offered_is_named_in_a_sentence(codec, stream):
    ((text, calls, reason, _),) = await replies_to(codec, parsed([("subtract", "{}")]), stream=stream)

    assert ("The model called the tool 'subtract', which is not offered.", [], "complete") == (text, calls, reason)


@APIS
@STREAMS
async def test_one_parsed_call_where_parallel_calls_are_not_allowed(codec, stream):
    parts, asked = REPLIES["two calls"], request(parallel_tool_calls=False)
    text, call = await replies_to(codec, written(parts), parsed(parts), stream=stream, asked=asked)

    assert text == call


@pytest.mark.parametrize("codec", [codec for name, codec in CODECS.items() if name != "ollama"])  # has no tool_choice
@STREAMS
@pytest.mark.parametrize("choice", [ToolChoice("none"), ToolChoice("required", ("math.mul",))], ids=["none", "other"])
async def test_a_parsed_call_that_tool_choice_forbids(codec, stream, choice):
    ((text, calls, _, _),) = await replies_to(codec, parsed([GOOD]), stream=stream, asked=request(tool_choice=choice))

    named = call_text(*GOOD) if choice.mode == "none" else "The model called the tool 'add', which is not offered."
    assert (named, []) == (text, calls)


@APIS
@STREAMS
async def test_a_truncated_parsed_call_is_never_a_finished_one(codec, stream):
    script = parsed(["Ok. ", ("add", '{"a": ')], reason="length")
    ((_, calls, reason, error),) = await replies_to(codec, script, stream=stream)

    assert all("_truncated" in arguments for _, arguments in calls)  # Anthropic's block closes, with void arguments
    assert reason == "max_tokens" or error is not None
