"""The reply to the client, streamed for every event (and law 9), and whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.gemini import GEMINI, Gemini
from fcshim.codecs.gemini.options import GeminiClientOptions
from fcshim.codecs.gemini.parts import unwrap_signature
from fcshim.errors import UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request, UserMessage
from fcshim.reply import fold
from tests.codecs.helpers import cut, decode_body, merge_events
from tests.codecs.openai_chat.test_encoder import bad, call, replies

IDENTITY = ReplyIdentity("resp_1", 1700000000, "the model")
KNOWN = {"modelVersion": "the model", "responseId": "resp_1"}


def request(*, array=False, thoughts=True, **fields):
    options = GeminiClientOptions(array=array, thoughts=thoughts)
    return Request(model="m", messages=(UserMessage(()),), stream=True, client_options=options, **fields)


def written(*events, close=True, **fields):
    encoder = GEMINI.encoder(request(**fields), IDENTITY)
    return encoder.encode(0, events) + (encoder.close() if close else b"")


def stream(*events, **fields):
    """Read the stream as strictly as Google's clients do: nothing but `data: ` and empty lines."""
    lines = written(*events, **fields).decode().split("\n")

    assert all(not line or line.startswith("data: {") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


def parts(chunks):
    return [part for chunk in chunks for each in chunk.get("candidates", ()) for part in each["content"]["parts"]]


def test_a_text_reply_is_chunks_and_a_final_chunk():
    def chunk(text, **fields):
        return {"content": {"parts": [{"text": text}], "role": "model"}, **fields, "index": 0}

    usage = {
        "promptTokenCount": 7,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "cachedContentTokenCount": 1,
        "totalTokenCount": 12,
    }
    expected = [
        {"candidates": [chunk("Hel")], **KNOWN},
        {"candidates": [chunk('lo "\n\u2028')], **KNOWN},
        {"candidates": [chunk("", finishReason="STOP")], "usageMetadata": usage, **KNOWN},
    ]

    assert expected == stream(Text("Hel"), Text('lo "\n\u2028'), Usage(7, 5, 1, 2), Stop("complete"))


def test_a_call_is_written_complete_after_its_end():
    encoder = GEMINI.encoder(request(), IDENTITY)
    *begun, end = call('{"a":1.0}', sent=['{"a"', ":1.0}"])

    assert b"" == encoder.encode(0, begun)
    (chunk,) = [json.loads(line[6:]) for line in encoder.encode(0, [end]).split(b"\n") if line]
    assert [{"functionCall": {"id": "call_0", "name": "f", "args": {"a": 1.0}}}] == parts([chunk])


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("complete", "STOP"),
        ("tool_use", "STOP"),
        ("stop_sequence", "STOP"),
        ("max_tokens", "MAX_TOKENS"),
        ("content_filter", "SAFETY"),
    ],
)
def test_stop_reasons_are_translated(reason, word):
    assert word == stream(Text("a"), Stop(reason))[-1]["candidates"][0]["finishReason"]


def test_a_signature_is_attached_to_the_next_part():
    chunks = stream(Reasoning("hm"), Reasoning("", "c2ln"), *call(), *call(index=1), Stop("tool_use"))

    assert [None, "c2ln", None, None] == [part.get("thoughtSignature") for part in parts(chunks)]
    assert [True, None, None, None] == [part.get("thought") for part in parts(chunks)]


def test_thoughts_are_dropped_unless_requested_but_signatures_are_kept():
    chunks = stream(Reasoning("hm", "c2ln"), *call(), Stop("tool_use"), thoughts=False)

    assert ["c2ln", None] == [part.get("thoughtSignature") for part in parts(chunks)]


@pytest.mark.parametrize(
    ("kind", "word"),
    [("truncated", "MAX_TOKENS"), ("malformed", "MALFORMED_FUNCTION_CALL"), ("limit", "MALFORMED_FUNCTION_CALL")],
)
@pytest.mark.parametrize("sent", [[], ['{"a"'], ['{"a":1}']])
def test_a_failed_call_appears_only_in_the_finish_reason(kind, word, sent):
    chunks = stream(Text("a"), *bad(kind, sent), Stop("complete"))

    assert [{"text": "a"}, {"text": ""}] == parts(chunks)
    assert word == chunks[-1]["candidates"][0]["finishReason"]


def test_a_failed_call_does_not_affect_a_valid_one():
    chunks = stream(*bad("malformed", ['{"a"']), *call(index=1), Stop("tool_use"))

    assert ["call_1"] == [part["functionCall"]["id"] for part in parts(chunks) if "functionCall" in part]
    assert "STOP" == chunks[-1]["candidates"][0]["finishReason"]


def test_several_choices_have_their_indexes():
    encoder = GEMINI.encoder(request(n=2), IDENTITY)
    body = encoder.encode(1, [Text("b"), Stop("complete")]) + encoder.encode(0, [Text("a"), Stop("complete")])

    assert b"" == encoder.close()
    assert [1, 1, 0, 0] == [json.loads(line[6:])["candidates"][0]["index"] for line in body.split(b"\n") if line]


def test_without_sse_the_stream_is_one_array():
    encoder = GEMINI.encoder(request(array=True), IDENTITY)
    body = encoder.encode(0, [Text("a"), *call(), Usage(), Stop("tool_use")]) + encoder.ping() + encoder.close()

    assert "application/json; charset=UTF-8" == encoder.content_type
    assert 3 == len(json.loads(body))


def test_a_broken_array_stream_ends_with_an_error_and_is_valid_json():
    chunks = json.loads(written(Text("a"), Error("upstream_error", "lost"), Text("b"), array=True))

    assert "lost" == chunks[-1]["error"]["message"]
    assert 2 == len(chunks)


def test_nothing_follows_an_error():
    encoder = GEMINI.encoder(request(), IDENTITY)
    body = encoder.encode(0, [Text("a"), Error("upstream_error", "lost"), Text("b")])

    assert b'"message":"lost"' in body
    assert b'"b"' not in body
    assert b"" == encoder.encode(0, [Text("c")]) + encoder.close()


@pytest.mark.parametrize("events", [[], [Text("a")], call()])
def test_a_stream_that_is_closed_before_its_stop_ends_with_an_error(events):
    assert "broke off" in stream(*events)[-1]["error"]["message"]


def test_the_stop_reason_error_is_an_error():
    assert "error" in stream(Text("a"), Stop("error"))[-1]


def test_a_ping_is_white_space():
    assert GEMINI.encoder(request(), IDENTITY).ping().isspace()
    assert GEMINI.encoder(request(), IDENTITY).ping("3 of 9").isspace()


def as_api_events(events):
    """Return the events as this API can express them: complete calls, with arguments as re-encoded JSON."""
    for event in events:
        match event:
            case ToolCallChunk():
                pass
            case ToolCallEnd(call_id, name, arguments, index):
                yield ToolCallChunk(call_id, plain(arguments), index)
                yield ToolCallEnd(call_id, name, plain(arguments), index)
            case _:
                yield event


def plain(arguments):
    return json.dumps(json.loads(arguments), separators=(",", ":"), ensure_ascii=False)


@st.composite
def signed(draw):
    """Draw a reply in which a call may have a signature, as in the API."""
    events = []
    for event in draw(replies()):
        if isinstance(event, ToolCallStart) and draw(st.booleans()):
            events.append(Reasoning("", draw(st.sampled_from(["c2ln", "not base64!", "redacted_thinking:Emwk"]))))
        events.append(event)
    return events


@given(signed(), st.booleans(), st.data())
def test_what_is_encoded_decodes_to_the_same_events(events, array, data):
    """Law 9, with the bytes split at random, as events and as an array. Foreign signatures arrive wrapped."""
    *said, stop = events
    body = written(*said, Usage(7, 5, 3, 2), stop, array=array)
    found = decode_body(cut(body, lambda: data.draw(st.integers(1, 300))), Gemini)

    assert merge_events((0, event) for event in as_api_events([*said, Usage(7, 5, 3, 2), stop])) == [
        (0, as_api_event(event)) for _, event in found
    ]


def as_api_event(event):
    if isinstance(event, Reasoning) and event.signature:
        return Reasoning(event.text, unwrap_signature(event.signature))
    return event


def whole_reply(*choices, **fields):
    return json.loads(GEMINI.encode_reply(request(**fields), IDENTITY, [fold(events) for events in choices]))


def whole_parts(*events, **fields):
    return whole_reply(events, **fields)["candidates"][0]["content"]["parts"]


def test_a_reply_with_every_kind_of_part():
    reply = whole_reply(
        [
            Reasoning("hm"),
            Reasoning("", "c2ln"),
            Text("a"),
            *call('{"a":1.0}'),
            *call(index=1),
            Usage(7, 5),
            Stop("tool_use"),
        ]
    )

    assert {
        "content": {
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "a"},
                {"functionCall": {"id": "call_0", "name": "f", "args": {"a": 1.0}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"id": "call_1", "name": "f", "args": {}}},
            ],
            "role": "model",
        },
        "finishReason": "STOP",
        "index": 0,
    } == reply["candidates"][0]
    assert (7, 5, 12) == tuple(
        reply["usageMetadata"][name] for name in ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")
    )
    assert KNOWN.items() <= reply.items()


def test_a_signature_without_a_call_goes_to_the_text():
    assert [{"text": "a", "thoughtSignature": "c2ln"}] == whole_parts(
        Text("a"), Reasoning("", "c2ln"), Stop("complete"), thoughts=False
    )


def test_an_empty_reply_has_an_empty_text():
    assert [{"text": ""}] == whole_parts(Reasoning("hm"), Stop("complete"), thoughts=False)


def test_several_choices_are_candidates():
    reply = whole_reply([Text("a"), Stop("complete")], [Text("b"), Stop("max_tokens")])

    assert [(0, "STOP"), (1, "MAX_TOKENS")] == [(each["index"], each["finishReason"]) for each in reply["candidates"]]


def test_a_failed_call_appears_only_in_the_finish_reason_of_a_whole_reply():
    (candidate,) = whole_reply([*bad("malformed", ['{"a"']), Stop("complete")])["candidates"]

    assert [{"text": ""}] == candidate["content"]["parts"]
    assert "MALFORMED_FUNCTION_CALL" == candidate["finishReason"]
    assert "no good" in candidate["finishMessage"]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="lost"):
        whole_reply([Text("a"), Error("upstream_error", "lost")])
