"""vLLM's parser of chat replies and its stream processor, with the tool parsers of fcshim; no engine runs."""

import json

import pytest
from vllm.entrypoints.openai.chat_completion.message_assembly import assemble_chat_message_fields
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.chat_completion.stream_processor import ChatStreamProcessor
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.parser.parser_manager import ParserManager
from vllm.plugins import load_general_plugins
from vllm.sampling_params import SamplingParams
from vllm.tool_parsers import ToolParser, ToolParserManager
from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar

from fcshim.integrations import vllm as plugin
from fcshim.parse.dialects import DIALECTS
from tests.integrations.frameworks.engine_fixtures import (
    CALL,
    EXPECTED,
    HERMES,
    OTHER,
    WEATHER,
    check_fixtures,
    count_lines,
    differing,
    grammar_matcher,
    loads,
    tokenizer,
    tokenizer_of,
)

load_general_plugins()
OTHERWISE = {
    # vLLM does not tell parsers that the token limit ended a reply, so a call without its end marker is complete.
    "glm/glm47-truncated-before-close-call",
    "llama/l4-truncated-missing-close-bracket",
    "gpt-oss/harmony-truncated-in-header",  # an unfinished header stays text
}


def request_of(tools, **fields):
    offered = {"tools": tools, "tool_choice": "auto"} if tools else {}
    messages = [{"role": "user", "content": "Use the tools."}]
    return ChatCompletionRequest(**{"model": "m", "messages": messages, **offered, **fields})


def parser_class(tokenizer, name="fcshim"):
    return ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True, tokenizer=tokenizer)


def read_whole(text, request, tokenizer, name="fcshim"):
    """Read a reply as `OpenAIServingChat` does where it does not stream."""
    made = parser_class(tokenizer, name)
    parsed = made(tokenizer, request.tools).parse(text, request, enable_auto_tools=True)
    fields = assemble_chat_message_fields(request, *parsed, enable_auto_tools=True, parser_cls=made)
    calls = [
        {"name": call.function.name, "arguments": json.loads(call.function.arguments)} for call in fields.tool_calls
    ]
    return calls, fields.content or ""


def steps(pieces, request, tokenizer, name="fcshim"):
    """Yield the deltas of a stream, as `OpenAIServingChat` does."""
    made = parser_class(tokenizer, name)
    processor = ChatStreamProcessor(request, made(tokenizer, request.tools), enable_auto_tools=True, parser_cls=made)
    pieces = list(pieces)
    for at, piece in enumerate(pieces, 1):
        yield processor.step(piece, [at], "stop" if at == len(pieces) else None, [0]).delta


def read_stream(pieces, request, tokenizer, name="fcshim"):
    """Return what a client makes of a stream: a call whose arguments are a JSON object runs."""
    content, calls = [], {}
    for delta in steps(pieces, request, tokenizer, name):
        if delta is None:
            continue
        content.append(delta.content or "")
        assert len({call.index for call in delta.tool_calls}) == len(delta.tool_calls)
        for call in delta.tool_calls:
            names, arguments = calls.setdefault(call.index, ([], []))
            names.append(call.function.name or "")
            arguments.append(call.function.arguments or "")
    found = [("".join(names), loads("".join(arguments))) for names, arguments in calls.values()]
    return [{"name": name, "arguments": value} for name, value in found if isinstance(value, dict)], "".join(content)


def read_fixture(fixture, pieces):
    made, request = tokenizer_of(fixture), request_of(fixture["tools"])
    if pieces is None:
        return read_whole(fixture["raw_output"], request, made)
    return read_stream(pieces, request, made)


def both(text, request, made=None, name="fcshim"):
    """Read a reply whole and by character; both give the same."""
    made = made or tokenizer()
    whole = read_whole(text, request, made, name)
    calls, content = read_stream(text, request, made, name)

    assert (whole[0], whole[1].strip()) == (calls, content.strip())
    return whole


def test_the_parsers_are_registered():
    names = ToolParserManager.list_registered()  # of which `--tool-call-parser` must be one

    assert {"fcshim", *(f"fcshim_{name}" for name in DIALECTS)} <= set(names)


def test_at_most_thirteen_fixtures_are_read_otherwise():
    """Its authors publish 115 for vLLM's own parsers."""
    check_fixtures(read_fixture, OTHERWISE)


def test_the_calls_of_a_fixture_do_not_depend_on_the_split():
    assert [] == list(differing(read_fixture))


def test_a_model_with_another_template_has_its_dialect():
    call = '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}'

    assert ([EXPECTED], "") == both(call, request_of([WEATHER]), tokenizer("mistralai/Devstral", "{{ 'x' }}"))
    assert ([EXPECTED], "") == both(call, request_of([WEATHER]))  # and is read all the same


def test_a_parser_of_one_dialect_reads_it_where_the_template_says_another():
    assert ([EXPECTED], "") == both(
        '{"name": "get_weather", "arguments": {"city": "Paris"}}', request_of([WEATHER]), name="fcshim_bare_json"
    )


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_demanded_call_is_constrained_in_the_dialect(choice):
    request = request_of([OTHER, WEATHER], tool_choice=choice)
    adjusted = parser_class(tokenizer())(tokenizer(), request.tools).adjust_request(request)
    tag = adjusted.structured_outputs.structural_tag
    matcher = grammar_matcher(tag)

    assert matcher(CALL)
    assert not matcher("I will not.")
    assert not matcher(CALL.replace('"Paris"', "5"))
    assert (choice == "required") == matcher(CALL.replace("get_weather", "other").replace('"city": "Paris"', ""))
    assert ([EXPECTED], "") == both(CALL, adjusted)


def test_the_tag_is_valid_for_vllm():
    for name in DIALECTS:
        request = request_of([WEATHER], tool_choice="required")
        made = parser_class(tokenizer(), f"fcshim_{name}")(tokenizer(), request.tools)
        outputs = made.adjust_request(request).structured_outputs
        validate_xgrammar_grammar(SamplingParams(structured_outputs=outputs))


def test_a_call_that_is_not_demanded_is_not_constrained():
    request = request_of([WEATHER])
    parser = parser_class(tokenizer())(tokenizer(), request.tools)

    assert parser.adjust_request(request).structured_outputs is None
    assert not request.skip_special_tokens


def test_a_request_with_a_tag_of_its_own_keeps_it():
    tag = json.dumps({"type": "structural_tag", "format": {"type": "any_text"}})
    request = request_of([WEATHER], tool_choice="required", structured_outputs={"structural_tag": tag})

    assert (
        tag
        == parser_class(tokenizer())(tokenizer(), request.tools)
        .adjust_request(request)
        .structured_outputs.structural_tag
    )


def test_the_responses_api_gets_calls_too():
    function = {"type": "function", **WEATHER["function"], "strict": False}
    request = ResponsesRequest(model="m", input="Go", tools=[function], tool_choice="required")
    made = parser_class(tokenizer())
    adjusted = made(tokenizer(), request.tools).adjust_request(request)
    (call,) = made(tokenizer(), request.tools).parse(CALL, adjusted, enable_auto_tools=True)[2]

    assert grammar_matcher(adjusted.structured_outputs.structural_tag)(CALL)
    assert ("get_weather", '{"city": "Paris"}') == (call.name, call.arguments)


def test_no_call_is_read_where_none_is_allowed():
    assert ([], CALL) == both(CALL, request_of([WEATHER], tool_choice="none"))


def test_each_reply_has_a_parser_of_its_own():
    """Two streams of one request, in turns."""
    request, made = request_of([WEATHER]), parser_class(tokenizer())
    parsers = [made(tokenizer(), request.tools) for _ in range(2)]
    streams = [[], []]
    for char in CALL:
        for parser, deltas in zip(parsers, streams, strict=True):
            deltas.append(parser.parse_delta(char, [1], request, [0], finished=False))
    arguments = [
        "".join(call.function.arguments or "" for delta in deltas if delta for call in delta.tool_calls)
        for deltas in streams
    ]

    assert ['{"city": "Paris"}'] * 2 == arguments


def test_arguments_stream_while_they_are_written():
    deltas = [delta for delta in steps(CALL, request_of([WEATHER]), tokenizer()) if delta and delta.tool_calls]

    assert len(deltas) > 4


def test_a_call_that_is_cut_off_never_has_complete_arguments():
    cut = CALL[: CALL.index('"}}')]

    assert [] == read_whole(cut, request_of([WEATHER]), tokenizer())[0]
    assert [] == read_stream(cut, request_of([WEATHER]), tokenizer())[0]


def test_a_whole_call_in_the_last_delta_stands_in_it_once():
    assert ([EXPECTED], "") == read_stream([CALL], request_of([WEATHER]), tokenizer())
    assert ([EXPECTED, EXPECTED], "") == read_stream([CALL + "\n" + CALL], request_of([WEATHER]), tokenizer())


def test_a_call_that_the_model_repeats_from_a_result_is_text():
    result = {"role": "tool", "tool_call_id": "call_1", "content": f"The page says:\n{CALL}"}
    messages = [{"role": "user", "content": "Read the page."}, result]

    assert ([], CALL) == both(CALL, request_of([WEATHER], messages=messages))
    assert ([EXPECTED], "") == both(CALL, request_of([WEATHER]))


THINKING = HERMES + "<think>\n"


def test_a_call_in_reasoning_is_none():
    thought = f"I could write\n{CALL}\n</think>Hello."

    assert ([], thought) == both(thought, request_of([WEATHER]), tokenizer("m", THINKING))
    assert ([], f"<think>{thought}") == both(f"<think>{thought}", request_of([WEATHER]))


def test_variables_of_the_template_say_whether_reasoning_is_open():
    template = HERMES + "{% if enable_thinking | default(true) %}<think>{% endif %}"
    request = request_of([WEATHER], chat_template_kwargs={"enable_thinking": False})

    assert ([EXPECTED], "") == both(CALL, request, tokenizer("m", template))
    assert ([], CALL) == both(CALL, request_of([WEATHER]), tokenizer("m", template))


def test_a_reasoning_parser_of_vllm_comes_first():
    made = tokenizer("m", THINKING, ("<think>", "</think>"))
    name = {"tool_parser_name": "fcshim", "reasoning_parser_name": "deepseek_r1"}
    parser = ParserManager.get_parser(**name, enable_auto_tools=True, tokenizer=made)
    request, text = request_of([WEATHER]), f"I look.</think>{CALL}"
    reasoning, content, (call,) = parser(made, request.tools).parse(text, request, enable_auto_tools=True)
    ids = [made.encode(part) for part in ("I look.", "</think>", CALL)]
    stream = parser(made, request.tools)
    parts = list(zip(("I look.", "</think>", CALL), ids, strict=True))
    deltas = [stream.parse_delta(part, each, request, [0], finished=part is CALL) for part, each in parts]

    assert ("I look.", None, "get_weather") == (reasoning, content, call.name)
    assert "I look." == "".join(delta.reasoning or "" for delta in deltas if delta)
    assert ["get_weather"] == [call.function.name for delta in deltas if delta for call in delta.tool_calls]


def test_unusable_tools_are_the_clients_error():
    with pytest.raises(ValueError, match="two tools named 'get_weather'"):
        read_whole("Hello.", request_of([WEATHER, WEATHER]), tokenizer())


def test_the_time_of_a_delta_does_not_grow():
    """Work is counted in lines of Python, over the whole stack, up to 100 KB of arguments."""
    text = CALL.replace("Paris", "x" * 100_000)
    request, made = request_of([WEATHER]), parser_class(tokenizer())
    parser = made(tokenizer(), request.tools)
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    counts = [
        count_lines(lambda piece=piece: parser.parse_delta(piece, [1], request, [0], finished=False))
        for piece in pieces
    ]
    middle = len(counts) // 2

    assert sum(counts[middle : middle + 5_000]) <= 1.1 * sum(counts[100:5_100])


def test_a_vllm_that_has_changed_is_named(monkeypatch):
    monkeypatch.setitem(plugin._PARAMETERS, ToolParser.adjust_request, "self request tokenizer")
    expected = r"vLLM \d+\.\d+\.\d+ has changed: ToolParser.adjust_request takes \(self request\), expected"
    with pytest.raises(TypeError, match=expected):
        parser_class(tokenizer())
