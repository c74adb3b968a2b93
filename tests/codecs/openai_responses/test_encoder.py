"""The reply to the client, streamed and whole."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.base import ReplyIdentity, RequestTarget
from fcshim.codecs.openai_responses import OPENAI_RESPONSES, OpenAIResponses, ResponsesEncoder
from fcshim.codecs.openai_responses.request_tools import ResponsesClientOptions
from fcshim.errors import RequestError, UpstreamError
from fcshim.events import CallError, Error, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request, UserMessage
from fcshim.reply import fold
from tests.codecs.helpers import cut, decode_body, merge_events
from tests.codecs.openai_chat.test_encoder import bad, call, failure_sentence, replies
from tests.codecs.stored_documents import StoredDocuments

IDENTITY = ReplyIdentity("resp_1", 1700000000, "the model")
OPTIONS = ResponsesClientOptions(custom=frozenset(["patch"]), namespaces={"calc__f": "calc"})


def request(options=OPTIONS, **fields):
    return Request(
        model="m",
        messages=(UserMessage(()),),
        stream=True,
        client_options=options,
        verbatim={"openai_responses": fields},
    )


def parsed(body):
    """Give the events of a stream; what every event must have is checked here."""
    found = []
    for part in body.decode().split("\n\n")[:-1]:
        name, data = part.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))

        assert "event: " + found[-1]["type"] == name
    assert list(range(len(found))) == [event["sequence_number"] for event in found]
    return found


def stream(*events, close=True, identity=IDENTITY, **fields):
    encoder = OPENAI_RESPONSES.encoder(request(**fields), identity)
    return parsed(encoder.encode(0, events) + (encoder.close() if close else b""))


def kinds(events):
    return [event["type"].removeprefix("response.") for event in events]


def only(events, kind):
    return [event for event in events if event["type"] == kind]


def test_a_text_is_a_message_from_its_first_event_to_its_last():
    events = stream(Text("Hel"), Text('lo "\u2028'), Usage(7, 5, 3, 2), Stop("complete"))
    text = 'Hello "\u2028'
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": "msg_100", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    at = {"item_id": "msg_100", "output_index": 0, "content_index": 0}
    expected = [
        {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
        {**at, "part": {**part, "text": ""}},
        {**at, "delta": "Hel", "logprobs": []},
        {**at, "delta": 'lo "\u2028', "logprobs": []},
        {**at, "text": text, "logprobs": []},
        {**at, "part": part},
        {"output_index": 0, "item": item},
    ]

    assert expected == [
        {name: value for name, value in event.items() if name not in ("type", "sequence_number")}
        for event in events[2:-1]
    ]
    assert [
        *("created", "in_progress", "output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"),
        "completed",
    ] == kinds(events)
    assert [item] == events[-1]["response"]["output"]


def test_the_response_echoes_what_was_asked():
    fields = {
        "instructions": "be brief",
        "temperature": 0.5,
        "tools": [{"type": "function", "name": "f", "description": "F", "parameters": {}, "strict": True}],
        "input": "x",
    }
    events = stream(Text("a"), Usage(7, 5, 3, 2), Stop("complete"), **fields)
    first, last = events[0]["response"], events[-1]["response"]

    assert ("resp_1", "response", 1700000000, "the model", "in_progress") == tuple(
        first[name] for name in ("id", "object", "created_at", "model", "status")
    )
    assert fields == {name: first[name] for name in fields if name in first} | {"input": "x"}
    assert ([], None, None, None) == tuple(first[name] for name in ("output", "usage", "error", "incomplete_details"))
    assert "completed" == last["status"]
    assert {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 12,
    } == last["usage"]
    assert {name: first[name] for name in first if name not in ("output", "status", "usage", "completed_at")} == {
        name: last[name] for name in last if name not in ("output", "status", "usage", "completed_at")
    }


def test_items_come_one_at_a_time_with_their_own_ids():
    content = [Reasoning("hm"), Text("a"), *call('{"a":1}', index=0, sent=['{"a"', ":1}"]), Text("b"), *call(index=1)]
    events = stream(*content, Stop("tool_use"))
    output = events[-1]["response"]["output"]
    added, done = (only(events, f"response.output_item.{kind}") for kind in ("added", "done"))

    assert ["rs_100", "msg_101", "fc_102", "msg_103", "fc_104"] == [item["id"] for item in output]
    assert output == [event["item"] for event in done]
    assert [(at, item["id"]) for at, item in enumerate(output)] == [
        (event["output_index"], event["item"]["id"]) for event in added
    ]
    assert ["added", "done"] * 5 == [
        kind.rpartition(".")[2] for kind in kinds(events) if kind.startswith("output_item")
    ]
    assert ("call_0", "f", '{"a":1}', "completed") == tuple(
        output[2][name] for name in ("call_id", "name", "arguments", "status")
    )
    assert "" == added[2]["item"]["arguments"]


def test_reasoning_keeps_its_signature():
    events = stream(Reasoning("h"), Reasoning("m"), Reasoning("", "gAAA"), Reasoning("x"), Stop("complete"))
    first, second = events[-1]["response"]["output"]

    assert ("hm", "gAAA") == (first["content"][0]["text"], first["encrypted_content"])
    assert "encrypted_content" not in second


def test_a_custom_call_has_its_text_as_input():
    events = stream(*call('{"input": "a\\"b"}', name="patch", sent=['{"input": ', '"a\\"b"}']), Stop("tool_use"))
    (delta,) = only(events, "response.custom_tool_call_input.delta")
    (done,) = only(events, "response.custom_tool_call_input.done")

    assert ('a"b', 'a"b') == (delta["delta"], done["input"])
    assert [{"id": "ctc_100", "type": "custom_tool_call", "call_id": "call_0", "name": "patch", "input": 'a"b'}] == (
        events[-1]["response"]["output"]
    )


@pytest.mark.parametrize(
    ("arguments", "text"), [('{"text":"a"}', "a"), ('{"input":""}', ""), ('{"input":"\\ud800"}', "\ufffd")]
)
def test_the_only_string_is_the_text_of_a_custom_call(arguments, text):
    (item,) = stream(*call(arguments, name="patch"), Stop("tool_use"))[-1]["response"]["output"]

    assert text == item["input"]


@pytest.mark.parametrize("arguments", ["{}", '{"input":7}', '{"input":"a","n":"b"}'])
def test_a_custom_call_without_one_text_fails(arguments):
    events = stream(*call(arguments, name="patch"), Stop("tool_use"))
    body = written(*call(arguments, name="patch"), Stop("tool_use"))

    assert "response.failed" == events[-2]["type"]
    assert [] == events[-2]["response"]["output"]
    assert ("incomplete", "message", "incomplete") == (
        body["status"],
        body["output"][0]["type"],
        body["output"][0]["status"],
    )
    assert "not have its form" in body["error"]["message"]


def test_a_call_of_a_namespaced_tool_has_the_clients_name():
    events = stream(*call(name="calc__f"), Stop("tool_use"))

    assert [("f", "calc")] * 2 == [
        (item["name"], item["namespace"])
        for item in (only(events, "response.output_item.added")[0]["item"], events[-1]["response"]["output"][0])
    ]


@pytest.mark.parametrize(
    ("stop", "status", "reason"),
    [
        ("complete", "completed", None),
        ("stop_sequence", "completed", None),
        ("max_tokens", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_stop_reasons_have_their_statuses(stop, status, reason):
    last = stream(Text("a"), Stop(stop))[-1]

    assert ("response." + status, status) == (last["type"], last["response"]["status"])
    assert reason == (last["response"]["incomplete_details"] or {}).get("reason")
    assert status == last["response"]["output"][0]["status"]
    assert (IDENTITY.created if status == "completed" else None) == last["response"]["completed_at"]


def test_reasoning_that_is_cut_off_is_incomplete_streamed_or_not():
    events = [Reasoning("hm"), Stop("max_tokens")]
    streamed = stream(*events)[-1]["response"]
    whole = json.loads(OPENAI_RESPONSES.encode_reply(request(), IDENTITY, [fold(events)]))

    assert ["incomplete"] == [item["status"] for item in streamed["output"]]
    assert ["incomplete"] == [item["status"] for item in whole["output"]]


def test_a_message_before_a_truncated_call_is_complete():
    last = stream(Text("a"), *bad("truncated", ['{"a"']), Stop("max_tokens"))[-1]["response"]

    assert ("incomplete", ["completed", "incomplete"]) == (last["status"], [item["status"] for item in last["output"]])


def test_a_response_has_every_field_that_the_api_documents():
    tools = [{"type": "function", "function": {"name": "f"}}, {"type": "web_search"}]
    first = stream(Stop("complete"), tools=tools)[0]["response"]

    assert [{"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}, tools[1]] == (
        first["tools"]
    )
    assert (None, 0.0, 0.0) == tuple(first[name] for name in ("completed_at", "presence_penalty", "frequency_penalty"))


def test_an_error_is_a_failed_response_and_an_error_event():
    encoder = OPENAI_RESPONSES.encoder(request(), IDENTITY)
    events = parsed(encoder.encode(0, [Text("a"), Error("upstream_error", "gone"), Text("b")]))
    failed, last = events[-2:]

    assert ("response.failed", "failed", {"code": "server_error", "message": "gone"}) == (
        failed["type"],
        failed["response"]["status"],
        failed["response"]["error"],
    )
    expected = {"type": "error", "code": "server_error", "message": "gone", "param": None}

    assert {**expected, "sequence_number": len(events) - 1} == last
    assert b"" == encoder.encode(0, [Text("c"), Stop("complete")]) + encoder.close()


@pytest.mark.parametrize("events", [[Text("a")], [], [Text("a"), Stop("error")]], ids=["open", "silent", "error"])
def test_an_unfinished_reply_fails(events):
    assert ["failed", "error"] == kinds(stream(*events))[-2:]


def test_an_empty_reply_completes():
    assert ["created", "in_progress", "completed"] == kinds(stream(Usage(1, 0), Stop("complete")))


def test_choices_after_the_first_are_dropped():
    assert b"" == OPENAI_RESPONSES.encoder(request(), IDENTITY).encode(1, [Text("a")])


def test_an_endless_reply_fails_at_the_limit():
    encoder = ResponsesEncoder(request(), IDENTITY, max_chars=100)
    body = b"".join(encoder.encode(0, [Text("x" * 30)]) for _ in range(10))

    assert ["failed", "error"] == kinds(parsed(body))[-2:]
    assert len(only(parsed(body), "response.output_text.delta")) == 4


def test_an_endless_call_fails_at_the_limit():
    encoder = ResponsesEncoder(request(), IDENTITY, max_chars=100)
    body = encoder.encode(0, [ToolCallStart("c", "f", 0)])
    body += b"".join(encoder.encode(0, [ToolCallChunk("c", "x" * 30, 0)]) for _ in range(10))

    assert ["failed", "error"] == kinds(parsed(body))[-2:]
    assert 4 == len(arguments_sent(parsed(body)))


def arguments_sent(events):
    """Give what a client has of the only call's arguments after each piece."""
    states = [""]
    for event in only(events, "response.function_call_arguments.delta"):
        states.append(states[-1] + event["delta"])
    return states[1:]


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("sent", [[], ['{"a"'], ['{"a":1}'], ["{", "}", " "]])
def test_a_truncated_call_is_incomplete_and_never_json(sent):
    events = stream(Text("a"), *bad("truncated", sent), Stop("max_tokens"))

    assert "response.incomplete" == events[-1]["type"]
    assert events[-1]["response"]["output"] == [each["item"] for each in only(events, "response.output_item.done")]
    assert ["completed", "incomplete"] == [item["status"] for item in events[-1]["response"]["output"]]
    assert not is_json(only(events, "response.output_item.done")[1]["item"]["arguments"])
    assert not only(events, "response.function_call_arguments.done")
    assert not any(map(is_json, arguments_sent(events)))


@pytest.mark.parametrize("stop", ["complete", "max_tokens"])
def test_a_reply_whose_only_call_is_truncated_is_incomplete(stop):
    last = stream(*bad("truncated", ['{"a"']), Stop(stop))[-1]

    assert "max_output_tokens" == last["response"]["incomplete_details"]["reason"]


@pytest.mark.parametrize("kind", ["malformed", "invalid", "limit"])
def test_an_invalid_call_alone_fails_the_response(kind):
    events = stream(*bad(kind, ['{"a":1}']), Stop("complete"))

    assert ["failed", "error"] == kinds(events)[-2:]
    assert "no good" in events[-1]["message"]
    assert not only(events, "response.output_item.done")
    assert not any(map(is_json, arguments_sent(events)))


def test_an_invalid_call_beside_a_valid_one_is_incomplete_and_not_in_the_output():
    events = stream(*bad("malformed", ['{"a":1}']), *call('{"b":1}', index=1), Stop("tool_use"))
    output = events[-1]["response"]["output"]
    done = {event["output_index"]: event["item"] for event in only(events, "response.output_item.done")}

    assert ["call_1"] == [item["call_id"] for item in output]
    assert "incomplete" == done[0]["status"]
    assert not is_json(done[0]["arguments"])
    assert "completed" == done[1]["status"]


def test_an_invalid_custom_call_is_never_sent():
    start, _, end = call('{"input":"a', name="patch", error=CallError("truncated", "no good", "raw"))
    events = stream(Text("a"), start, ToolCallChunk("call_0", '{"input":"a', 0), end, Stop("max_tokens"))

    assert ["message"] == [event["item"]["type"] for event in only(events, "response.output_item.added")]


@pytest.mark.parametrize(("events", "kept"), [([Stop("complete")], True), ([Stop("max_tokens")], True), ([], False)])
def test_only_ended_responses_are_stored(events, kept):
    memory = StoredDocuments()
    identity = ReplyIdentity("resp_1", 1700000000, "m", reply_store=memory)
    stream(Text("a"), *events, identity=identity, input="x")

    assert kept == (memory.get("resp_1") is not None)
    assert ("resp_1" if kept else None) == memory.aliases.get("msg_100")


def as_read(events, index=0):
    """Give events as this format can say them, which knows no stop sequence."""
    events = [Stop("complete") if event == Stop("stop_sequence") else event for event in events]
    return merge_events((index, event) for event in events)


@given(replies(), st.integers(0, 2**32))
def test_encoded_events_decode_to_the_same_events(events, seed):
    """Law 9, under random cuts of the bytes."""
    *content, stop = events
    random_ = random.Random(seed)
    encoder = OPENAI_RESPONSES.encoder(request(), IDENTITY)
    body = encoder.encode(0, content) + encoder.encode(0, [Usage(5, 4, 3, 2), stop]) + encoder.ping() + encoder.close()

    assert as_read([*content, Usage(5, 4, 3, 2), stop]) == decode_body(
        cut(body, lambda: random_.randint(1, 200)), OpenAIResponses
    )


@given(replies())
def test_a_stream_equals_its_final_response(events):
    encoder = OPENAI_RESPONSES.encoder(request(), IDENTITY)
    body = encoder.encode(0, [*events[:-1], Usage(5, 4), events[-1]]) + encoder.close()
    final = json.dumps(parsed(body)[-1]["response"]).encode()

    assert decode_body([body], OpenAIResponses) == decode_body([final], OpenAIResponses)


def test_fragments_add_up_to_the_arguments():
    events = [event for event in call('{"a":1}', sent=["{", '"a":1', "}"]) if not isinstance(event, ToolCallStart)]

    assert isinstance(events[-1], ToolCallEnd)
    assert '{"a":1}' == arguments_sent(stream(ToolCallStart("call_0", "f", 0), *events, Stop("tool_use")))[-1]


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


@pytest.mark.parametrize(("kind", "reason"), [("truncated", {"reason": "max_output_tokens"}), ("malformed", None)])
def test_a_sentence_stands_for_a_failed_call_alone_which_does_not_look_complete(kind, reason):
    body = written(*bad(kind, ['{"a"']), Stop("complete"))

    assert ("incomplete", failure_sentence(kind)) == (body["status"], body["output"][0]["content"][0]["text"])
    assert (reason, None) == (body["incomplete_details"], body["completed_at"])
    assert (body["error"] is None) == (kind == "truncated")


def test_invalid_calls_are_left_out_and_valid_ones_kept():
    body = written(*bad("malformed", ['{"a"']), *call(index=1), Stop("tool_use"))

    assert ["call_1"] == [item["call_id"] for item in body["output"]]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="gone"):
        written(Text("a"), Error("upstream_error", "gone"))


@pytest.mark.parametrize("store", [None, True, False])
def test_the_response_is_stored_unless_store_is_false(store):
    memory = StoredDocuments()
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
    assert "no" == json.loads(OPENAI_RESPONSES.encode_stream_error(error).split(b"data: ")[1])["message"]


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
