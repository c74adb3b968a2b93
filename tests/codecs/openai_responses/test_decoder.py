import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.framing import write_data
from fcshim.codecs.json_text import DecoderLimits
from fcshim.codecs.openai_responses import OPENAI_RESPONSES, OpenAIResponses
from fcshim.events import Error, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from tests.codecs.helpers import cut_variants, decode_body, to_vector

CASES = [
    case
    for path in sorted((Path(__file__).parent / "vectors").glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
]


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_a_body_gives_the_same_events_however_it_is_cut(case):
    expected = case["events"]

    for pieces in cut_variants(case["body"].encode()):
        assert expected == to_vector(decode_body(pieces, OpenAIResponses))


def test_events_are_returned_as_soon_as_their_bytes_come():
    decoder = OPENAI_RESPONSES.decoder()

    assert [(0, Text("a"))] == decoder.feed(b'data: {"type":"response.output_text.delta","delta":"a"}\n\n')
    assert [] == decoder.feed(b'data: {"type":"response.output_text.delta","delta":"b"}\n')
    assert [(0, Text("b"))] == decoder.feed(b"\n")


def test_bytes_after_the_end_are_ignored():
    decoder = OPENAI_RESPONSES.decoder()
    decoder.feed(b'data: {"type":"response.completed","response":{"status":"completed"}}\n\n')

    assert [] == decoder.feed(b'data: {"type":"response.output_text.delta","delta":"b"}\n\n')
    assert [] == decoder.close()


def test_a_call_beyond_its_limit_ends_with_the_error_limit():
    codec = OpenAIResponses(decoder_limits=DecoderLimits(call_chars=100))
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "x" * 200}
    end = {"type": "response.completed", "response": {"status": "completed"}}
    events = [{"type": "response.output_item.done", "output_index": 0, "item": item}, end]
    found = codec.decoder().feed(b"".join(write_data(msgspec.json.encode(event)) for event in events))

    assert "limit" == found[-2][1].error.kind


_kinds = st.sampled_from(
    [
        *("created", "completed", "incomplete", "failed", "output_item.added", "output_item.done"),
        *("output_text.delta", "function_call_arguments.delta", "reasoning_text.delta", "reasoning_summary_text.delta"),
    ]
)
_values = st.none() | st.integers(-2, 3) | st.sampled_from(["", "{", "}", "{}", "f", "call", "length"])
_items = st.fixed_dictionaries(
    {"type": st.sampled_from(["function_call", "message", "custom_tool_call", "reasoning", "odd"])},
    optional=dict.fromkeys(("call_id", "name", "arguments", "input", "namespace", "encrypted_content"), _values),
)
_events = st.fixed_dictionaries(
    {"type": _kinds.map("response.{}".format) | st.sampled_from(["error", "odd", ""])},
    optional={
        "output_index": st.integers(0, 2),
        "summary_index": st.integers(0, 2),
        "delta": _values | st.just({}),
        "item": _items | _values,
        "response": st.fixed_dictionaries(
            {},
            optional={
                "status": _values | st.sampled_from(["completed", "incomplete", "failed"]),
                "output": st.lists(_items, max_size=2),
                "usage": st.none() | st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), _values),
            },
        ),
    },
)


@given(st.lists(_events, max_size=8), st.integers(0, 2**32))
def test_whatever_events_come_calls_are_balanced_and_it_ends_once(events, seed):
    body = b"".join(write_data(msgspec.json.encode(event)) for event in events)
    for pieces in cut_variants(body, seed):
        found = [event for _, event in decode_body(pieces, OpenAIResponses)]
        open_call, ids = None, set()
        for event in found:
            match event:
                case ToolCallStart():
                    assert open_call is None
                    assert event.tool_call_id not in ids
                    open_call, sent = event, ""
                    ids.add(event.tool_call_id)
                case ToolCallChunk():
                    sent += event.tool_call_arguments_chunk
                case ToolCallEnd():
                    assert open_call.tool_call_id == event.tool_call_id
                    assert sent == event.tool_call_arguments_complete
                    assert event.error or isinstance(json.loads(sent), dict)
                    open_call = None
                case _:
                    assert open_call is None

        assert 1 == len([event for event in found if isinstance(event, Stop | Error)])


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"data: ", b"{", b"[", b"\n\n", b"\xef\xbb\xbf", b'"'])))
def test_arbitrary_bytes_raise_nothing(pieces):
    assert isinstance(decode_body(pieces, OpenAIResponses)[-1][1], Error)
