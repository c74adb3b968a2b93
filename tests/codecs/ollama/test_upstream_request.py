import json

import pytest

from fcshim.codecs.ollama import OLLAMA, OllamaWithContext
from fcshim.codecs.openai_chat import OPENAI_CHAT
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
from tests.codecs.ollama.test_request import HI, SCHEMA, chat

USER = UserMessage((TextPart("hi"),))


def written(*messages, **fields):
    outgoing = OLLAMA.encode_request(Request(model="m", messages=messages or (USER,), **fields))

    assert "//api/chat" == outgoing.path
    return json.loads(outgoing.body)


def test_a_minimal_request_has_only_the_required_fields():
    assert {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True} == written()


def test_a_context_length_is_asked_for_unless_the_client_asks_for_one():
    own = {"ollama": {"options": {"num_ctx": 4_096, "num_keep": 1}}}
    requests = [Request(model="m", messages=(USER,), max_tokens=5, verbatim=each) for each in ({}, own)]
    bodies = [json.loads(OllamaWithContext(16_384).encode_request(request).body) for request in requests]

    assert {"num_ctx": 16_384, "num_predict": 5} == bodies[0]["options"]
    assert {"num_ctx": 4_096, "num_predict": 5, "num_keep": 1} == bodies[1]["options"]


def test_a_conversation_with_calls_and_results():
    messages = written(
        SystemMessage((TextPart("be brief"),)),
        USER,
        AssistantMessage((TextPart("ok"),), (ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "g", "")), "hm"),
        ToolMessage("c1", (TextPart("3"),)),
        ToolMessage("c2", (), name="gg"),
    )["messages"]

    assert [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "ok",
            "thinking": "hm",
            "tool_calls": [
                {"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}},
                {"id": "c2", "function": {"name": "g", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "3", "tool_name": "f", "tool_call_id": "c1"},
        {"role": "tool", "content": "", "tool_name": "gg", "tool_call_id": "c2"},
    ] == messages


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", "[" * 100_000])
def test_past_arguments_that_are_not_an_object_are_wrapped_in_one(arguments):
    (message,) = written(AssistantMessage(tool_calls=(ToolCall("c", "f", arguments),)))["messages"]

    assert {"arguments": arguments} == message["tool_calls"][0]["function"]["arguments"]


def test_images_are_sent_and_other_media_described():
    parts = (
        TextPart("see "),
        MediaPart("image/png", data="iVBO"),
        MediaPart("image/*", url="https://x/cat.png"),
        MediaPart("audio/wav", data="UklG"),
    )
    (message,) = written(UserMessage(parts))["messages"]

    assert {
        "role": "user",
        "content": "see [image: https://x/cat.png][audio: audio/wav]",
        "images": ["iVBO"],
    } == message


TOOLS = (Tool("f", "F.", {"type": "object"}), Tool("g"))


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (ToolChoice(), ["f", "g"]),
        (ToolChoice("required"), ["f", "g"]),
        (ToolChoice("required", ("g",)), ["g"]),
        (ToolChoice("none"), []),
    ],
)
def test_only_allowed_tools_are_offered(choice, names):
    tools = written(tools=TOOLS, tool_choice=choice).get("tools", [])

    assert names == [tool["function"]["name"] for tool in tools]


def test_a_tool_without_a_schema_takes_an_empty_object():
    first, second = written(tools=TOOLS)["tools"]

    assert {
        "type": "function",
        "function": {"name": "f", "description": "F.", "parameters": {"type": "object"}},
    } == first
    assert {"type": "object", "properties": {}} == second["function"]["parameters"]


def test_settings_of_a_client_of_this_api_are_unchanged():
    options = {"num_predict": 7, "temperature": 0.5, "seed": 3, "stop": ["x"], "top_k": 4, "num_ctx": 8192}
    said = {"options": options, "format": SCHEMA, "think": "low", "keep_alive": 0, "logprobs": True}
    body = json.loads(OLLAMA.encode_request(chat(**said)).body)

    assert said == {name: body[name] for name in said}


def test_settings_of_a_chat_api_client_are_translated():
    asked = {
        "model": "m",
        "messages": HI,
        "max_tokens": 7,
        "top_k": 4,
        "logit_bias": {},
        "reasoning_effort": "minimal",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
    }
    body = json.loads(OLLAMA.encode_request(OPENAI_CHAT.decode_request(json.dumps(asked).encode())).body)

    assert ({"num_predict": 7, "top_k": 4}, SCHEMA, "low") == (body["options"], body["format"], body["think"])
    assert "logit_bias" not in body


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"response_format": {"type": "json_object"}}, ("format", "json")),
        ({"response_format": {"type": "text"}}, ("format", None)),
        ({"reasoning_effort": "none"}, ("think", False)),
        ({"reasoning_effort": "max"}, ("think", "high")),
        ({"reasoning_effort": "odd"}, ("think", None)),
    ],
)
def test_settings_of_other_apis_are_translated(extra, field):
    name, value = field

    assert value == written(extra=extra).get(name)


def test_ollamas_own_options_are_sent_to_no_other_upstream():
    body = json.loads(OPENAI_CHAT.encode_request(chat(options={"num_ctx": 9, "top_k": 4}, keep_alive=0)).body)

    assert 4 == body["top_k"]
    assert not {"options", "keep_alive", "num_ctx"} & set(body)


def test_several_choices_are_rejected():
    with pytest.raises(RequestError, match="one choice"):
        written(n=2)
