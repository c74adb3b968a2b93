"""The request for an upstream of this API."""

import json

import pytest

from fcshim.codecs.anthropic import ANTHROPIC
from fcshim.errors import RequestError
from fcshim.messages import (
    AssistantMessage,
    MediaPart,
    Request,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from tests.codecs.anthropic.test_request import CALLED, F, result, user


def says(text):
    return (TextPart(text),)


def body(*messages, **fields):
    said = messages or (UserMessage(says("Hi")),)
    return json.loads(ANTHROPIC.encode_request(Request(model="m", messages=said, **fields)).body)


def test_a_plain_request_has_only_the_required_fields():
    outgoing = ANTHROPIC.encode_request(Request(model="m", messages=(UserMessage(says("Hi")),)))

    assert "/messages" == outgoing.path
    assert ((b"anthropic-version", b"2023-06-01"),) == outgoing.headers
    assert {
        "model": "m",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": True,
    } == json.loads(outgoing.body)


def test_settings():
    written = body(stop=("END", " \n"), max_tokens=5, temperature=1.5, top_p=0.5)

    assert (["END"], 5, 1.0) == (written["stop_sequences"], written["max_tokens"], written["temperature"])
    assert "top_p" not in written
    assert 0.5 == body(top_p=0.5)["top_p"]


def test_leading_system_messages_become_system_and_later_ones_notes():
    written = body(
        SystemMessage(says("a")), SystemMessage(says("b")), UserMessage(says("Hi")), SystemMessage(says("c"))
    )

    assert "a\n\nb" == written["system"]
    assert ["Hi", "<system_note>\nc\n</system_note>"] == [part["text"] for part in written["messages"][0]["content"]]


def test_calls_results_and_signed_thinking():
    written = body(
        UserMessage(says("Hi")),
        AssistantMessage(says("a"), (ToolCall("t1", "f", '{"x":1}'), ToolCall("t2", "g", "")), "hm", "sig"),
        ToolMessage("t1", says("yes")),
        UserMessage(says("now?")),
        ToolMessage("t2", (), is_error=True),
    )["messages"]

    assert ["user", "assistant", "user"] == [turn["role"] for turn in written]
    assert [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}},
        {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
    ] == written[1]["content"]
    assert [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "yes"}]},
        {"type": "tool_result", "tool_use_id": "t2", "is_error": True},
        {"type": "text", "text": "now?"},
    ] == written[2]["content"]


def test_unsigned_reasoning_is_not_sent_and_redacted_thinking_is():
    plain, redacted = (
        body(UserMessage(says("Hi")), AssistantMessage(says("a"), reasoning="hm", signature=signature))["messages"][1]
        for signature in ("", "redacted_thinking:Emwk")
    )

    assert ["text"] == [block["type"] for block in plain["content"]]
    assert {"type": "redacted_thinking", "data": "Emwk"} == redacted["content"][0]


@pytest.mark.parametrize("arguments", ["[]", "{", "5"])
def test_arguments_that_are_not_an_object_become_an_empty_one(arguments):
    written = body(UserMessage(says("Hi")), AssistantMessage((), (ToolCall("t", "f", arguments),)))

    assert {} == written["messages"][1]["content"][0]["input"]


def test_a_leading_assistant_turn_gets_a_user_turn_before_it_and_empty_texts_are_dropped():
    written = body(AssistantMessage(says("Hello")), UserMessage(says("")), AssistantMessage(says("x")))["messages"]

    assert ["user", "assistant"] == [turn["role"] for turn in written]
    assert ["Hello", "x"] == [block["text"] for block in written[1]["content"]]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            MediaPart("image/png", data="AA"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        ),
        (MediaPart("image/*", url="http://a"), {"type": "image", "source": {"type": "url", "url": "http://a"}}),
        (
            MediaPart("application/pdf", url="http://a"),
            {"type": "document", "source": {"type": "url", "url": "http://a"}},
        ),
        (MediaPart("audio/wav", data="AA"), {"type": "text", "text": "[audio: audio/wav]"}),
        (MediaPart("image/png", data="AA", raw={"type": "image", "x": 1}), {"type": "image", "x": 1}),
        (
            MediaPart("image/png", data="AA", raw={"type": "image_url"}),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
        ),
    ],
)
def test_media_are_sent_if_the_api_supports_them(part, block):
    assert block == body(UserMessage((part,)))["messages"][0]["content"][0]


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (ToolChoice(), True, None),
        (ToolChoice(), False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice("required"), True, {"type": "any"}),
        (ToolChoice("required", ("f",)), False, {"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
        (ToolChoice("none"), False, {"type": "none"}),
    ],
)
def test_tools_and_choices(choice, parallel, expected):
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    tools = (Tool("f", "does f", closed, strict=True), Tool("g", "", {"properties": {}}, strict=True))
    written = body(tools=tools, tool_choice=choice, parallel_tool_calls=parallel)

    assert [
        {"name": "f", "description": "does f", "input_schema": closed, "strict": True},
        {"name": "g", "input_schema": {"type": "object", "properties": {}}},
    ] == written["tools"]
    assert expected == written.get("tool_choice")


def test_a_choice_among_several_tools_offers_only_those():
    written = body(tools=(Tool("f"), Tool("g"), Tool("h")), tool_choice=ToolChoice("required", ("f", "h")))

    assert ["f", "h"] == [tool["name"] for tool in written["tools"]]
    assert {"type": "any"} == written["tool_choice"]


def test_settings_of_other_apis_are_translated_and_those_of_this_one_kept():
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    written = body(extra={"top_k": 5, "response_format": form, "reasoning_effort": "high"})

    assert 5 == written["top_k"]
    assert {"format": {"type": "json_schema", "schema": {"type": "object"}}} == written["output_config"]
    assert "reasoning_effort" not in written
    assert {"user_id": "u"} == body(verbatim={"anthropic": {"metadata": {"user_id": "u"}}})["metadata"]


def test_several_choices_are_rejected():
    with pytest.raises(RequestError, match="one choice"):
        body(n=2)


def test_a_clients_request_survives_the_round_trip():
    sent = {
        "model": "m",
        "max_tokens": 5,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            CALLED,
            user(result(content=[{"type": "text", "text": "yes"}])),
        ],
        "tools": [F],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "stop_sequences": ["END"],
        "temperature": 0.5,
        "metadata": {"user_id": "u"},
        "thinking": {"type": "adaptive"},
        "stream": True,
    }
    request = ANTHROPIC.decode_request(json.dumps(sent).encode())

    assert sent == json.loads(ANTHROPIC.encode_request(request).body)
