"""Response bodies: nothing is written before the first event."""

import json

import pytest

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.errors import UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request, TextPart, UserMessage
from fcshim.pipeline.response import response_for

LOST = Error("upstream_error", "the line is cut")
END = [(0, Usage(input_tokens=1, output_tokens=1)), (0, Stop("complete"))]


def answer(*, stream, **options):
    request = Request(model="m", messages=(UserMessage((TextPart("Hi"),)),), stream=stream)
    return response_for(request, ReplyIdentity(id="r", created=1, model="m"), OPENAI_CHAT, **options)


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_before_the_first_event_is_raised(stream):
    made = answer(stream=stream)

    with pytest.raises(UpstreamError, match="the line is cut"):
        made.feed([(0, LOST)])
    assert not made.started


def test_no_events_start_no_response():
    made = answer(stream=True)

    assert b"" == made.feed([])
    assert not made.started


def test_the_events_of_one_read_are_one_piece_of_bytes():
    made = answer(stream=True)
    data = made.feed([(0, Text("a")), (1, Text("b")), (0, Text("c"))])

    assert made.started
    assert [b'"content":"a"', b'"content":"b"', b'"content":"c"'] == sorted(
        part for part in (b'"content":"a"', b'"content":"b"', b'"content":"c"') if part in data
    )
    assert data.index(b'"content":"a"') < data.index(b'"content":"b"') < data.index(b'"content":"c"')


def test_a_later_error_is_written_into_the_stream():
    made = answer(stream=True)
    made.feed([(0, Text("Once"))])
    data = made.feed([(0, LOST)]) + made.close()

    assert data.endswith(b"\n\n")
    assert "the line is cut" == json.loads(data.removeprefix(b"data: "))["error"]["message"]


def test_a_ping_starts_a_stream_but_no_buffered_response():
    streamed, whole = answer(stream=True), answer(stream=False)

    assert (b": ping\n\n", b"") == (streamed.ping(), whole.ping())
    assert (b": 3 of 9\n\n", b"") == (streamed.ping("3 of 9"), whole.ping("3 of 9"))
    assert (True, False) == (streamed.started, whole.started)


def test_a_stream_ends_cleanly_after_its_stop_only():
    complete, open_ended = answer(stream=True), answer(stream=True)
    complete.feed([(0, Text("a")), *END])
    open_ended.feed([(0, Text("a"))])

    assert complete.close().endswith(b"data: [DONE]\n\n")
    assert b"[DONE]" not in open_ended.close()


def test_a_buffered_response_is_written_at_the_end():
    made = answer(stream=False)

    assert b"" == made.feed([(0, Text("Hel"))]) == made.feed([(0, Text("lo")), *END])
    assert "Hello" == json.loads(made.close())["choices"][0]["message"]["content"]
    assert made.started


@pytest.mark.parametrize(
    "events",
    [
        [Text("x" * 11)],
        [Reasoning("x" * 6), Text("x" * 5)],
        [ToolCallStart("c", "x" * 11, 0)],
        [ToolCallStart("c", "f", 0), ToolCallChunk("c", "x" * 10, 0)],
        [ToolCallEnd("c", "f", "x" * 11, 0)],
    ],
)
def test_a_buffered_response_has_a_limit(events):
    made = answer(stream=False, max_reply=10)

    with pytest.raises(UpstreamError, match="longer than the limit"):
        made.feed([(0, event) for event in events])
