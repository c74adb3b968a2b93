"""Decoding with a chunk pattern gives the same events as decoding without one, for any bytes."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.codecs.openai_chat import OpenAIChat
from fcshim.codecs.openai_chat.chunk_pattern import ChunkPattern, ChunkPatternFinder, read_string
from tests.codecs.helpers import to_vector

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
