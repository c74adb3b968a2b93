"""Arbitrary upstream replies: the decoded events keep the laws, and nothing is raised."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.anthropic.options import AnthropicClientOptions
from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.routes import CODECS
from fcshim.events import (
    Error,
    Event,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.messages import Request, UserMessage
from tests.codecs.helpers import cut
from tests.codecs.test_arbitrary_requests import ARBITRARY_JSON, value_paths, with_value_at

APIS = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
REQUEST = Request(
    model="m",
    messages=(UserMessage(()),),
    stream=True,
    include_usage=True,
    client_options=AnthropicClientOptions(thinking=True),
)
EVENTS = [
    Reasoning("hm", "c2ln"),
    Text("hello "),
    ToolCallStart("c0", "f", 0),
    ToolCallChunk("c0", '{"a":1,', 0),
    ToolCallChunk("c0", '"b":[2]}', 0),
    ToolCallEnd("c0", "f", '{"a":1,"b":[2]}', 0),
    Usage(1, 2, 1, 1),
    Stop("tool_use"),
]


def stream_documents(codec) -> list[tuple[str, dict]]:
    """Return the JSON documents of a stream, each with the text before it in its event."""
    encoder = codec.encoder(REQUEST, ReplyIdentity("id", 1, "m"))
    body = (encoder.encode(0, EVENTS) + encoder.close()).decode()
    parts = [part for part in body.split("\n" if codec.name == "ollama" else "\n\n") if "{" in part]
    return [(part[: part.index("{")], json.loads(part[part.index("{") :])) for part in parts]


def encode_stream(codec, stream: list[tuple[str, dict]]) -> bytes:
    end = "\n" if codec.name == "ollama" else "\n\n"
    return "".join(f"{prefix}{json.dumps(document)}{end}" for prefix, document in stream).encode()


def decode_events(codec, body: bytes, size: int) -> list[Event]:
    decoder = codec.decoder()
    found = [item for piece in cut(body, lambda: size) for item in decoder.feed(piece)]
    return [event for choice, event in found + decoder.close() if choice == 0]


def check_laws(events: list[Event]) -> None:
    """Balanced, chunks add up, ids are unique, valid arguments are an object, there is one end."""
    ids: set[str] = set()
    sent: str | None = None
    for event in events:
        match event:
            case ToolCallStart():
                assert sent is None
                assert event.tool_call_id not in ids
                ids.add(event.tool_call_id)
                sent = ""
            case ToolCallChunk():
                assert sent is not None
                sent += event.tool_call_arguments_chunk
            case ToolCallEnd():
                assert event.tool_call_arguments_complete == sent
                assert event.error or isinstance(json.loads(sent), dict)
                sent = None
            case Text() | Stop() | Error():
                assert sent is None

    assert 1 == sum(isinstance(event, Stop | Error) for event in events)


@APIS
@given(st.data())
def test_streams_with_changed_documents_keep_the_laws(codec, data):
    stream = stream_documents(codec)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stream) - 1))
        prefix, document = stream[at]
        match data.draw(st.sampled_from(["change", "drop", "repeat", "move"])):
            case "change":
                path = data.draw(st.sampled_from(list(value_paths(document))))
                new = data.draw(ARBITRARY_JSON | st.just(...)) if path else data.draw(ARBITRARY_JSON)
                stream[at] = (prefix, with_value_at(document, path, new))
            case "drop" if len(stream) > 1:
                del stream[at]
            case "repeat":
                stream.insert(at, stream[at])
            case _:
                stream.insert(data.draw(st.integers(0, len(stream) - 1)), stream.pop(at))
    events = decode_events(codec, encode_stream(codec, stream), data.draw(st.sampled_from([1, 7, 10**6])))
    if events:  # a chunk may have come for another choice alone
        check_laws(events)


@APIS
@given(st.data())
def test_streams_with_changed_bytes_keep_the_laws(codec, data):
    body = bytearray(encode_stream(codec, stream_documents(codec)))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    events = decode_events(codec, bytes(body), data.draw(st.sampled_from([1, 7, 10**6])))
    if events:
        check_laws(events)


@APIS
@given(st.binary(max_size=60))
def test_arbitrary_bytes_end_with_one_stop_or_error(codec, body):
    check_laws(decode_events(codec, body, 5))


@APIS
def test_a_truncated_stream_has_no_wrong_call(codec):
    stream = stream_documents(codec)
    for end in range(len(stream)):
        events = decode_events(codec, encode_stream(codec, stream[:end]), 10**6)

        check_laws(events)
        valid = [event for event in events if isinstance(event, ToolCallEnd) and event.error is None]
        assert all({"a": 1, "b": [2]} == json.loads(call.tool_call_arguments_complete) for call in valid)
