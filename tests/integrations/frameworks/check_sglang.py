"""SGLang's parser of calls with the detectors of fcshim, as its server for the Chat API uses it; no engine runs."""

import itertools
import json

import pytest
from sglang.srt.entrypoints.openai.protocol import Tool, ToolChoice
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.plugins import load_plugins
from sglang.srt.server_args import _tool_call_parser_choices

from fcshim.errors import ConfigError
from fcshim.integrations import sglang as plugin
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.machine.known_markers import reasoning_end_tag
from tests.integrations.frameworks.engine_fixtures import (
    CALL,
    EXPECTED,
    OTHER,
    WEATHER,
    check_fixtures,
    count_lines,
    differing,
    grammar_matcher,
    loads,
    open_tag,
    tokenizer,
    tokenizer_of,
)

load_plugins()
OTHERWISE = {
    # SGLang does not tell parsers that the token limit ended a reply, so a call without its end marker is complete.
    "glm/glm47-truncated-before-close-call",
    "llama/l4-truncated-missing-close-bracket",
    "gpt-oss/harmony-truncated-in-header",  # an unfinished header stays text
    "kimi/k3-bug-response-only-completion",  # all of it is reasoning for the reasoning parser
}


def parser_of(tools, tokenizer, name="fcshim", choice="auto"):
    return FunctionCallParser([Tool(**tool) for tool in tools], name, tokenizer=tokenizer, tool_choice=choice)


def read_whole(text, tools, tokenizer, name="fcshim", choice="auto"):
    """Read a reply as `_process_tool_calls` does."""
    parser, found = parser_of(tools, tokenizer, name, choice), []
    if parser.has_tool_call(text):
        text, found = parser.parse_non_stream(text)
    return [{"name": call.name, "arguments": json.loads(call.parameters)} for call in found], text


def steps(pieces, tools, tokenizer, name="fcshim", choice="auto"):
    """Yield text and calls of a stream, as `_process_tool_call_stream` does."""
    parser = parser_of(tools, tokenizer, name, choice)
    for piece in pieces:
        yield parser.parse_stream_chunk(piece)
    yield parser.parse_stream_end()


def read_stream(pieces, tools, tokenizer, name="fcshim", choice="auto"):
    """Return what a client makes of a stream: a call whose arguments are a JSON object runs."""
    content, calls = [], {}
    for text, found in steps(pieces, tools, tokenizer, name, choice):
        content.append(text)
        for call in found:
            names, arguments = calls.setdefault(call.tool_index, ([], []))
            names.append(call.name or "")
            arguments.append(call.parameters)
    found = [("".join(names), loads("".join(arguments))) for names, arguments in calls.values()]
    return [{"name": name, "arguments": value} for name, value in found if isinstance(value, dict)], "".join(content)


def read_fixture(fixture, pieces):
    """Read a fixture; the server's reasoning parser, which comes first, gives the text after reasoning."""
    made, tag, text = tokenizer_of(fixture), open_tag(fixture), fixture["raw_output"]
    thought, _, rest = text.partition(reasoning_end_tag(tag)) if tag else ("", "", text)
    calls, content = read_whole(rest, fixture["tools"], made)
    if pieces is not None:
        skipped = len(text) - len(rest)
        ends = itertools.accumulate(map(len, pieces))
        parts = [piece[-(end - skipped) :] for piece, end in zip(pieces, ends, strict=True) if end > skipped]
        calls, content = read_stream(parts, fixture["tools"], made)
    return calls, f"{thought}</think>{content}" if tag else content


def both(text, tools, made=None, **options):
    """Read a reply whole and by character; both give the same."""
    whole = read_whole(text, tools, made or tokenizer(), **options)
    calls, content = read_stream(text, tools, made or tokenizer(), **options)

    assert (whole[0], whole[1].strip()) == (calls, content.strip())
    return whole


def test_the_parsers_are_choices_of_the_command_line():
    assert {"fcshim", *(f"fcshim_{name}" for name in DIALECTS)} <= set(_tool_call_parser_choices())


def test_at_most_thirteen_fixtures_are_read_otherwise():
    """Its authors publish 197 for SGLang's own parsers."""
    check_fixtures(read_fixture, OTHERWISE)


def test_the_calls_of_a_fixture_do_not_depend_on_the_split():
    assert [] == list(differing(read_fixture))


def test_a_model_with_another_template_has_its_dialect():
    call = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'

    assert ([EXPECTED], "") == both(call, [WEATHER], tokenizer("mistralai/Devstral", "{{ 'x' }}"))
    assert ([EXPECTED], "") == both(call, [WEATHER])  # and is read all the same


def test_text_without_a_call_stays():
    assert ([], "Hello, Alice.") == both("Hello, Alice.", [WEATHER])
    assert ([], "if a < b: [see] {x}") == both("if a < b: [see] {x}", [WEATHER])


NAMED = ToolChoice(function={"name": "get_weather"})


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_demanded_call_is_constrained_in_the_dialect(choice):
    parser = parser_of([OTHER, WEATHER], tokenizer(), choice=choice)
    kind, tag = parser.get_structure_constraint(choice)
    matches = grammar_matcher(tag)

    assert "structural_tag" == kind
    assert parser.owns_tool_format()
    assert matches(CALL)
    assert not matches("I will not.")
    assert not matches(CALL.replace('"Paris"', "5"))
    assert (choice == "required") == matches(CALL.replace("get_weather", "other").replace('"city": "Paris"', ""))
    assert ([EXPECTED], "") == both(CALL, [OTHER, WEATHER], choice=choice)


@pytest.mark.parametrize("name", DIALECTS)
def test_each_dialect_has_a_tag_that_xgrammar_takes(name):
    kind, tag = parser_of([WEATHER], tokenizer(), f"fcshim_{name}").get_structure_constraint("required")

    assert "structural_tag" == kind
    assert not grammar_matcher(tag)("I will not.")


def test_strict_tools_are_constrained_among_text():
    strict = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
    kind, tag = parser_of([strict], tokenizer()).get_structure_constraint("auto")
    matches = grammar_matcher(tag)

    assert "structural_tag" == kind
    assert matches("Hello.")
    assert matches(f"Hello.\n{CALL}")
    assert not matches(CALL.replace('"Paris"', "5"))


def test_a_call_that_is_not_demanded_is_not_constrained():
    assert parser_of([WEATHER], tokenizer()).get_structure_constraint("auto") is None


def test_a_named_tool_is_the_only_one():
    call = CALL.replace("get_weather", "other").replace('"city": "Paris"', "")

    assert [] == both(call, [OTHER, WEATHER], choice=NAMED)[0]


def test_each_reply_has_a_parser_of_its_own():
    """Two streams, in turns."""
    parsers = [parser_of([WEATHER], tokenizer()) for _ in range(2)]
    arguments = ["", ""]
    for char in CALL:
        for at, parser in enumerate(parsers):
            arguments[at] += "".join(call.parameters for call in parser.parse_stream_chunk(char)[1])

    assert ['{"city": "Paris"}'] * 2 == arguments


def test_arguments_stream_while_they_are_written():
    assert len([calls for _, calls in steps(CALL, [WEATHER], tokenizer()) if calls]) > 4


def test_a_call_that_is_cut_off_never_has_complete_arguments():
    cut = CALL[: CALL.index('"}}')]

    assert [] == read_whole(cut, [WEATHER], tokenizer())[0]
    assert [] == read_stream(cut, [WEATHER], tokenizer())[0]


def test_a_whole_call_in_one_delta_stands_in_it_once():
    ((_, calls), *_) = steps([CALL + "\n" + CALL], [WEATHER], tokenizer())

    assert [0, 1] == [call.tool_index for call in calls]


def test_a_call_in_reasoning_is_none():
    thought = f"<think>I could write\n{CALL}\n</think>Hello."

    assert ([], thought) == both(thought, [WEATHER])


def test_the_time_of_a_delta_does_not_grow():
    """Work is counted in lines of Python, over the whole stack, up to 100 KB of arguments."""
    text = CALL.replace("Paris", "x" * 100_000)
    parser = parser_of([WEATHER], tokenizer())
    counts = [count_lines(lambda at=at: parser.parse_stream_chunk(text[at : at + 4])) for at in range(0, len(text), 4)]
    middle = len(counts) // 2

    assert sum(counts[middle : middle + 5_000]) <= 1.1 * sum(counts[100:5_100])


def test_an_sglang_that_has_changed_is_named(monkeypatch):
    monkeypatch.setitem(plugin._PARAMETERS, FunctionCallParser.parse_stream_end, "self reason")
    with pytest.raises(ConfigError, match=r"SGLang \d+\.\d+\.\d+\S* has changed: .*parse_stream_end takes \(self\)"):
        plugin.register()
