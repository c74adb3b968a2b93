import json

import pytest

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.openai_responses import OPENAI_RESPONSES, OpenAIResponses
from fcshim.codecs.reply_store import ReplyStore
from fcshim.errors import RequestError, UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, Usage
from fcshim.reply import fold
from tests.codecs.helpers import decode_body
from tests.codecs.openai_chat.test_encoder import bad, call
from tests.codecs.openai_responses.test_encoder import IDENTITY, request, stream


def written(*events, identity=IDENTITY, **fields):
    return json.loads(OPENAI_RESPONSES.encode_reply(request(**fields), identity, [fold(events)]))


def test_a_whole_reply_equals_the_final_response_of_a_stream():
    events = [
        Reasoning("hm"),
        Text("a"),
        *call('{"a":1}'),
        *call(index=1, name="calc__f"),
        Usage(7, 5),
        Stop("tool_use"),
    ]

    assert stream(*events, temperature=0.5)[-1]["response"] == written(*events, temperature=0.5)


def test_custom_calls_have_their_text_as_input():
    (item,) = written(*call('{"input":"ls"}', name="patch"), Stop("tool_use"))["output"]

    assert ("custom_tool_call", "ls", "ctc_100") == (item["type"], item["input"], item["id"])


@pytest.mark.parametrize(("kind", "status"), [("truncated", "incomplete"), ("malformed", "completed")])
def test_a_bad_call_alone_shows_its_excerpt_and_is_no_call(kind, status):
    body = written(*bad(kind, ['{"a"']), Stop("complete"))

    assert (status, "raw") == (body["status"], body["output"][0]["content"][0]["text"])


def test_invalid_calls_are_left_out_and_valid_ones_kept():
    body = written(*bad("malformed", ['{"a"']), *call(index=1), Stop("tool_use"))

    assert ["call_1"] == [item["call_id"] for item in body["output"]]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="gone"):
        written(Text("a"), Error("upstream_error", "gone"))


@pytest.mark.parametrize("store", [None, True, False])
def test_the_response_is_stored_unless_store_is_false(store):
    memory = ReplyStore()
    written(Text("a"), Stop("complete"), identity=ReplyIdentity("resp_1", 1, "m", reply_store=memory), store=store)

    assert (store is not False) == (memory.get("resp_1") is not None)


def test_written_data_is_read_again():
    events = [
        Reasoning("hm"),
        Text("a"),
        *call('{"a":1}'),
        *call(index=1, name="g"),
        Usage(3, 2, 1, 1),
        Stop("tool_use"),
    ]
    body = OPENAI_RESPONSES.encode_reply(request(), IDENTITY, [fold(events)])

    assert [(0, event) for event in events] == decode_body([body], OpenAIResponses)


def test_errors_have_the_form_of_openai():
    error = RequestError("no", param="input", kind="previous_response_not_found")
    body = json.loads(OPENAI_RESPONSES.encode_error(error))["error"]

    assert ("invalid_request_error", "input", "previous_response_not_found") == (
        body["type"],
        body["param"],
        body["code"],
    )
    assert "no" == json.loads(OPENAI_RESPONSES.encode_stream_error(error).split(b"data: ")[1])["error"]["message"]


def test_an_upstream_error_is_read():
    error = OPENAI_RESPONSES.decode_error(429, {}, b'{"error":{"message":"slow down","type":"rate_limit"}}')

    assert (429, True) == (error.status, "slow down" in error.message)


def test_a_list_of_models_has_openais_form():
    assert ["m"] == OPENAI_RESPONSES.decode_models(b'{"data":[{"id":"m"}]}')


def test_a_count_request_is_read_as_a_whole_request():
    request_ = OPENAI_RESPONSES.decode_count(b'{"model":"m","input":"hi"}', RequestTarget())

    assert 1 == len(request_.messages)


def test_a_token_count_has_its_form():
    assert {"object": "response.input_tokens", "input_tokens": 7} == json.loads(OPENAI_RESPONSES.encode_count(7))
