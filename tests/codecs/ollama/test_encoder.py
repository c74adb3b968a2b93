import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.ollama import OLLAMA, Ollama
from fcshim.codecs.ollama.options import OllamaClientOptions
from fcshim.errors import FcshimError, RequestError, UpstreamError
from fcshim.events import Error, Reasoning, Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart, Usage
from fcshim.messages import Request, UserMessage
from fcshim.reply import fold
from tests.codecs.helpers import cut, decode_body, merge_events
from tests.codecs.openai_chat.test_encoder import bad, call, failure_sentence, replies

IDENTITY = ReplyIdentity("ollama-1", 1700000000, "llama3.2")
KNOWN = {"model": "llama3.2", "created_at": "2023-11-14T22:13:20Z"}


def request(**options):
    client_options = OllamaClientOptions(**options)
    return Request(model="llama3.2", messages=(UserMessage(()),), stream=True, client_options=client_options)


def stream(*events, close=True, identity=IDENTITY, **options):
    encoder = OLLAMA.encoder(request(**options), identity)
    body = encoder.encode(0, events) + (encoder.close() if close else b"")

    assert not body or body.endswith(b"\n")
    return [json.loads(line) for line in body.decode().split("\n")[:-1]]


def said(content, **fields):
    return {**KNOWN, "message": {"role": "assistant", "content": content, **fields}, "done": False}


def test_a_text_reply_is_its_fragments_and_a_last_line():
    expected = [
        said("Hel"),
        said('lo "\n\u2028'),
        {
            **KNOWN,
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 7,
            "eval_count": 5,
        },
    ]

    assert expected == stream(Text("Hel"), Text('lo "\n\u2028'), Usage(7, 5), Stop("complete"))


def test_a_generate_reply_has_its_text_in_response():
    lines = stream(Reasoning("hm"), Text("Blue"), Stop("complete"), generate=True)

    assert [("", "hm"), ("Blue", None), ("", None)] == [(line["response"], line.get("thinking")) for line in lines]
    assert lines[-1]["done"]
    assert all("message" not in line for line in lines)


def test_a_call_is_one_line_with_its_arguments_as_an_object():
    lines = stream(Text("Let me"), *call('{"a": 1}', index=2, sent=['{"a"', ": 1}"]), *call(index=3), Stop("tool_use"))

    def made(position, call_id, arguments):
        return [{"id": call_id, "function": {"index": position, "name": "f", "arguments": arguments}}]

    assert [
        said("Let me"),
        said("", tool_calls=made(0, "call_2", {"a": 1})),
        said("", tool_calls=made(1, "call_3", {})),
    ] == (lines[:-1])
    assert "stop" == lines[-1]["done_reason"]


def test_no_reader_splits_a_line_early():
    arguments = '{\n  "a":\r "b\u2028\u0085"\n}'
    encoder = OLLAMA.encoder(request(), IDENTITY)
    body = encoder.encode(0, [Text("a\u2029"), *call(arguments), Stop("tool_use")]) + encoder.close()
    lines = body.decode().splitlines()

    assert 3 == len(lines)
    assert {"a": "b\u2028\u0085"} == json.loads(lines[1])["message"]["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("stop", "word"),
    [("complete", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("content_filter", "stop")],
)
def test_stop_reasons_are_translated(stop, word):
    assert word == stream(Text("a"), Stop(stop))[-1]["done_reason"]


def test_thinking_is_dropped_if_the_client_turned_it_off():
    assert [said("", thinking="hm"), said("a")] == stream(Reasoning("hm"), Text("a"), Stop("complete"))[:-1]
    assert [said("a")] == stream(Reasoning("hm"), Text("a"), Stop("complete"), thinking=False)[:-1]


def test_durations_are_written_if_there_is_a_clock():
    times = iter([0.25, 1.0])
    identity = ReplyIdentity("ollama-1", 1700000000, "m", clock=times.__next__)
    last = stream(Text("a"), Stop("complete"), identity=identity)[-1]

    assert (1_000_000_000, 250_000_000, 750_000_000) == (
        last["total_duration"],
        last["prompt_eval_duration"],
        last["eval_duration"],
    )


def test_an_error_is_a_line_and_nothing_follows_it():
    encoder = OLLAMA.encoder(request(), IDENTITY)
    body = encoder.encode(0, [Text("a"), Error("upstream_error", "gone"), Text("b")])

    assert {"error": "gone"} == json.loads(body.splitlines()[-1])
    assert b"" == encoder.encode(0, [Text("c"), Stop("complete")]) + encoder.close()


def test_an_unfinished_reply_ends_with_an_error():
    assert "broke off" in stream(Text("a"))[-1]["error"]
    assert "ended the reply with an error" in stream(Text("a"), Stop("error"))[-1]["error"]


def test_choices_other_than_the_first_are_dropped():
    assert b"" == OLLAMA.encoder(request(), IDENTITY).encode(1, [Text("a")])


@pytest.mark.parametrize("kind", ["truncated", "malformed", "invalid", "limit"])
@pytest.mark.parametrize("sent", [[], ['{"a"'], ['{"a":1}']])
def test_a_failed_call_is_never_written(kind, sent):
    lines = stream(*bad(kind, sent), Stop("complete"))
    last = lines.pop()

    assert [] == lines
    assert ("length" == last.get("done_reason")) == (kind == "truncated")
    assert ("no good" in last.get("error", "")) == (kind != "truncated")


def test_valid_calls_are_kept_next_to_a_failed_one():
    lines = stream(*bad("malformed", ['{"a"']), *call('{"b":1}', index=1), Stop("tool_use"))

    assert {"b": 1} == lines[0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert "stop" == lines[1]["done_reason"]


def test_pings_before_and_between_lines_change_nothing():
    encoder = OLLAMA.encoder(request(), IDENTITY)
    parts = [encoder.ping(), encoder.encode(0, [Text("a")]), encoder.ping(), encoder.ping()]
    body = b"".join([*parts, encoder.encode(0, [Text("b"), Stop("complete")]), encoder.close()])

    assert [said("a"), said("b")] == [json.loads(line) for line in body.splitlines()][:2]
    assert [(0, Text("ab")), (0, Stop("complete"))] == decode_body([body], Ollama)


def test_a_lone_surrogate_is_replaced():
    lines = stream(Reasoning("a\ud83d"), Text("b\ud83d"), *call('{"a":"\ud83d"}'), Stop("tool_use"))

    assert ("a\ufffd", "b\ufffd") == (lines[0]["message"]["thinking"], lines[1]["message"]["content"])


def test_generate_replies_have_no_calls():
    lines = stream(*call(), Stop("tool_use"), generate=True)

    assert [""] == [line["response"] for line in lines]


def as_read(events):
    """Return events as this format can express them: complete calls, with decoded arguments."""
    found, good = [], False
    for event in events:
        match event:
            case ToolCallStart() | ToolCallEnd():
                found.append(event)
                good = True
            case ToolCallChunk():
                pass
            case Stop(reason):
                said = {"content_filter": "complete", "complete": "tool_use" if good else "complete"}
                found.append(Stop(said.get(reason, reason)))
            case _:
                found.append(event)
    return [(0, meant(event)) for event in found]


def meant(event):
    if isinstance(event, ToolCallEnd):
        arguments = json.loads(event.tool_call_arguments_complete)
        return (event.tool_call_id, event.tool_call_name, event.index, event.error, arguments)
    return event


@given(replies(), st.integers(0, 2**32))
def test_what_is_encoded_decodes_to_the_same_events(events, seed):
    """Law 9, with the bytes split at random."""
    *said, stop = events
    random_ = random.Random(seed)
    encoder = OLLAMA.encoder(request(), IDENTITY)
    body = encoder.encode(0, said) + encoder.encode(0, [Usage(5, 4), stop]) + encoder.close()
    found = decode_body(cut(body, lambda: random_.randint(1, 200)), Ollama)

    assert as_read(event for _, event in merge_events((0, event) for event in [*said, Usage(5, 4), stop])) == as_read(
        event for _, event in found
    )


@given(replies())
def test_arguments_without_line_ends_keep_their_bytes(events):
    sent = [event.tool_call_arguments_complete for event in events if isinstance(event, ToolCallEnd)]
    encoder = OLLAMA.encoder(request(), IDENTITY)
    body = encoder.encode(0, events) + encoder.close()
    found = [
        event.tool_call_arguments_complete for _, event in decode_body([body], Ollama) if isinstance(event, ToolCallEnd)
    ]

    for before, after in zip(sent, found, strict=True):
        assert before == after or {"\n", "\u2028", "\u2029", "\x85"} & set(before)


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


def test_a_whole_generate_reply_has_its_text_in_response():
    body = written(Reasoning("hm"), Text("Blue"), Stop("max_tokens"), generate=True, thinking=False)

    assert ("Blue", "length", False) == (body["response"], body["done_reason"], "thinking" in body)


def test_a_whole_reply_has_durations_if_there_is_a_clock():
    identity = ReplyIdentity("x", 1700000000, "m", clock=lambda: 1.5)
    body = written(Text("a"), Stop("complete"), identity=identity)

    assert (1_500_000_000, 1_500_000_000) == (body["total_duration"], body["eval_duration"])


@pytest.mark.parametrize(("kind", "word"), [("truncated", "length"), ("malformed", "stop")])
def test_a_sentence_stands_for_a_failed_call_alone(kind, word):
    body = written(*bad(kind, ['{"a"']), Stop("complete"))

    assert word == body["done_reason"]
    assert failure_sentence(kind) == body["message"]["content"]
    assert "tool_calls" not in body["message"]


def test_failed_calls_are_dropped_and_valid_ones_kept():
    body = written(*bad("malformed", ['{"a"']), *call("{}", index=1), Stop("tool_use"))

    assert ["call_1"] == [made["id"] for made in body["message"]["tool_calls"]]
    assert "" == body["message"]["content"]


def test_a_reply_with_an_error_raises():
    with pytest.raises(UpstreamError, match="gone"):
        written(Text("a"), Error("upstream_error", "gone"))


def test_a_lone_surrogate_is_replaced_in_a_whole_reply():
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
