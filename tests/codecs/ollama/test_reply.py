import json

import pytest

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.ollama import OLLAMA, Ollama
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, Usage
from fcshim.reply import fold
from tests.codecs.helpers import decode_body
from tests.codecs.ollama.test_encoder import IDENTITY, KNOWN, request
from tests.codecs.openai_chat.test_encoder import bad, call


def written(*events, identity=IDENTITY, **options):
    return json.loads(OLLAMA.encode_reply(request(**options), identity, [fold(events)]))


def test_a_chat_reply_is_one_object():
    expected = {
        **KNOWN,
        "message": {
            "role": "assistant",
            "content": "a",
            "thinking": "hm",
            "tool_calls": [{"id": "call_0", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}],
        },
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 7,
        "eval_count": 5,
    }

    assert expected == written(Reasoning("hm"), Text("a"), *call('{"a":1}'), Usage(7, 5), Stop("tool_use"))


def test_a_generate_reply_has_its_text_in_response():
    body = written(Reasoning("hm"), Text("Blue"), Stop("max_tokens"), generate=True, thinking=False)

    assert ("Blue", "length", False) == (body["response"], body["done_reason"], "thinking" in body)


def test_durations_are_written_if_there_is_a_clock():
    identity = ReplyIdentity("x", 1700000000, "m", clock=lambda: 1.5)
    body = written(Text("a"), Stop("complete"), identity=identity)

    assert (1_500_000_000, 1_500_000_000) == (body["total_duration"], body["eval_duration"])


@pytest.mark.parametrize(("kind", "word"), [("truncated", "length"), ("malformed", "stop")])
def test_a_failed_call_alone_leaves_its_excerpt_as_text(kind, word):
    body = written(*bad(kind, ['{"a"']), Stop("complete"))

    assert (word, "raw") == (body["done_reason"], body["message"]["content"])
    assert "tool_calls" not in body["message"]


def test_failed_calls_are_dropped_and_valid_ones_kept():
    body = written(*bad("malformed", ['{"a"']), *call("{}", index=1), Stop("tool_use"))

    assert ["call_1"] == [made["id"] for made in body["message"]["tool_calls"]]
    assert "" == body["message"]["content"]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="gone"):
        written(Text("a"), Error("upstream_error", "gone"))


def test_a_lone_surrogate_is_replaced():
    body = written(Text("a\ud83d"), *call('{"a":"\ud83d"}'), Stop("tool_use"))

    assert "a\ufffd" == body["message"]["content"]


@pytest.mark.parametrize(("unload", "word"), [(False, "load"), (True, "unload")])
@pytest.mark.parametrize("generate", [True, False])
def test_without_a_prompt_the_model_is_reported_as_loaded(unload, word, generate):
    body = json.loads(OLLAMA.encode_reply(request(unload=unload, generate=generate), IDENTITY, []))

    assert (True, word) == (body["done"], body["done_reason"])
    assert "" == (body["response"] if generate else body["message"]["content"])


def test_a_written_reply_can_be_decoded():
    events = [Reasoning("hm"), Text("a"), *call('{"a":1}'), *call(index=1, name="g"), Usage(3, 2), Stop("tool_use")]
    body = OLLAMA.encode_reply(request(), IDENTITY, [fold(events)])

    assert [(0, event) for event in events] == decode_body([body], Ollama)


@pytest.mark.parametrize("error", [FcshimError("no"), RequestError("no", param="n"), UpstreamError("no")])
def test_an_error_is_its_message(error):
    assert {"error": "no"} == json.loads(OLLAMA.encode_error(error))
    assert OLLAMA.encode_error(error) + b"\n" == OLLAMA.encode_stream_error(error)


def test_an_upstream_error_is_read():
    error = OLLAMA.decode_error(404, {}, b'{"error":"model \\"x\\" not found, try pulling it first"}')

    assert 404 == error.status
    assert "not found" in error.message
