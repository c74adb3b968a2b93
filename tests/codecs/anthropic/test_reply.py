"""The client's whole reply."""

import json

import pytest

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.errors import UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, Usage
from fcshim.reply import fold
from tests.codecs.anthropic.test_encoder import IDENTITY, request
from tests.codecs.openai_chat.test_encoder import bad, call


def written(*events, **fields):
    return json.loads(ANTHROPIC.encode_reply(request(**fields), IDENTITY, [fold(events)]))


def test_a_message_with_every_kind_of_block():
    message = written(
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
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "call_0", "name": "f", "input": {"a": 1.0}},
        {"type": "tool_use", "id": "call_1", "name": "f", "input": {}},
    ] == message["content"]
    assert ("msg_1", "message", "assistant", "the model", "tool_use", None) == tuple(
        message[name] for name in ("id", "type", "role", "model", "stop_reason", "stop_sequence")
    )
    assert (4, 5, 3) == tuple(
        message["usage"][name] for name in ("input_tokens", "output_tokens", "cache_read_input_tokens")
    )


def test_thinking_is_dropped_unless_the_client_requested_it():
    message = written(Reasoning("hm"), Text("a"), Stop("complete"), thinking=False)

    assert [{"type": "text", "text": "a"}] == message["content"]


def test_redacted_reasoning_is_a_redacted_block():
    message = written(Reasoning("", "redacted_thinking:Emwk"), Stop("complete"))

    assert [{"type": "redacted_thinking", "data": "Emwk"}] == message["content"]


def test_a_failed_call_is_dropped_next_to_a_valid_one():
    message = written(*bad("malformed", ['{"a"']), *call(index=1), Stop("tool_use"))

    assert ["call_1"] == [block["id"] for block in message["content"]]


@pytest.mark.parametrize(("kind", "reason"), [("truncated", "max_tokens"), ("malformed", "end_turn")])
def test_a_failed_call_alone_leaves_its_excerpt_as_text(kind, reason):
    message = written(*bad(kind, ['{"a"']), Stop("complete"))

    assert [{"type": "text", "text": "raw"}] == message["content"]
    assert reason == message["stop_reason"]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="lost"):
        written(Text("a"), Error("upstream_error", "lost"))
