import json

import pytest

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_chat.request import ChatClientOptions
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, Usage
from fcshim.reply import fold
from tests.codecs.helpers import decode_body
from tests.codecs.openai_chat.test_encoder import IDENTITY, bad, call, request


def written(*choices, **fields):
    return json.loads(OPENAI_CHAT.encode_reply(request(**fields), IDENTITY, [fold(events) for events in choices]))


def test_a_text_reply_has_no_tool_calls():
    expected = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "the model",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ab", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
    }

    assert expected == written([Text("a"), Text("b"), Stop("complete")])


def test_calls_without_text_have_content_null():
    choice = written([*call('{"a":1}'), Stop("tool_use")])["choices"][0]

    assert "tool_calls" == choice["finish_reason"]
    assert choice["message"]["content"] is None
    assert [{"id": "call_0", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}] == choice[
        "message"
    ]["tool_calls"]


def test_legacy_and_custom_calls_have_their_own_forms():
    functions, custom_f = ChatClientOptions(functions=True), ChatClientOptions(custom=frozenset(["f"]))
    legacy = written([*call('{"a":1}'), Stop("tool_use")], client_options=functions)["choices"][0]
    custom = written([*call('{"input":"ls"}'), Stop("tool_use")], client_options=custom_f)["choices"][0]

    assert ("function_call", {"name": "f", "arguments": '{"a":1}'}) == (
        legacy["finish_reason"],
        legacy["message"]["function_call"],
    )
    assert [{"id": "call_0", "type": "custom", "custom": {"name": "f", "input": "ls"}}] == custom["message"][
        "tool_calls"
    ]


def test_invalid_calls_are_left_out_and_valid_ones_kept():
    choice = written([*bad("malformed", ['{"a"']), *call("{}", index=1), Stop("tool_use")])["choices"][0]

    assert ["call_1"] == [made["id"] for made in choice["message"]["tool_calls"]]


@pytest.mark.parametrize(("kind", "word"), [("truncated", "length"), ("malformed", "stop")])
def test_an_invalid_call_alone_becomes_its_excerpt(kind, word):
    choice = written([*bad(kind, ['{"a"']), Stop("complete")])["choices"][0]

    assert (word, "raw") == (choice["finish_reason"], choice["message"]["content"])
    assert "tool_calls" not in choice["message"]


def test_usage_counts_the_prompt_once_and_sums_the_output():
    body = written([Text("a"), Usage(7, 2, 1, 1), Stop("complete")], [Text("b"), Usage(7, 3, 1), Stop("max_tokens")])

    assert (7, 5, 12) == tuple(body["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    assert [(0, "stop"), (1, "length")] == [(choice["index"], choice["finish_reason"]) for choice in body["choices"]]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="gone"):
        written([Text("a"), Error("upstream_error", "gone")])


def test_written_data_is_read_again():
    events = [
        Reasoning("hm"),
        Text("a"),
        *call('{"a":1}'),
        *call("{}", index=1, name="g"),
        Stop("tool_use"),
        Usage(3, 2),
    ]
    body = OPENAI_CHAT.encode_reply(request(), IDENTITY, [fold(events)])
    expected = [
        Reasoning("hm"),
        Text("a"),
        *call('{"a":1}'),
        *call("{}", index=1, name="g"),
        Stop("tool_use"),
        Usage(3, 2),
    ]

    assert [(0, event) for event in expected] == decode_body([body])


def written_error(error):
    return json.loads(OPENAI_CHAT.encode_error(error))["error"]


def test_a_request_error_names_its_field():
    expected = {"message": "n: no", "type": "invalid_request_error", "param": "n", "code": None}

    assert expected == written_error(RequestError("n: no", param="n"))


def test_other_kinds_are_the_code_of_a_request_error_and_the_type_of_ours():
    assert ("invalid_request_error", "model_not_found") == tuple(
        written_error(RequestError("no", kind="model_not_found", status=404))[name] for name in ("type", "code")
    )
    assert ("upstream_error", None) == tuple(written_error(UpstreamError("no"))[name] for name in ("type", "code"))
    assert "internal_error" == written_error(FcshimError("no"))["type"]
