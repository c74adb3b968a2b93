"""Tool calling for a model in this process."""

import json
import random
import re
import subprocess
import sys

import pytest

import fcshim
from fcshim.demo.text_generator import EmbeddedGenerator
from fcshim.errors import ConfigError, FcshimError, RequestError
from fcshim.events import Reasoning, Stop, ToolCallEnd, Usage
from fcshim.messages import Tool
from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.render import render_call
from fcshim.reply import fold

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": CITY}}
TOOLS = [WEATHER]


def calls_of(events):
    return [(each.tool_call_name, each.arguments) for each in events if isinstance(each, ToolCallEnd)]


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_asks_for_its_calls_and_reads_them(name):
    dialect = DIALECTS[name]
    prepared = fcshim.prepare("Paris?", TOOLS, dialect=name)
    written = render_call(dialect, "get_weather", '{"city": "Paris"}')
    pieces = [written[at : at + 3] for at in range(0, len(written), 3)]

    assert name == prepared.dialect
    assert "get_weather" in prepared.messages[0]["content"]
    assert [("get_weather", {"city": "Paris"})] == calls_of(prepared.events(pieces))


def test_the_models_name_chooses_the_dialect_and_the_profile():
    prepared = fcshim.prepare("Hi", TOOLS, model="gemma-2-9b-it")

    assert "bare_json" == prepared.dialect
    assert ["user"] == [each["role"] for each in prepared.messages]  # its template has no system role


def test_past_calls_and_results_are_text():
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    conversation = [
        {"role": "user", "content": "Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny <tool_call>"},
    ]
    prepared = fcshim.prepare(conversation, TOOLS, model="qwen3-8b")

    assert ["system", "user", "assistant", "user"] == [each["role"] for each in prepared.messages]
    assert all(each.keys() == {"role", "content"} and isinstance(each["content"], str) for each in prepared.messages)
    assert '"city": "Paris"' in prepared.messages[2]["content"]
    assert "<tool_call>" not in prepared.messages[3]["content"]  # escaped, so that an echo is not a call
    echo = prepared.messages[3]["content"].partition("sunny ")[2].split("\n")[0]
    assert "<tool_call>" in fold(prepared.events([echo])).text


def test_calls_in_other_dialects_are_read_unless_rescue_is_off():
    other = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'

    assert calls_of(fcshim.prepare("Paris?", TOOLS, dialect="mistral").events([other]))
    assert not calls_of(fcshim.prepare("Paris?", TOOLS, dialect="mistral", rescue=False).events([other]))


def test_each_reply_has_a_stream_of_its_own():
    prepared = fcshim.prepare("Paris?", TOOLS, dialect="hermes")
    text = render_call(DIALECTS["hermes"], "get_weather", '{"city": "Paris"}')
    streams = [prepared.stream() for _ in range(3)]
    seen = [[] for _ in streams]
    for character in text:
        for events, stream in zip(seen, streams, strict=True):
            events.extend(stream.feed(character))
    for events, stream in zip(seen, streams, strict=True):
        events.extend(stream.close())

    assert [[("get_weather", {"city": "Paris"})]] * 3 == list(map(calls_of, seen))
    assert len({event.tool_call_id for events in seen for event in events if isinstance(event, ToolCallEnd)}) == 3


def test_stop_sequences_go_to_the_model_without_tools_and_to_the_stream_with_them():
    assert ["END"] == fcshim.prepare("Hi", stop="END").stop
    prepared = fcshim.prepare("Hi", TOOLS, stop=["END"])
    taken = []

    def pieces():
        for piece in ("Well. EN", "D and more", "never"):
            taken.append(piece)
            yield piece

    events = list(prepared.events(pieces()))

    assert [] == prepared.stop
    assert "Well. " == fold(events).text
    assert Stop("stop_sequence") == events[-1]
    assert ["Well. EN", "D and more"] == taken


def test_what_comes_after_the_end_is_ignored():
    stream = fcshim.prepare("Hi", TOOLS, stop="END").stream()
    stream.feed("a END b")

    assert stream.finished
    assert [] == stream.feed("c") == stream.close()


def test_a_call_that_the_token_limit_cuts_off_is_truncated():
    stream = fcshim.prepare("Paris?", TOOLS, dialect="hermes").stream()
    stream.feed('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa')
    *_, end, stop = stream.close("max_tokens")

    assert ("truncated", "max_tokens") == (end.error.kind, stop.stop_reason)


def test_pieces_may_be_events_that_say_more_than_text():
    cut = '<function_call>\n{"name": "get_weather", "arguments": {"city": "Par'
    pieces = [Reasoning("Hm."), cut, Usage(3, 9), Stop("max_tokens"), "is"]
    reply = fold(fcshim.prepare("Paris?", TOOLS).events(pieces))

    assert ("Hm.", Usage(3, 9), "max_tokens") == (reply.reasoning, reply.usage, reply.stop_reason)
    assert ["truncated"] == [call.error.kind for call in reply.tool_calls]


def test_arguments_are_checked_against_the_schema_if_they_are_validated():
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"town": "Paris"}}\n</tool_call>'
    ends = [
        event
        for mode in ("stream", "validated")
        for event in fcshim.prepare("Paris?", TOOLS, dialect="hermes", arguments=mode).events([text])
        if isinstance(event, ToolCallEnd)
    ]

    assert [None, "invalid"] == [end.error and end.error.kind for end in ends]


@pytest.mark.parametrize("kind", ["gbnf", "llguidance", "guidance", "structural_tag", "json_schema", "regex"])
def test_a_required_call_has_a_grammar_of_each_kind(kind):
    prepared = fcshim.prepare("Paris?", TOOLS, dialect="bare_json", tool_choice="required")

    assert "get_weather" in json.dumps(prepared.grammar(kind))


def test_a_kind_that_describes_other_calls_than_the_prompt_is_none():
    assert fcshim.prepare("Paris?", TOOLS, dialect="hermes", tool_choice="required").grammar("json_schema") is None


def test_nothing_to_constrain_is_none():
    assert fcshim.prepare("Hi").grammar("gbnf") is None
    assert fcshim.prepare("Hi", TOOLS, tool_choice="none").grammar("gbnf") is None


def test_a_document_has_a_grammar():
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY}}

    assert "city" in fcshim.prepare("Hi", response_format=form).grammar("gbnf")


def test_the_regex_admits_text_with_valid_calls_only():
    regex = re.compile(fcshim.prepare("Paris?", TOOLS, dialect="hermes").grammar("regex"))
    good = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'

    assert regex.fullmatch("Hello, world.")
    assert regex.fullmatch("Let me look. " + good)
    assert not regex.fullmatch(good.replace("city", "town"))


def test_llguidance_samples_a_call_that_the_stream_reads():
    """A sampler that chooses at random among the allowed bytes ends with a valid call."""
    llguidance = pytest.importorskip("llguidance", reason="make test installs it")
    numbers = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
    }
    prepared = fcshim.prepare("Go", [Tool("f", "", numbers)], dialect="hermes", tool_choice="required")
    tokenizer = llguidance.LLTokenizer("byte")
    matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_lark(prepared.grammar("llguidance")))
    assert not matcher.is_error(), matcher.get_error()
    chance, written = random.Random(1), bytearray()
    while not matcher.is_stopped() and len(written) < 2_000:
        mask = matcher.compute_bitmask()
        allowed = [byte for byte in range(256) if mask[byte // 8] >> byte % 8 & 1]
        if not allowed:
            break
        written.append(chance.choice(allowed))
        assert matcher.consume_token(written[-1])
    ((name, arguments),) = calls_of(prepared.events([written.decode()]))

    assert "f" == name
    assert {"a", "b"} == arguments.keys()


P = fcshim.prepare


@pytest.mark.parametrize(
    ("attempt", "named"),
    [
        (lambda: P(None), "messages"),
        (lambda: P([]), "messages"),
        (lambda: P([5]), r"messages\[0\]"),
        (lambda: P([{"role": "x"}]), r"messages\[0\].role"),
        (lambda: P([{"role": "user", "content": object()}]), "messages"),
        (lambda: P("a", 5), "tools"),
        (lambda: P("a", "f"), "tools"),
        (lambda: P("a", WEATHER), "tools"),
        (lambda: P("a", [print]), r"tools\[0\]"),
        (lambda: P("a", [{"name": "f", "parameters": object()}]), r"tools\[0\]"),
        (lambda: P("a", TOOLS * 2), r"tools\[1\]"),
        (lambda: P("a", TOOLS, tool_choice="x"), "tool_choice"),
        (lambda: P("a", TOOLS, tool_choice={"function": {"name": "g"}}), "tool_choice"),
        (lambda: P("a", tool_choice="required"), "tool_choice"),
        (lambda: P("a", parallel_tool_calls="x"), "parallel_tool_calls"),
        (lambda: P("a", response_format=5), "response_format"),
        (lambda: P("a", stop=5), "stop"),
        (lambda: P("a", max_tokens="x"), "max_tokens"),
        (lambda: P("a", model=5), "model"),
        (lambda: P("a", dialect=5), "dialect"),
        (lambda: P("a", dialect="nope"), "dialect"),
        (lambda: P("a", profile="nope"), "profile"),
        (lambda: P("a", prompt_style="nope"), "style"),
        (lambda: P("a", reasoning="x"), "reasoning"),
        (lambda: P("a", open_reasoning_tag="x"), "reasoning tag"),
        (lambda: P("a", rescue="x"), "rescue"),
        (lambda: P("a", arguments="x"), "arguments"),
        (lambda: P("a").grammar("x"), "kind"),
        (lambda: P("a").stream().close("x"), "stop_reason"),
    ],
)
def test_an_error_says_which_argument_was_wrong(attempt, named):
    with pytest.raises(FcshimError, match=named) as caught:
        attempt()
    assert isinstance(caught.value, RequestError | ConfigError)


def test_a_text_that_is_none_is_a_type_error():
    with pytest.raises(TypeError, match="text: expected a string, got bytes"):
        P("a").stream().feed(b"x")


def test_a_real_model_takes_two_rounds_of_tools():
    generate = EmbeddedGenerator()
    conversation = [{"role": "user", "content": "call get_weather with city=Paris"}]
    prepared = fcshim.prepare(conversation, TOOLS, model="fcshim-tiny")
    message = fcshim.openai.message(prepared.events(generate(prepared.messages, stop=prepared.stop)))
    call = message["tool_calls"][0]
    conversation += [message, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]
    prepared = fcshim.prepare(conversation, TOOLS, model="fcshim-tiny")
    answer = fold(prepared.events(generate(prepared.messages, stop=prepared.stop)))

    assert {"name": "get_weather", "arguments": '{"city": "Paris"}'} == call["function"]
    assert ("get_weather returned sunny", ()) == (answer.text.strip(), answer.tool_calls)


def test_the_core_packages_are_enough():
    """No package of an extra, no event loop and no socket is imported."""
    program = (
        "import sys, fcshim; p = fcshim.prepare('Hi', [{'name': 'f'}]); p.grammar('gbnf');"
        "fcshim.openai.message(p.events(['Hi'])); list(fcshim.openai.deltas(p.events(['Hi'])));"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()

    assert set() == {"aiohttp", "anyio", "asyncio", "httpx", "ssl", "yarl", "docstring_parser"} & set(loaded)
