import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.limits import DecoderLimits
from fcshim.codecs.openai_chat import OpenAIChat
from fcshim.codecs.sse import write_data
from fcshim.events import JSON, Error, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from tests.codecs.helpers import cut_variants, decode_body, to_vector

CASES = [
    case
    for path in sorted((Path(__file__).parent / "vectors").glob("*.json"))
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]
]


def body_of(case: JSON) -> bytes:
    if "body" in case:
        return case["body"].encode()
    chunks = b"".join(write_data(msgspec.json.encode(chunk)) for chunk in case["chunks"])
    return chunks + (write_data(b"[DONE]") if case["done"] else b"")


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_a_body_gives_the_same_events_however_it_is_cut(case):
    expected = case["events"]

    for pieces in cut_variants(body_of(case)):
        assert expected == to_vector(decode_body(pieces))


def test_invalid_utf8_becomes_replacement_characters():
    body = b'data: {"choices":[{"delta":{"content":"a\xffb"},"finish_reason":"stop"}]}\n\n'

    assert [(0, Text("a�b")), (0, Stop("complete"))] == decode_body([body])


def test_events_are_returned_as_soon_as_their_bytes_come():
    decoder = OpenAIChat().decoder()

    assert [(0, Text("a"))] == decoder.feed(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
    assert [] == decoder.feed(b'data: {"choices":[{"delta":{"content":"b"}}]}\n')
    assert [(0, Text("b"))] == decoder.feed(b"\n")


def test_bytes_after_the_end_are_ignored():
    decoder = OpenAIChat().decoder()
    decoder.feed(b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')

    assert [] == decoder.feed(b'data: {"choices":[{"index":1,"delta":{"content":"b"}}]}\n\n')
    assert [] == decoder.close()


@pytest.mark.parametrize("start", [b"data: ", b"{", b"<html>"])
def test_an_endless_body_ends_with_one_error_and_is_not_buffered(start):
    decoder = OpenAIChat(decoder_limits=DecoderLimits(line_bytes=1000)).decoder()
    found = decoder.feed(start)
    for _ in range(50):
        found += decoder.feed(b"x" * 100)
    found += decoder.close()

    assert 1 == len(found)
    assert isinstance(found[0][1], Error)
    assert "1000 bytes" in found[0][1].message


def test_a_call_beyond_its_limit_ends_with_the_error_limit():
    decoder = OpenAIChat(decoder_limits=DecoderLimits(call_chars=100)).decoder()
    piece = {"index": 0, "id": "c", "function": {"name": "f", "arguments": '"' + "x" * 39}}
    chunk = write_data(msgspec.json.encode({"choices": [{"delta": {"tool_calls": [piece]}}]}))
    found = decoder.feed(chunk * 5) + decoder.feed(b'data: {"choices":[{"finish_reason":"tool_calls"}]}\n\n')
    end = found[-2][1]

    assert "limit" == end.error.kind
    assert 80 == len(end.tool_call_arguments_complete)
    assert Stop("complete") == found[-1][1]


def test_a_line_of_ten_megabytes_is_one_event():
    text = "x" * 10_000_000
    body = write_data(msgspec.json.encode({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}))

    assert [(0, Text(text)), (0, Stop("complete"))] == decode_body(
        body[at : at + 4096] for at in range(0, len(body), 4096)
    )


FIELDS = [
    *("choices", "index", "delta", "message", "finish_reason", "stop_reason", "usage", "error"),
    *("content", "refusal", "reasoning_content", "reasoning"),
    *("tool_calls", "function_call", "function", "id", "name", "arguments"),
]
_shape = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.sampled_from(["", "stop", "{", "}", "f", "length", "c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=20,
)
_call = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(0, 2),
        "id": st.sampled_from(["", "c", "d", None]),
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["f", "g", "", None]),
                "arguments": st.sampled_from(["{", "}", "{}", '"', " ", "", None]),
            },
        ),
    },
)
_delta = st.fixed_dictionaries(
    {}, optional={"content": st.sampled_from(["", "x", None]), "tool_calls": st.lists(_call, max_size=3)}
)
_chunk = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"delta": _delta}, optional={"finish_reason": st.sampled_from([None, "stop", "length", "tool_calls"])}
            ),
            max_size=2,
        )
    }
)


@given(st.lists(_chunk, max_size=8))
def test_arbitrary_calls_are_balanced_and_their_chunks_add_up(chunks):
    found = decode_body([b"".join(write_data(msgspec.json.encode(chunk)) for chunk in chunks)])
    open_call, sent, ids = None, "", set()
    for _, event in found:
        match event:
            case ToolCallStart():
                assert open_call is None
                assert event.tool_call_id not in ids
                assert len(ids) == event.index
                open_call, sent = event, ""
                ids.add(event.tool_call_id)
            case ToolCallChunk() | ToolCallEnd():
                assert open_call is not None
                assert (open_call.tool_call_id, open_call.index) == (event.tool_call_id, event.index)
                if isinstance(event, ToolCallChunk):
                    sent += event.tool_call_arguments_chunk
                else:
                    assert sent == event.tool_call_arguments_complete
                    assert event.error or isinstance(json.loads(sent), dict)
                    open_call = None
            case _:
                assert open_call is None
    assert open_call is None


@given(st.lists(_shape, max_size=6), st.integers(0, 2**32), st.booleans())
def test_arbitrary_json_raises_nothing_and_every_choice_ends_once(chunks, seed, done):
    body = b"".join(write_data(msgspec.json.encode(chunk)) for chunk in chunks) + (b"data: [DONE]\n\n" if done else b"")
    for pieces in cut_variants(body, seed):
        found = decode_body(pieces)
        ends = [choice for choice, event in found if isinstance(event, Stop | Error)]

        assert ends
        assert len(ends) == len(set(ends))


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"data: ", b"{", b"[", b"\n\n", b"\xef\xbb\xbf", b'"'])))
def test_arbitrary_bytes_raise_nothing(pieces):
    assert any(isinstance(event, Error) for _, event in decode_body(pieces))
