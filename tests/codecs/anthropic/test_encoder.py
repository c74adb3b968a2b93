"""The reply to the client, streamed for every event (and law 9), and whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.anthropic import ANTHROPIC, Anthropic
from fcshim.codecs.anthropic.options import AnthropicClientOptions
from fcshim.codecs.base import ReplyIdentity
from fcshim.errors import UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, ToolCallChunk, Usage
from fcshim.messages import Request, UserMessage
from fcshim.reply import fold
from tests.codecs.helpers import cut, decode_body, merge_events
from tests.codecs.openai_chat.test_encoder import bad, call, failure_sentence, replies

IDENTITY = ReplyIdentity("msg_1", 1700000000, "the model")


def request(*, thinking=True, **fields):
    options = AnthropicClientOptions(thinking=thinking)
    return Request(model="m", messages=(UserMessage(()),), stream=True, client_options=options, **fields)


def written(*events, close=True, reads=1, **fields):
    """Write the events of one upstream read, or the first `reads - 1` of them one by one."""
    encoder = ANTHROPIC.encoder(request(**fields), IDENTITY)
    body = b"".join(encoder.encode(0, [event]) for event in events[: reads - 1])
    return body + encoder.encode(0, events[reads - 1 :]) + (encoder.close() if close else b"")


def stream(*events, **fields):
    """Return the events on the wire; the name in `event:` must be the type of the data."""
    parts = written(*events, **fields).decode().split("\n\n")

    assert "" == parts.pop()
    found = []
    for part in parts:
        name, data = part.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))

        assert f"event: {found[-1]['type']}" == name
    return found


USAGE_DETAILS = {"output_tokens_details": {"thinking_tokens": 0}, "server_tool_use": None}


def text_block(text):
    return {"type": "text", "text": text, "citations": None}


def tool_use_block(call_id, arguments):
    return {"type": "tool_use", "id": call_id, "name": "f", "input": arguments, "caller": {"type": "direct"}}


def types(events):
    return [event["type"] for event in events]


def test_a_text_reply_is_one_block():
    usage = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 3, **USAGE_DETAILS}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "the model",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            "input_tokens": 0,
            "output_tokens": 1,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            **USAGE_DETAILS,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "inference_geo": None,
            "service_tier": "standard",
        },
    }
    expected = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": text_block("")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 'lo "\n\u2028'}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": None, "container": None},
            "usage": {"input_tokens": 4, "output_tokens": 5, **usage},
        },
        {"type": "message_stop"},
    ]

    assert expected == stream(Text("Hel"), Text('lo "\n\u2028'), Usage(7, 5, 3), Stop("complete"))


def test_a_call_is_a_block_with_its_input_in_deltas():
    _, text_start, _, text_stop, start, *deltas, stop, _, _ = stream(
        Text("a"), *call('{"a":1}', sent=['{"a"', ":1}"]), Stop("tool_use")
    )

    assert tool_use_block("call_0", {}) == start["content_block"]
    assert (0, 0, 1, 1) == (text_start["index"], text_stop["index"], start["index"], stop["index"])
    assert [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"a"', ":1", "}")] == [
        delta["delta"] for delta in deltas
    ]


@pytest.mark.parametrize(
    ("reason", "stops", "word", "sequence"),
    [
        ("complete", (), "end_turn", None),
        ("tool_use", (), "tool_use", None),
        ("max_tokens", (), "max_tokens", None),
        ("stop_sequence", ("END",), "stop_sequence", "END"),
        ("stop_sequence", ("END", "x"), "stop_sequence", None),
        ("content_filter", (), "refusal", None),
    ],
)
def test_stop_reasons_are_translated(reason, stops, word, sequence):
    delta = stream(Text("a"), Stop(reason), stop=stops)[-2]["delta"]

    assert (word, sequence) == (delta["stop_reason"], delta["stop_sequence"])


def test_the_call_of_a_toolset_s_member_names_the_toolset():
    options = AnthropicClientOptions(toolsets={"left_click": "computer"})
    sent = Request(model="m", messages=(UserMessage(()),), client_options=options)
    events = [*call('{"coordinate": [1, 2]}', name="left_click"), Stop("tool_use")]
    encoder = ANTHROPIC.encoder(sent, IDENTITY)
    streamed = encoder.encode(0, events).decode()
    (block,) = json.loads(ANTHROPIC.encode_reply(sent, IDENTITY, [fold(events)]))["content"]

    assert ("left_click", "computer", {"coordinate": [1, 2]}) == (block["name"], block["toolset_name"], block["input"])
    assert '"name":"left_click","toolset_name":"computer"' in streamed


def test_reasoning_is_a_thinking_block_ended_by_its_signature():
    events = stream(
        Reasoning("a"), Reasoning("b", "sig"), Reasoning("", "redacted_thinking:data"), Text("c"), Stop("complete")
    )
    blocks = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]

    assert ["thinking", "redacted_thinking", "text"] == blocks
    assert {"type": "signature_delta", "signature": "sig"} == deltas[2]


def test_reasoning_is_dropped_unless_the_client_requested_it():
    events = stream(Reasoning("a", "sig"), Text("c"), Stop("complete"), thinking=False)

    assert ["text"] == [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]


@pytest.mark.parametrize("kind", ["malformed", "invalid", "limit"])
@pytest.mark.parametrize("sent", [[], ['{"a"'], ['{"a":1}']])
def test_a_failed_call_is_never_a_finished_tool_use(kind, sent):
    events = stream(Text("a"), *bad(kind, sent), Stop("max_tokens"), reads=3)

    assert "error" == events[-1]["type"]
    assert "api_error" == events[-1]["error"]["type"]
    assert "no good" in events[-1]["error"]["message"]
    assert 1 == types(events).count("content_block_stop")
    assert not {"message_delta", "message_stop"} & set(types(events))


@pytest.mark.parametrize("reason", ["max_tokens", "complete"])
@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ([], []),
        (["{"], []),
        (['{"a"'], ["a"]),
        (['{"a":1}'], ["a"]),
        (['{"a": {"b": [1, {"c": "x\\u00'], ["a"]),
        (['{"a":1,"b":-'], ["a", "b"]),
        (['{"a":1, "b": "\\'], ["a", "b"]),
        (['{"a":tr'], ["a"]),
        (['{"a":[1,'], ["a"]),
        (['{"a":1,"'], ["a", ""]),
    ],
)
def test_a_truncated_call_is_closed_with_arguments_that_no_tool_can_use(sent, keys, reason):
    events = stream(Text("a"), *bad("truncated", sent), Stop(reason), reads=3 + len(sent))
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    arguments = json.loads("".join(delta.get("partial_json", "") for delta in deltas))

    assert dict.fromkeys(keys) == {name: value for name, value in arguments.items() if name != "_truncated"}
    assert "cut off" in arguments["_truncated"]
    assert 2 == types(events).count("content_block_stop")
    assert ("max_tokens", "message_stop") == (events[-2]["delta"]["stop_reason"], events[-1]["type"])


@pytest.mark.parametrize("reason", ["tool_use", "complete", "stop_sequence", "max_tokens"])
def test_a_call_that_breaks_off_after_a_valid_one_ends_the_reply_as_cut_off(reason):
    events = stream(*call(), *bad("truncated", ['{"a"'], index=1), Stop(reason), reads=8)

    assert ("max_tokens", "message_stop") == (events[-2]["delta"]["stop_reason"], events[-1]["type"])


@pytest.mark.parametrize("after", [[Text("b")], [Reasoning("b")], call()])
def test_no_block_follows_a_call_that_broke_off(after):
    cut_off = stream(*bad("truncated", ['{"a"']), *after, Stop("max_tokens"), reads=4)
    went_on = stream(*bad("truncated", ['{"a"']), *after, Stop("complete"), reads=4)

    assert 1 == types(cut_off).count("content_block_start") == types(cut_off).count("content_block_stop")
    assert "max_tokens" == cut_off[-2]["delta"]["stop_reason"]
    assert "the reply went on after it" in went_on[-1]["error"]["message"]
    assert not {"content_block_stop", "message_delta", "message_stop"} & set(types(went_on))


def test_a_truncated_call_in_one_batch_is_left_out():
    events = stream(Text("a"), *bad("truncated", ['{"a"']), Stop("max_tokens"))

    assert ["text"] == [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert ("max_tokens", "message_stop") == (events[-2]["delta"]["stop_reason"], events[-1]["type"])


def test_a_failed_call_in_one_batch_is_an_error_if_no_call_is_valid():
    events = stream(Text("a"), *bad("malformed", ['{"a"']), Text("b"), Stop("complete"))

    assert ["text"] == [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert ["a", "b"] == [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert "no good" in events[-1]["error"]["message"]
    assert not {"message_delta", "message_stop"} & set(types(events))


def test_a_failed_call_in_one_batch_is_dropped_next_to_valid_calls():
    one, other = call(), bad("malformed", ['{"a"'], index=1)
    for calls in ((*one, *other), (*other, *one)):
        events = stream(*calls, Stop("tool_use"))

        assert 1 == types(events).count("content_block_start") == types(events).count("content_block_stop")
        assert ("tool_use", "message_stop") == (events[-2]["delta"]["stop_reason"], events[-1]["type"])


def test_nothing_follows_an_error():
    encoder = ANTHROPIC.encoder(request(), IDENTITY)
    body = encoder.encode(0, [Text("a"), Error("upstream_error", "lost"), Text("b")])

    assert b'"message":"lost"' in body
    assert b'"b"' not in body
    assert b"" == encoder.encode(0, [Text("c")]) + encoder.close()


@pytest.mark.parametrize("events", [[], [Text("a")], call()])
def test_a_stream_that_is_closed_before_its_stop_ends_with_an_error(events):
    assert "broke off" in stream(*events)[-1]["error"]["message"]


def test_the_stop_reason_error_is_an_error():
    assert "error" == stream(Text("a"), Stop("error"))[-1]["type"]


def test_a_ping_is_a_separate_event():
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'

    assert ping == ANTHROPIC.encoder(request(), IDENTITY).ping()
    assert b": 3 of 9\n\n" + ping == ANTHROPIC.encoder(request(), IDENTITY).ping("3 of 9")


def test_other_choices_are_dropped():
    assert b"" == ANTHROPIC.encoder(request(), IDENTITY).encode(1, [Text("a")])


def test_lone_surrogates_become_replacement_characters():
    events = stream(Text("a\ud800"), *call('{"\udc00":1}', name="f\ud800"), Stop("tool_use"))

    assert {"type": "text_delta", "text": "a\ufffd"} == events[2]["delta"]
    assert "f\ufffd" == events[4]["content_block"]["name"]


@st.composite
def signed(draw):
    """Draw a reply whose reasoning may be signed."""
    events = []
    for event in draw(replies()):
        if isinstance(event, Reasoning) and draw(st.booleans()):
            events.append(Reasoning(event.text, draw(st.sampled_from(["EqQB", "s"]))))
        else:
            events.append(event)
    return events


@given(signed(), st.data())
def test_what_is_encoded_decodes_to_the_same_events(events, data):
    """Law 9, with the bytes split at random."""
    *said, stop = events
    body = written(*said, Usage(7, 5, 3), stop)
    found = decode_body(cut(body, lambda: data.draw(st.integers(1, 300))), Anthropic)

    assert merge_events((0, event) for event in [*said, Usage(7, 5, 3), stop]) == found


@given(replies())
def test_argument_fragments_are_forwarded_one_by_one_but_for_the_last_brace(events):
    sent = [event.tool_call_arguments_chunk for event in events if isinstance(event, ToolCallChunk)]
    deltas = [event["delta"] for event in stream(*events) if event["type"] == "content_block_delta"]
    pieces = [delta["partial_json"] for delta in deltas if delta["type"] == "input_json_delta"]

    assert "".join(sent) == "".join(pieces)
    assert len(pieces) >= sum(piece.strip()[-1:] not in ("", "}") for piece in sent)  # space behind a brace waits, too


def whole_reply(*events, **fields):
    return json.loads(ANTHROPIC.encode_reply(request(**fields), IDENTITY, [fold(events)]))


def test_a_message_with_every_kind_of_block():
    message = whole_reply(
        Reasoning("hm"),
        Reasoning("", "sig"),
        Text("Let me see."),
        *call('{"a":1.0}'),
        *call("{}", index=1),
        Usage(7, 5, 3),
        Stop("tool_use"),
    )

    assert [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        text_block("Let me see."),
        tool_use_block("call_0", {"a": 1.0}),
        tool_use_block("call_1", {}),
    ] == message["content"]
    assert ("msg_1", "message", "assistant", "the model", "tool_use", None) == tuple(
        message[name] for name in ("id", "type", "role", "model", "stop_reason", "stop_sequence")
    )
    assert (4, 5, 3) == tuple(
        message["usage"][name] for name in ("input_tokens", "output_tokens", "cache_read_input_tokens")
    )


def test_thinking_is_dropped_unless_the_client_requested_it():
    message = whole_reply(Reasoning("hm"), Text("a"), Stop("complete"), thinking=False)

    assert [text_block("a")] == message["content"]


def test_redacted_reasoning_is_a_redacted_block():
    message = whole_reply(Reasoning("", "redacted_thinking:Emwk"), Stop("complete"))

    assert [{"type": "redacted_thinking", "data": "Emwk"}] == message["content"]


def test_a_failed_call_is_dropped_next_to_a_valid_one():
    message = whole_reply(*bad("malformed", ['{"a"']), *call(index=1), Stop("tool_use"))

    assert ["call_1"] == [block["id"] for block in message["content"]]


@pytest.mark.parametrize(("kind", "reason"), [("truncated", "max_tokens"), ("malformed", "end_turn")])
def test_a_sentence_stands_for_a_failed_call_alone(kind, reason):
    message = whole_reply(*bad(kind, ['{"a"']), Stop("complete"))

    assert [text_block(failure_sentence(kind))] == message["content"]
    assert reason == message["stop_reason"]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="lost"):
        whole_reply(Text("a"), Error("upstream_error", "lost"))
