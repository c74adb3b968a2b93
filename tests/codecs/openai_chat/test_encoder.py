"""The reply to the client, streamed and whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_chat.request import ChatClientOptions
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.events import (
    CallError,
    Error,
    Reasoning,
    Stop,
    Text,
    ToolCallChunk,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from fcshim.messages import Request, UserMessage
from fcshim.reply import fold
from tests.codecs.helpers import cut, decode_body, merge_events

IDENTITY = ReplyIdentity("chatcmpl-1", 1700000000, "the model")


def request(**fields):
    return Request(model="m", messages=(UserMessage(()),), stream=True, **fields)


def call(arguments="{}", *, index=0, name="f", error=None, sent=None):
    pieces_ = [arguments] if sent is None else sent
    return [
        ToolCallStart(f"call_{index}", name, index),
        *(ToolCallChunk(f"call_{index}", piece, index) for piece in pieces_),
        ToolCallEnd(f"call_{index}", name, arguments, index, error=error),
    ]


def bad(kind, sent, index=0):
    return call("".join(sent), index=index, sent=sent, error=CallError(kind, "no good", "raw"))


def failure_sentence(kind):
    """Give what stands for a call of `bad`."""
    if kind == "truncated":
        return "[The reply was cut off inside a call of f, which was not made.]"
    return "[The model wrote a call of f that cannot be used: no good.]"


def stream(*events, close=True, **fields):
    """Write events of choice 0; give the payloads as JSON, `[DONE]` as it is."""
    encoder = OPENAI_CHAT.encoder(request(**fields), IDENTITY)
    return payloads(encoder.encode(0, events) + (encoder.close() if close else b""))


def payloads(body):
    parts = body.decode().split("\n\n")

    assert "" == parts.pop()
    return [part[6:] if part == "data: [DONE]" else json.loads(part.removeprefix("data: ")) for part in parts]


def deltas(chunks):
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk != "[DONE]" and chunk.get("choices")]


def sent_arguments(chunks, position=0):
    """Give what a client has of a call's arguments after each chunk."""
    states, so_far = [], ""
    for delta in deltas(chunks):
        for piece in delta.get("tool_calls", []):
            if piece["index"] == position:
                so_far += piece["function"]["arguments"]
                states.append(so_far)
    return states


def test_a_text_reply_is_role_text_finish_done():
    known = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "the model"}

    def chunk(delta, reason=None):
        return {**known, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}

    expected = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": 'lo "\n\u2028'}),
        chunk({}, "stop"),
        "[DONE]",
    ]

    assert expected == stream(Text("Hel"), Text('lo "\n\u2028'), Stop("complete"))


def test_with_include_usage_the_usage_is_last_and_null_before():
    *chunks, last, done = stream(Usage(7, 5, 3, 2), Text("a"), Stop("complete"), include_usage=True)

    assert "[DONE]" == done
    assert [None] * 3 == [chunk["usage"] for chunk in chunks]
    assert [] == last["choices"]
    assert {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    } == last["usage"]


def test_usage_that_comes_after_the_stop_is_written_too():
    assert 5 == stream(Text("a"), Stop("complete"), Usage(7, 5), include_usage=True)[-2]["usage"]["completion_tokens"]


def test_without_include_usage_there_is_no_usage():
    assert all("usage" not in chunk for chunk in stream(Text("a"), Stop("complete"), Usage(7, 5))[:-1])


def test_calls_have_dense_indexes_and_the_first_delta_has_the_name():
    chunks = stream(*call('{"a":1}', index=2, sent=['{"a"', ":1}"]), *call("{}", index=5, name="g"), Stop("tool_use"))

    def piece(index, arguments):
        return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}

    def start(index, call_id, name):
        function = {"name": name, "arguments": ""}
        return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}

    expected = [
        {"role": "assistant", "content": ""},
        start(0, "call_2", "f"),
        piece(0, '{"a"'),
        piece(0, ":1"),
        piece(0, "}"),
        start(1, "call_5", "g"),
        piece(1, "{"),
        piece(1, "}"),
        {},
    ]

    assert expected == deltas(chunks)
    assert "tool_calls" == chunks[-2]["choices"][0]["finish_reason"]


@pytest.mark.parametrize(
    ("stop", "word"),
    [
        ("complete", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("content_filter", "content_filter"),
        ("tool_use", "tool_calls"),
    ],
)
def test_stop_reasons_have_their_finish_reasons(stop, word):
    assert word == stream(Text("a"), Stop(stop))[-2]["choices"][0]["finish_reason"]


def test_reasoning_is_reasoning_content():
    assert {"reasoning_content": "hm"} == deltas(stream(Reasoning("hm"), Text("a"), Stop("complete")))[1]


def test_legacy_functions_get_one_function_call():
    chunks = stream(
        *call('{"a":1}'), *call("{}", index=1), Stop("tool_use"), client_options=ChatClientOptions(functions=True)
    )
    expected = [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"a":1'}},
        {"function_call": {"arguments": "}"}},
        {},
    ]

    assert expected == deltas(chunks)[1:]
    assert "function_call" == chunks[-2]["choices"][0]["finish_reason"]


def test_choice_zero_opens_first_and_each_choice_finishes():
    encoder = OPENAI_CHAT.encoder(request(n=2, include_usage=True), IDENTITY)
    body = encoder.encode(1, [Text("b"), Stop("complete"), Usage(5, 2)])
    body += encoder.encode(0, [Text("a"), Stop("max_tokens"), Usage(5, 3)]) + encoder.close()
    chunks = payloads(body)

    assert [0, 1, 1, 1, 0, 0] == [chunk["choices"][0]["index"] for chunk in chunks[:-2]]
    assert [5, 5] == [chunks[-2]["usage"][name] for name in ("prompt_tokens", "completion_tokens")]


def test_an_empty_list_of_events_gives_no_bytes():
    encoder = OPENAI_CHAT.encoder(request(), IDENTITY)

    assert b"" == encoder.encode(0, [])
    assert b"" == encoder.encode(0, [Usage(1, 1)])


def test_events_after_the_stop_of_a_choice_are_dropped():
    assert stream(Text("a"), Stop("complete")) == stream(
        Text("a"), Stop("complete"), Text("b"), *call(), Stop("complete")
    )


def test_an_error_is_the_last_event_and_no_done_follows():
    encoder = OPENAI_CHAT.encoder(request(include_usage=True), IDENTITY)
    chunks = payloads(encoder.encode(0, [Text("a"), Error("upstream_error", "gone"), Text("b"), Stop("complete")]))

    assert {"error": {"message": "gone", "type": "upstream_error", "param": None, "code": None}} == chunks[-1]
    assert [{"role": "assistant", "content": ""}, {"content": "a"}] == deltas(chunks[:-1])
    assert b"" == encoder.encode(0, [Text("c")]) + encoder.encode(1, [Text("c")]) + encoder.close()


@pytest.mark.parametrize("events", [[], [Text("a")], call()])
def test_a_stream_that_is_closed_before_its_stop_ends_with_an_error(events):
    assert "broke off" in stream(*events)[-1]["error"]["message"]


def test_the_stop_reason_error_is_an_error():
    assert "error" in stream(Text("a"), Stop("error"))[-1]


def test_a_ping_is_a_comment():
    assert OPENAI_CHAT.encoder(request(), IDENTITY).ping().startswith(b":")


def test_lone_surrogates_become_replacement_characters():
    chunks = stream(Text("a\ud800"), *call('{"\udc00":1}', name="f\ud800"), Reasoning("\ud83d\ude00"), Stop("tool_use"))

    assert {"content": "a�"} == deltas(chunks)[1]
    assert "f�" == deltas(chunks)[2]["tool_calls"][0]["function"]["name"]
    assert {"�": 1} == json.loads(sent_arguments(chunks)[-1])
    assert {"reasoning_content": "😀"} == deltas(chunks)[-2]


ARGUMENTS = [
    '{"a":1}',
    '{"a":{"b":"}"}}',
    "{}",
    '{"a":[1,{"b":2}]}',
    '{ "a" : "x\\"}" }',
    '{"a":{}} \n',
    '{"a":"\\\\"}',
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_arguments_are_json_only_after_the_call_has_ended_without_error(arguments, size):
    sent = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    states = sent_arguments(stream(*call(arguments, sent=sent), Stop("tool_use")))

    assert arguments == states[-1]
    assert not any(is_json(state) for state in states[:-1])


@pytest.mark.parametrize("kind", ["truncated", "malformed", "invalid", "limit"])
@pytest.mark.parametrize("arguments", ["", *ARGUMENTS])
@pytest.mark.parametrize("size", [1, 100])
def test_arguments_of_an_invalid_call_are_never_json(kind, arguments, size):
    for end in range(len(arguments) + 1):
        sent = [arguments[at : min(at + size, end)] for at in range(0, end, size)]
        states = sent_arguments(stream(*bad(kind, sent), Stop("max_tokens")))

        assert not any(is_json(state) for state in states)
        assert arguments[:end].rstrip().removesuffix("}") in states[-1]


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("stop", ["max_tokens", "complete"])
def test_a_truncated_call_finishes_with_length(stop):
    chunks = stream(*bad("truncated", ['{"a"']), Stop(stop))

    assert "length" == chunks[-2]["choices"][0]["finish_reason"]
    assert "[DONE]" == chunks[-1]


@pytest.mark.parametrize("kind", ["malformed", "invalid", "limit"])
def test_an_invalid_call_alone_ends_the_stream_with_an_error(kind):
    chunks = stream(*bad(kind, ['{"a"']), Stop("complete"))

    assert "model_output_error" == chunks[-1]["error"]["type"]
    assert "no good" in chunks[-1]["error"]["message"]


def test_a_valid_call_is_kept_beside_an_invalid_one():
    chunks = stream(*bad("malformed", ['{"a"']), *call('{"b":1}', index=1), Stop("tool_use"))

    assert "tool_calls" == chunks[-2]["choices"][0]["finish_reason"]
    assert '{"b":1}' == sent_arguments(chunks, 1)[-1]
    assert not is_json(sent_arguments(chunks, 0)[-1])


_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_json = st.dictionaries(
    _text, st.recursive(_text | st.integers(-5, 5), lambda x: st.lists(x) | st.dictionaries(_text, x))
)


@st.composite
def replies(draw):
    """Draw the events of one choice."""
    events, index = [], 0
    for _ in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["text", "reasoning", "call"]))
        if kind == "call":
            arguments = json.dumps(
                draw(_json), indent=draw(st.sampled_from([None, 1])), ensure_ascii=draw(st.booleans())
            )
            sent = cut(arguments, lambda: draw(st.integers(1, 6)))
            events += call(arguments, index=index, name=draw(st.sampled_from(["f", "g.h"])), sent=sent)
            index += 1
        else:
            events.append((Text if kind == "text" else Reasoning)(draw(_text)))
    stop = "tool_use" if index else draw(st.sampled_from(["complete", "content_filter"]))
    return [*events, Stop(draw(st.sampled_from([stop, "max_tokens"])))]


@given(st.lists(replies(), min_size=1, max_size=3), st.booleans(), st.data())
def test_encoded_events_decode_to_the_same_events(choices, include_usage, data):
    """Law 9, for several choices that come in turns, and under random cuts of the bytes."""
    encoder = OPENAI_CHAT.encoder(request(n=len(choices), include_usage=include_usage), IDENTITY)
    left = [(choice, list(events)) for choice, events in enumerate(choices)]
    body = b""
    while left:
        choice, events = data.draw(st.sampled_from(left))
        count = data.draw(st.integers(1, len(events)))
        body += encoder.encode(choice, events[:count])
        del events[:count]
        left = [item for item in left if item[1]]
    body += encoder.encode(0, [Usage(5, 4, 3, 2)]) + encoder.close()
    expected = merge_events((choice, event) for choice, events in enumerate(choices) for event in events)
    usage = [(0, Usage(5, 4, 3, 2))] if include_usage else []
    at = len([choice for choice, _ in expected if choice == 0])

    assert expected[:at] + usage + expected[at:] == decode_body(cut(body, lambda: data.draw(st.integers(1, 200))))


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
def test_a_sentence_stands_for_a_failed_call_alone(kind, word):
    choice = written([*bad(kind, ['{"a"']), Stop("complete")])["choices"][0]

    assert (word, failure_sentence(kind)) == (choice["finish_reason"], choice["message"]["content"])
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
