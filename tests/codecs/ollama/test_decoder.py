import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.json_text import DecoderLimits
from fcshim.codecs.ollama import OLLAMA, Ollama
from fcshim.events import Error, Stop, Text
from tests.codecs.helpers import cut_variants, decode_body, to_vector
from tests.steps import steps

CASES = json.loads((Path(__file__).parent / "vectors/documented.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_events_do_not_depend_on_how_the_body_is_split(case):
    expected = case["events"]

    for pieces in cut_variants(case["body"].encode()):
        assert expected == to_vector(decode_body(pieces, Ollama))


def test_events_are_emitted_as_soon_as_their_line_is_complete():
    decoder = OLLAMA.decoder()

    assert [(0, Text("a"))] == decoder.feed(b'{"message":{"content":"a"}}\n')
    assert [] == decoder.feed(b'{"message":{"content":"b"}}')
    assert [(0, Text("b"))] == decoder.feed(b"\n")


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    "last", [b'{"message":{"content":"a }\\"done\\": true}"},"done" : true}', b'{"error":"no {such} model"}']
)
def test_a_last_line_without_its_end_ends_the_reply_when_its_last_bracket_comes(size, last):
    decoder = OLLAMA.decoder()
    events = [event for at in range(0, len(last), size) for event in decoder.feed(last[at : at + size])]

    assert decoder.ended
    assert isinstance(events[-1][1], Stop | Error)
    assert [] == decoder.feed(b"\n") + decoder.close()


def test_a_line_that_only_mentions_an_end_is_parsed_once_and_waits_for_its_end():
    call = b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"done":true}}}]},"done":false}'
    decoder = OLLAMA.decoder()

    assert [] == [event for at in range(len(call)) for event in decoder.feed(call[at : at + 1])]
    assert not decoder.ended
    assert "f" == decoder.feed(b"\n")[0][1].tool_call_name


def test_the_work_for_a_line_without_its_end_grows_with_its_length_only():
    def work(count):
        pieces = [b'{"done":true,"a":[', *([b'{"done":true},'] * count), b"{}]", *([b"}"] * count)]
        decoder = OLLAMA.decoder()
        return steps(lambda: [decoder.feed(piece) for piece in pieces])

    assert work(400) < 5 * work(100)


def test_bytes_after_the_end_are_ignored():
    decoder = OLLAMA.decoder()
    decoder.feed(b'{"done":true}\n')

    assert [] == decoder.feed(b'{"message":{"content":"b"}}\n')
    assert [] == decoder.close()


def test_an_endless_line_ends_with_one_error():
    decoder = Ollama(decoder_limits=DecoderLimits(line_bytes=1000)).decoder()
    found = [item for _ in range(50) for item in decoder.feed(b"x" * 100)] + decoder.close()

    assert 1 == len(found)
    assert "1000 bytes" in found[0][1].message


def test_a_too_long_last_line_ends_with_one_error():
    decoder = Ollama(decoder_limits=DecoderLimits(line_bytes=10)).decoder()
    found = decoder.feed(b'{"done":') + decoder.feed(b" " * 2) + decoder.close()

    assert 1 == len(found)
    assert isinstance(found[0][1], Error)


def test_arguments_in_a_string_must_be_strict_json():
    body = b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{\\"a\\": NaN}"}}]},"done":true}\n'
    end = decode_body([body], Ollama)[-2][1]

    assert "malformed" == end.error.kind
    assert '{"a": NaN}' == end.tool_call_arguments_complete


_values = st.none() | st.booleans() | st.integers(-3, 300) | st.sampled_from(["", "stop", "length", "{", "c"])
_shape = st.recursive(
    _values,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("message", "content", "thinking", "tool_calls", "function", "name", "arguments", "id"),
                    *("done", "done_reason", "eval_count", "error", "response"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(_shape, max_size=6), st.integers(0, 2**32))
def test_any_json_raises_nothing_and_ends_once(lines, seed):
    body = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    for pieces in cut_variants(body, seed):
        ends = [event for _, event in decode_body(pieces, Ollama) if isinstance(event, Stop | Error)]

        assert 1 == len(ends)


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"{", b"[", b"\n", b'{"done":', b"\xef\xbb\xbf", b'"'])))
def test_any_bytes_raise_nothing(pieces):
    assert isinstance(decode_body(pieces, Ollama)[-1][1], Error)
