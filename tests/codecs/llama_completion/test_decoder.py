import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.framing import write_data
from fcshim.codecs.json_text import DecoderLimits
from fcshim.codecs.llama_completion import LlamaCompletion
from fcshim.events import Error, Stop, Text, Usage
from tests.codecs.helpers import cut_variants, merge_events, to_vector

CASES = json.loads((Path(__file__).parent / "vectors/llama_server.json").read_text(encoding="utf-8"))["cases"]
PIECE = b'data: {"index":0,"content":"a","tokens":[7],"stop":false,"tokens_predicted":1,"tokens_evaluated":19}\n\n'
LAST = b'data: {"content":"","stop":true,"stop_type":"eos","tokens_evaluated":19,"tokens_predicted":1}\n\n'


def read(pieces):
    decoder = LlamaCompletion().decoder()
    found = [item for piece in pieces for item in decoder.feed(piece)]
    return merge_events(found + decoder.close())


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_a_body_gives_the_same_events_however_it_is_cut(case):
    expected = case["events"]

    for pieces in cut_variants(case["body"].encode()):
        assert expected == to_vector(read(pieces))


def test_text_is_returned_as_soon_as_its_bytes_come():
    decoder = LlamaCompletion().decoder()

    assert [(0, Text("a"))] == decoder.feed(PIECE)
    assert [] == decoder.feed(PIECE[:-1])
    assert [(0, Text("a"))] == decoder.feed(PIECE[-1:])


def test_bytes_after_the_end_are_ignored():
    decoder = LlamaCompletion().decoder()
    ended = [(0, Usage(input_tokens=19, output_tokens=1)), (0, Stop("complete"))]

    assert ended == decoder.feed(LAST)
    assert [] == decoder.feed(PIECE)
    assert [] == decoder.close()


def test_the_prepended_tag_is_ordinary_text():
    assert [Text("<think>\na"), Usage(19, 1), Stop("complete")] == [
        event for _, event in read([b'data: {"content":"<think>\\n"}\n\n' + PIECE, LAST])
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "empty"),
        (PIECE, "broke off"),
        (PIECE + LAST[:20], "broke off"),
        (b"<html><title>Bad Gateway</title></html>", "Bad Gateway"),
        (b'data: {"content":5}\n\n', "malformed"),
        (b'data: {"error":{"code":500,"message":"Compute error.","type":"server_error"}}\n\n', "Compute error."),
        (b'{"error":{"code":500,"message":"Compute error.","type":"server_error"}}', "Compute error."),
    ],
)
def test_a_reply_without_an_end_ends_with_one_error(body, expected):
    (_, last) = read([body])[-1]

    assert isinstance(last, Error)
    assert expected in last.message


def test_negative_token_counts_become_zero():
    body = b'data: {"content":"a","stop":true,"tokens_evaluated":-1,"tokens_predicted":-5,"timings":{"cache_n":-2}}\n\n'

    assert [Text("a"), Usage(), Stop("complete")] == [event for _, event in read([body])]


def test_an_endless_line_ends_with_one_error():
    decoder = LlamaCompletion(limits=DecoderLimits(line_bytes=1000)).decoder()
    found = [item for _ in range(50) for item in decoder.feed(b"x" * 100)] + decoder.close()

    assert 1 == len(found)
    assert "1000 bytes" in found[0][1].message


_names = ["content", "stop", "stop_type", "stopping_word", "tokens_evaluated", "timings", "cache_n", "error", "message"]
_values = st.none() | st.booleans() | st.integers(-3, 300) | st.sampled_from(["", "eos", "limit", "word", "<", "c"])
_shape = st.recursive(
    _values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_names), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(_shape, max_size=6))
def test_arbitrary_documents_end_with_one_stop_or_error(documents):
    ends = [event for _, event in read([write_data(msgspec.json.encode(each)) for each in documents])]

    assert 1 == sum(isinstance(event, Stop | Error) for event in ends)
    assert isinstance(ends[-1], Stop | Error)
