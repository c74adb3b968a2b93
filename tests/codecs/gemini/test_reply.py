"""The client's whole reply."""

import json

import pytest

from fcshim.codecs.gemini import GEMINI
from fcshim.errors import UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, Usage
from fcshim.reply import fold
from tests.codecs.gemini.test_encoder import IDENTITY, KNOWN, request
from tests.codecs.openai_chat.test_encoder import bad, call


def written(*choices, **fields):
    return json.loads(GEMINI.encode_reply(request(**fields), IDENTITY, [fold(events) for events in choices]))


def parts(*events, **fields):
    return written(events, **fields)["candidates"][0]["content"]["parts"]


def test_a_reply_with_every_kind_of_part():
    reply = written(
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
    assert [{"text": "a", "thoughtSignature": "c2ln"}] == parts(
        Text("a"), Reasoning("", "c2ln"), Stop("complete"), thoughts=False
    )


def test_an_empty_reply_has_an_empty_text():
    assert [{"text": ""}] == parts(Reasoning("hm"), Stop("complete"), thoughts=False)


def test_several_choices_are_candidates():
    reply = written([Text("a"), Stop("complete")], [Text("b"), Stop("max_tokens")])

    assert [(0, "STOP"), (1, "MAX_TOKENS")] == [(each["index"], each["finishReason"]) for each in reply["candidates"]]


def test_a_failed_call_appears_only_in_the_finish_reason():
    (candidate,) = written([*bad("malformed", ['{"a"']), Stop("complete")])["candidates"]

    assert [{"text": ""}] == candidate["content"]["parts"]
    assert "MALFORMED_FUNCTION_CALL" == candidate["finishReason"]
    assert "no good" in candidate["finishMessage"]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="lost"):
        written([Text("a"), Error("upstream_error", "lost")])
