"""Decoding with a chunk pattern gives the same events as decoding without one, for any bytes."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.codecs.framing import write_data
from fcshim.codecs.json_text import DecoderLimits
from fcshim.codecs.openai_chat import OpenAIChat
from fcshim.codecs.openai_chat.decoder import ChunkPattern, ChunkPatternFinder, read_string
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


LLAMA = '{"choices":[{"finish_reason":null,"index":0,"delta":{"content":%s}}],"created":%d,"object":"chunk"}'
SPACED = '{"id": "c", "choices": [{"index": 0, "delta": {"content": %s}, "finish_reason": null}], "created": %d}'
SECOND = '{"choices":[{"index":1,"delta":{"content":%s}}],"created":%d}'
DECOY = '{"x":{"content":"a"},"choices":[{"index":0,"delta":{"content":%s}}],"created":%d}'
TWICE = '{"choices":[{"index":0,"delta":{"content":%s,"content":"b"}}],"created":%d}'
ENDING = '{"choices":[{"index":0,"delta":{"content":%s},"finish_reason":"length"}],"created":%d}'
THINKING = '{"choices":[{"index":0,"delta":{"content":%s,"reasoning_content":"hm"}}],"created":%d}'
SHAPES = [LLAMA, SPACED, SECOND, DECOY, TWICE, ENDING, THINKING]
CALL = (
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}\n\n'
)


def chunk(shape: str, text: str, created: int = 1) -> bytes:
    """Write an event with `text` as the raw bytes between the quotation marks."""
    return b"data: " + (shape % (f'"{text}"', created)).encode("utf-8", "surrogatepass") + b"\n\n"


LIKE = st.builds(
    chunk, st.sampled_from(SHAPES[:2]), st.text('ab\n"é…🙂', max_size=6).map(lambda text: json.dumps(text)[1:-1])
)
RAW = st.builds(
    chunk,
    st.just(LLAMA),
    st.sampled_from(["", "a", '"', "\\", '\\"', "\\ud83d", "\\ude42", "\n", "\r", '"}', '","content":"b']),
)
OTHER = st.builds(chunk, st.sampled_from(SHAPES), st.sampled_from(["a", "bc"]), st.integers(0, 1))
ODD = st.sampled_from(
    [
        CALL,
        b": ping\n\n",
        b"data: [DONE]\n\n",
        b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n',
        b'data: {"error":{"message":"lost"}}\n\n',
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
        chunk(LLAMA, "a").replace(b'"a"', b'"\xff"'),
        chunk(LLAMA, "a").replace(b"\n", b"\r\n"),
        chunk(LLAMA, "a")[:-1],
        chunk(LLAMA, "a")[:20],
        chunk(LLAMA, "a")[20:],
        b"\n",
        b"\xef\xbb\xbf",
        b"",
    ]
)
READS = st.lists(st.one_of(LIKE, LIKE, RAW, OTHER, ODD, st.tuples(LIKE, LIKE).map(b"".join)), max_size=12)


class NoPatternFinder:
    def find(self, _data: bytes) -> None:
        return None


def decoded(reads: list[bytes], *, use_pattern: bool) -> list:
    decoder = OpenAIChat(new_id=lambda: "new").decoder()
    if not use_pattern:
        decoder._pattern_finder = NoPatternFinder()
    return [to_vector(decoder.feed(each)) for each in reads] + [to_vector(decoder.close())]


@given(READS)
@example([chunk(LLAMA, "a")] * 3 + [chunk(LLAMA, '"}}],"choices":[{"delta":{"content":"b')])
@example([chunk(LLAMA, "a")] * 3 + [chunk(LLAMA, "a")[:-2], b"\n\n"])
@example([chunk(LLAMA, "a")] * 3 + [CALL, chunk(LLAMA, "b"), chunk(LLAMA, "c")])
@example([chunk(SECOND, "a")] * 3 + [chunk(LLAMA, "b")] * 3)
def test_every_read_gives_the_same_events_without_patterns(reads):
    assert decoded(reads, use_pattern=False) == decoded(reads, use_pattern=True)


def find_pattern(*reads: bytes) -> ChunkPattern | None:
    finder = ChunkPatternFinder()
    return [finder.find(each) for each in reads][-1]


@pytest.mark.parametrize("shape", [LLAMA, SPACED])
def test_a_pattern_is_found_after_two_equal_chunks(shape):
    data = chunk(shape, "so \\n é")

    assert find_pattern(chunk(shape, "a")) is None
    pattern = find_pattern(chunk(shape, "a"), chunk(shape, "bc"))
    assert pattern is not None
    assert 0 == pattern.choice
    assert "so \n é" == read_string(data[pattern.start : pattern.stop])
    assert data == pattern.prefix + data[pattern.start + 1 : pattern.stop - 1] + pattern.suffix


def test_a_pattern_has_the_choice_index():
    pattern = find_pattern(chunk(SECOND, "a"), chunk(SECOND, "b"))

    assert pattern is not None
    assert 1 == pattern.choice


@pytest.mark.parametrize("shape", [DECOY, TWICE, ENDING, THINKING])
def test_a_string_that_is_not_the_whole_content_gives_no_pattern(shape):
    assert find_pattern(chunk(shape, "a"), chunk(shape, "a"), chunk(shape, "a")) is None


def test_chunks_that_always_differ_give_no_pattern():
    assert find_pattern(*(chunk(LLAMA, "a", created) for created in range(5))) is None


@pytest.mark.parametrize(
    "data", [b"", b"data: 1\n\n", b'data: {"content":"', chunk(LLAMA, 'a\\"b'), b'data: {"content":"a"}\n\n']
)
def test_data_without_plain_text_gives_no_pattern(data):
    assert find_pattern(data, data) is None


def test_nothing_counts_after_the_end_of_the_reply():
    decoder = OpenAIChat().decoder()
    text = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    events = decoder.feed(text + b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n' + text)

    assert [(0, Text("a")), (0, Stop("complete"))] == events
    assert decoder.ended
    assert [] == decoder.feed(text) == decoder.close()


def test_a_choice_that_is_unfinished_at_the_end_of_the_reply_ends_with_an_error():
    decoder = OpenAIChat().decoder()
    finished = b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
    events = decoder.feed(
        b'data: {"choices":[{"index":1,"delta":{"content":"a"}}]}\n\n' + finished + b"data: [DONE]\n\n"
    )

    assert [1, 0, 1] == [choice for choice, _ in events]
    assert isinstance(events[-1][1], Error)
