"""The requirements of the stream, the prompt and the providers, one test each; others are tested with their modules.

Every requirement is named by a test that shows it.
"""

import itertools
import json
import re
from pathlib import Path

import pytest

from fcshim import StreamParser, parse
from fcshim.codecs.anthropic import ANTHROPIC, Anthropic
from fcshim.codecs.base import RequestTarget
from fcshim.codecs.gemini import GEMINI, Gemini
from fcshim.codecs.openai_chat import OPENAI_CHAT, OpenAIChat
from fcshim.errors import RequestError
from fcshim.events import Stop, ToolCallChunk, ToolCallEnd, ToolCallStart, id_source
from fcshim.messages import (
    AssistantMessage,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
    text_of,
)
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt.styles import get_style
from tests.codecs.helpers import decode_body

COUNT = 43
CALL = '<function_call>\n{"name": "f", "arguments": {"a": {"b": [1, "}"]}}}\n</function_call>'
ARGUMENTS = '{"a": {"b": [1, "}"]}}'
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {}}}]
TIME = Tool(
    "getTime",
    "The time.",
    {
        "type": "object",
        "properties": {"offset_ms": {"type": "number", "description": "milliseconds to add"}},
        "required": ["offset_ms"],
    },
    returns={"type": "number"},
)


def parsed(*pieces, **options):
    parser = StreamParser(tools=TOOLS, **{"new_id": map("id_{}".format, itertools.count()).__next__} | options)
    return [*(event for piece in pieces for event in parser.feed(piece)), *parser.close("complete")]


def call_events(events):
    return [event for event in events if isinstance(event, ToolCallStart | ToolCallChunk | ToolCallEnd)]


def joined(events):
    return "".join(event.tool_call_arguments_chunk for event in events if isinstance(event, ToolCallChunk))


def test_every_requirement_is_named_by_a_test():
    texts = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.rglob("test_*.py")]
    phrases = [found[1] for text in texts for found in re.finditer(r"Requirements? (\d[\d, and]*)", text)]
    named = {int(number) for phrase in phrases for number in re.findall(r"\d+", phrase)}

    assert set(range(1, COUNT + 1)) <= named


def test_the_page_of_the_docs_has_a_command_and_an_outcome_for_every_requirement():
    page = (Path(__file__).parents[1] / "docs" / "requirements.md").read_text(encoding="utf-8")
    table = page.partition("| line | what was asked for |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()[2:]]

    assert list(range(1, COUNT + 1)) == [int(row[0]) for row in rows]
    assert all(len(row) == 4 and all(row) and "`" in row[2] for row in rows)


def test_a_text_stream_gives_start_chunks_and_end():
    """Requirement 1."""
    first, *chunks, last = call_events(parsed(CALL))

    assert ToolCallStart("id_0", "f", 0) == first
    assert ARGUMENTS == joined(chunks)
    assert ARGUMENTS == last.tool_call_arguments_complete


@pytest.mark.parametrize("at", range(1, len(CALL)))
def test_tags_split_at_any_character_are_found(at):
    """Requirement 2."""
    assert ARGUMENTS == joined(parsed(CALL[:at], CALL[at:]))


@pytest.mark.parametrize("at", range(20, len(CALL) - 20))
def test_an_unfinished_call_with_nested_json_never_crashes_the_stream(at):
    """Requirement 3."""
    ends = [event for event in parsed(CALL[:at]) if isinstance(event, ToolCallEnd)]

    assert all(end.error is not None or json.loads(end.tool_call_arguments_complete) for end in ends)


def test_ids_are_unique_and_have_the_caller_s_prefix():
    """Requirement 4."""
    starts = [each for each in parsed(CALL * 3, new_id=id_source("mine_")) if isinstance(each, ToolCallStart)]

    assert 3 == len({start.tool_call_id for start in starts})
    assert all(start.tool_call_id.startswith("mine_") for start in starts)


def sse(*documents, named=False):
    lines = (f"event: {each.get('type')}\n" * named + f"data: {json.dumps(each)}\n\n" for each in documents)
    return ["".join(lines).encode()]


def openai_chunk(*calls, reason=None):
    return {"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": reason}]}


def openai_stream():
    start = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x"'}}
    other = {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{"}}
    more = {"index": 0, "function": {"arguments": ": 1}"}}
    rest = {"index": 1, "function": {"arguments": "}"}}
    return sse(openai_chunk(start, other), openai_chunk(more), openai_chunk(rest), openai_chunk(reason="tool_calls"))


def anthropic_stream():
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return sse(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"x"'}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
        named=True,
    )


def gemini_stream():
    part = {"functionCall": {"name": "f", "args": {"x": 1}}}
    return sse({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]})


def events_of(stream, codec):
    return [event for _, event in decode_body(stream, codec)]


@pytest.mark.parametrize(
    ("stream", "codec"),
    [(openai_stream(), OpenAIChat), (anthropic_stream(), Anthropic), (gemini_stream(), Gemini)],
    ids=["openai", "anthropic", "gemini"],
)
def test_every_provider_s_end_of_a_call_is_one_stop_event(stream, codec):
    """Requirement 5."""
    assert [Stop("tool_use")] == [event for event in events_of(stream, codec) if isinstance(event, Stop)]


def test_anthropic_s_content_blocks_are_start_chunk_and_end():
    """Requirement 6."""
    start, chunk, end = call_events(events_of(anthropic_stream(), Anthropic))

    assert ToolCallStart("t", "f", 0) == start
    assert '{"x": 1}' == chunk.tool_call_arguments_chunk == end.tool_call_arguments_complete


def test_openai_s_fragments_accumulate_by_index():
    """Requirement 7."""
    ends = [event for event in events_of(openai_stream(), OpenAIChat) if isinstance(event, ToolCallEnd)]

    assert [("a", '{"x": 1}'), ("b", "{}")] == [(end.tool_call_id, end.tool_call_arguments_complete) for end in ends]


def test_a_gemini_call_that_arrives_whole_gives_start_chunk_and_end():
    """Requirement 8."""
    start, chunk, end = call_events(events_of(gemini_stream(), Gemini))

    assert "f" == start.tool_call_name
    assert {"x": 1} == json.loads(chunk.tool_call_arguments_chunk) == json.loads(end.tool_call_arguments_complete)


def system_prompt(**settings):
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(TIME,))
    return text_of(prepare_shim(request, **settings).prepared.messages[0].content)


def test_tools_go_into_the_system_message_with_format_and_schema():
    """Requirement 9."""
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), tools=(TIME,))
    system, asked = prepare_shim(request).prepared.messages
    prompt = text_of(system.content)
    (listed,) = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"name": "getTime"')]

    assert (SystemMessage, "Hi") == (type(system), text_of(asked.content))
    assert {"name": "getTime", "description": "The time.", "parameters": TIME.parameters} == listed
    assert (
        '<function_call>\n{"name": "<function name>", "arguments": {"<parameter>": <value>}}\n</function_call>'
        in prompt
    )
    assert "To call a function, write this and nothing else around it" in prompt


@pytest.mark.parametrize("style", ["example", "refusal"])
def test_the_example_is_of_calls_that_the_parser_reads_and_of_a_tool_that_is_not_offered(style):
    """Requirement 9: a model may copy the example, so it calls none of the offered tools."""
    prompt = system_prompt(style=get_style(style))
    example = prompt[prompt.index("What time is it in Oslo") :].replace("Assistant: ", "")
    ends = [each for each in parse(example, tools=None) if isinstance(each, ToolCallEnd)]

    assert "function getTime(offset_ms: number): number\n" in prompt
    assert [("local_time", {"city": city}) for city in ("Oslo", "Lima")] == [
        (end.tool_call_name, json.loads(end.tool_call_arguments_complete)) for end in ends
    ]


def test_tools_can_be_listed_by_signatures():
    """Requirement 10."""
    prompt = system_prompt(tools_style="signature")

    assert "function getTime(offset_ms: number): number\n" in prompt
    assert "milliseconds to add" in prompt


def test_a_result_re_enters_the_conversation_as_text():
    """Requirement 11."""
    call = AssistantMessage((), (ToolCall("1", "getTime", '{"offset_ms": 0}'),))
    result = ToolMessage("1", (TextPart("12:00"),), "getTime")
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)), call, result), tools=(TIME,))
    *_, last = prepare_shim(request).prepared.messages

    assert isinstance(last, UserMessage)
    assert "12:00" in text_of(last.content)


def test_anthropic_has_system_apart_calls_in_the_assistant_s_turn_and_results_in_the_user_s():
    """Requirement 13."""
    asked = {"role": "user", "content": "Hi"}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"x": 1}}]}

    def read(**result):
        answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", **result}]}
        body = {"model": "m", "max_tokens": 5, "system": "Be kind.", "messages": [asked, use, answer]}
        return ANTHROPIC.decode_request(json.dumps(body).encode()).messages

    system, _, call, result = read(content="sun")

    assert SystemMessage((TextPart("Be kind."),)) == system
    assert ("f", {"x": 1}) == (call.tool_calls[0].name, json.loads(call.tool_calls[0].arguments))
    assert ("t", "sun") == (result.tool_call_id, text_of(result.content))
    with pytest.raises(RequestError, match="a tool_result has its result in `content`"):
        read(result="sun")


def test_gemini_s_response_is_an_object():
    """Requirement 13."""
    asked = {"role": "user", "parts": [{"text": "Hi"}]}
    call = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}

    def read(response):
        answer = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]}
        body = {"systemInstruction": {"parts": [{"text": "Be kind."}]}, "contents": [asked, call, answer]}
        target = RequestTarget("models/m:generateContent")
        return GEMINI.decode_request(json.dumps(body).encode(), target).messages

    system, *_, result = read({"weather": "sun"})

    assert SystemMessage((TextPart("Be kind."),)) == system
    assert "sun" in text_of(result.content)
    with pytest.raises(RequestError):
        read(5)


def test_openai_s_results_have_an_id_and_content_may_be_null():
    """Requirement 13."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "sun"},
    ]
    *_, asked, result = OPENAI_CHAT.decode_request(json.dumps({"model": "m", "messages": messages}).encode()).messages

    assert ((), "f") == (asked.content, asked.tool_calls[0].name)
    assert ("c", "sun") == (result.tool_call_id, text_of(result.content))
