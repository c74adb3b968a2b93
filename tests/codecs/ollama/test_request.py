import json

import pytest

from fcshim.codecs.base import RequestTarget
from fcshim.codecs.json_text import RequestLimits
from fcshim.codecs.ollama import OLLAMA, Ollama
from fcshim.errors import RequestError
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolMessage,
    UserMessage,
)

HI = [{"role": "user", "content": "hi"}]
PNG = "iVBORw0KGgo="


def chat(**fields):
    return OLLAMA.decode_request(json.dumps({"model": "m", "messages": HI, **fields}).encode())


def generate(**fields):
    body = json.dumps({"model": "m", "prompt": "hi", **fields}).encode()
    return OLLAMA.decode_request(body, RequestTarget("/api/generate"))


def refused(ask=chat, **fields):
    with pytest.raises(RequestError) as caught:
        ask(**fields)
    return caught.value


def test_a_chat_streams_unless_turned_off():
    assert [True, True, False] == [chat(**fields).stream for fields in ({}, {"stream": None}, {"stream": False})]


def test_every_role_is_read():
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "look", "images": [PNG, "/9j/AAAA"]},
        {"role": "assistant", "content": "ok", "thinking": "hm"},
        {"role": "user", "content": None},
    ]
    expected = (
        SystemMessage((TextPart("be brief"),)),
        UserMessage((TextPart("look"), MediaPart("image/png", data=PNG), MediaPart("image/jpeg", data="/9j/AAAA"))),
        AssistantMessage((TextPart("ok"),), reasoning="hm"),
        UserMessage(()),
    )

    assert expected == chat(messages=messages).messages


def result(text, **fields):
    return {"role": "tool", "content": text, **fields}


def calling(*names, **fields):
    calls = [{"function": {"name": name, "arguments": {"n": at}}, **fields} for at, name in enumerate(names)]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def paired(*messages):
    read = chat(messages=[*HI, *messages]).messages
    calls = [call for message in read if isinstance(message, AssistantMessage) for call in message.tool_calls]
    return calls, [message for message in read if isinstance(message, ToolMessage)]


def test_calls_without_ids_get_ids_and_results_match_by_name_in_order():
    calls, results = paired(
        calling("f", "g", "f"), result("1", tool_name="g"), result("2", tool_name="f"), result("3", tool_name="f")
    )

    assert [("call_1_0", "f"), ("call_1_1", "g"), ("call_1_2", "f")] == [(call.id, call.name) for call in calls]
    assert ToolCall("call_1_2", "f", '{"n":2}') == calls[2]
    assert [("call_1_1", "g"), ("call_1_0", "f"), ("call_1_2", "f")] == [(it.tool_call_id, it.name) for it in results]


def test_a_result_without_a_name_answers_the_first_open_call():
    _, results = paired(calling("f", "g"), result("1"), result("2"))

    assert [("call_1_0", "f"), ("call_1_1", "g")] == [(it.tool_call_id, it.name) for it in results]


def test_the_clients_ids_are_kept():
    calls, results = paired(calling("f", id="c7"), result("1", tool_call_id="c7"))

    assert "c7" == calls[0].id
    assert [("c7", "f")] == [(it.tool_call_id, it.name) for it in results]


def test_a_result_without_a_call_is_kept():
    _, results = paired(result("1", tool_name="f"), result("2"))

    assert [("call_1", "f"), ("call_2", "")] == [(it.tool_call_id, it.name) for it in results]


def test_the_same_history_always_gives_the_same_ids():
    history = [calling("f", "f"), result("1", tool_name="f"), result("2", tool_name="f")]

    assert paired(*history) == paired(*history)


def test_many_results_of_many_calls_take_linear_time():
    count = 4_000
    calls, results = paired(calling(*["f"] * count), *[result("r", tool_name="f")] * count, result("", tool_name="g"))

    assert [call.id for call in calls] == [each.tool_call_id for each in results[:-1]]


def test_tools_have_the_chat_apis_form_and_unknown_types_are_dropped():
    function = {"name": "f", "description": "F.", "parameters": {"type": "object"}}
    request = chat(tools=[{"type": "function", "function": function}, {"type": "retrieval"}])

    assert (Tool("f", "F.", {"type": "object"}),) == request.tools


def test_options_with_a_request_field_go_there_and_the_rest_is_kept():
    options = {"num_predict": 7.0, "temperature": 0.5, "top_p": 1, "seed": 3, "stop": ["x", ""], "top_k": 4}
    request = chat(options={**options, "num_ctx": 8192}, keep_alive="5m", think=True)

    assert (7, 0.5, 1, 3, ("x",)) == (
        request.max_tokens,
        request.temperature,
        request.top_p,
        request.seed,
        request.stop,
    )
    assert {"top_k": 4} == request.extra
    assert {"options": {"top_k": 4, "num_ctx": 8192}, "keep_alive": "5m", "think": True} == request.verbatim["ollama"]


@pytest.mark.parametrize("limit", [-1, -2])
def test_negative_limits_mean_no_limit(limit):
    assert chat(options={"num_predict": limit}).max_tokens is None


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("fields", "extra"),
    [
        ({"format": "json"}, {"response_format": {"type": "json_object"}}),
        (
            {"format": SCHEMA},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA}}},
        ),
        ({"format": ""}, {}),
        ({"think": "high"}, {"reasoning_effort": "high"}),
        ({"think": False}, {}),
    ],
)
def test_options_of_other_engines_go_to_extra(fields, extra):
    assert extra == chat(**fields).extra


def test_a_generate_request_becomes_one_turn():
    request = generate(system="be brief", images=[PNG], tools=[{"type": "function", "function": {"name": "f"}}])

    assert (
        SystemMessage((TextPart("be brief"),)),
        UserMessage((TextPart("hi"), MediaPart("image/png", data=PNG))),
    ) == request.messages
    assert () == request.tools


def test_without_a_prompt_there_are_no_messages():
    assert () == chat(messages=[]).messages == generate(prompt="", system="be brief").messages


@pytest.mark.parametrize("field", ["raw", "template", "context"])
def test_features_that_a_chat_lacks_are_rejected_by_name(field):
    error = refused(generate, **{field: [1] if field == "context" else "x"})

    assert field == error.param
    assert "not supported" in error.message


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"model": None}, "model"),
        ({"messages": {}}, "messages"),
        ({"messages": [1]}, "messages[0]"),
        ({"messages": [{"role": "wizard", "content": ""}]}, "messages[0].role"),
        ({"messages": [{"content": ""}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "", "images": [1]}]}, "messages[0].images[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].function"),
        ({"messages": [calling(3)]}, "messages[0].tool_calls[0].function.name"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"options": []}, "options"),
        ({"options": {"num_predict": 1.5}}, "options.num_predict"),
        ({"options": {"temperature": "hot"}}, "options.temperature"),
        ({"options": {"stop": [1]}}, "options.stop[0]"),
        ({"options": {"stop": 1}}, "options.stop"),
        ({"format": "xml"}, "format"),
        ({"think": "deeply"}, "think"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_an_error_names_the_field(fields, place):
    error = refused(**fields)

    assert place in error.message
    assert 400 == error.status


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_not_an_object_is_rejected(body):
    with pytest.raises(RequestError):
        OLLAMA.decode_request(body)


def test_unknown_fields_are_ignored():
    assert chat(shimmer=1, options={"glitter": 2}).messages


def test_limits_apply_to_tools():
    tools = [{"type": "function", "function": {"name": f"f{at}"}} for at in range(3)]
    with pytest.raises(RequestError, match="at most 2"):
        Ollama(request_limits=RequestLimits(tools=2)).decode_request(
            json.dumps({"model": "m", "messages": HI, "tools": tools}).encode()
        )
