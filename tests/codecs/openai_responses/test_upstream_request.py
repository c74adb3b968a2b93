import json

import pytest

from fcshim.codecs.openai_chat import OPENAI_CHAT
from fcshim.codecs.openai_responses import OPENAI_RESPONSES
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
from tests.codecs.openai_responses.test_request import SCHEMA, read

USER = UserMessage((TextPart("hi"),))


def written(*messages, **fields):
    outgoing = OPENAI_RESPONSES.encode_request(Request(model="m", messages=messages or (USER,), **fields))

    assert "/responses" == outgoing.path
    return json.loads(outgoing.body)


def test_a_minimal_request_has_only_required_fields():
    assert {
        "model": "m",
        "input": [{"role": "user", "content": "hi"}],
        "stream": True,
        "store": False,
    } == written()


def test_a_conversation_with_calls_and_results():
    items = written(
        SystemMessage((TextPart("be brief"),)),
        USER,
        AssistantMessage((TextPart("ok"),), (ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "g", "")), "hm", "gAAA"),
        ToolMessage("c1", (TextPart("3"),)),
        ToolMessage("c2", (), is_error=True),
    )["input"]

    assert [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
    ] == items


def test_every_media_type_has_its_part():
    parts = (
        TextPart("see"),
        MediaPart("image/png", data="iVBO"),
        MediaPart("image/*", url="https://x/cat.png"),
        MediaPart("audio/wav", data="UklG"),
        MediaPart("application/pdf", data="JVBE"),
        MediaPart("application/pdf", url="https://x/a.pdf"),
        MediaPart("application/octet-stream", raw={"type": "hologram"}),
    )
    (item,) = written(UserMessage(parts))["input"]

    assert [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO"},
        {"type": "input_image", "image_url": "https://x/cat.png"},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        {"type": "input_file", "filename": "file", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_text", "text": "[application: application/octet-stream]"},
    ] == item["content"]


CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = (Tool("f", "F.", CLOSED, strict=True), Tool("g"))


def test_tools_are_flat_functions_with_strict():
    body = written(tools=TOOLS, parallel_tool_calls=False)

    assert [
        {"type": "function", "name": "f", "description": "F.", "parameters": CLOSED, "strict": True},
        {"type": "function", "name": "g", "parameters": {"type": "object", "properties": {}}, "strict": False},
    ] == body["tools"]
    assert body["parallel_tool_calls"] is False
    assert "tool_choice" not in body


def test_a_schema_that_strict_does_not_allow_is_sent_without_strict():
    (function,) = written(tools=(Tool("f", "F.", {"type": "object"}, strict=True),))["tools"]

    assert function["strict"] is False


@pytest.mark.parametrize(
    ("choice", "expected", "count"),
    [
        (ToolChoice("required"), "required", 2),
        (ToolChoice("none"), "none", 2),
        (ToolChoice("required", ("g",)), {"type": "function", "name": "g"}, 2),
        (ToolChoice("required", ("f", "g")), "required", 2),
        (ToolChoice("auto", ("f",)), None, 2),
    ],
)
def test_every_choice_of_tools(choice, expected, count):
    body = written(tools=TOOLS, tool_choice=choice)

    assert (expected, count) == (body.get("tool_choice"), len(body["tools"]))


def test_fields_of_a_responses_client_are_forwarded():
    fields = {"reasoning": {"effort": "low", "summary": "auto"}, "metadata": {"a": "b"}, "include": ["x"], "user": "u"}
    text = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}, "verbosity": "low"}
    request = read(**fields, text=text, max_output_tokens=7, store=True, previous_response_id=None)
    body = json.loads(OPENAI_RESPONSES.encode_request(request).body)

    assert {**fields, "text": text} == {name: body[name] for name in [*fields, "text"]}
    assert (7, False) == (body["max_output_tokens"], body["store"])
    assert "previous_response_id" not in body


def test_fields_of_a_chat_client_are_converted():
    form = {"name": "n", "schema": SCHEMA, "strict": True}
    source = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 7,
        "logit_bias": {},
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    body = json.loads(OPENAI_RESPONSES.encode_request(OPENAI_CHAT.decode_request(json.dumps(source).encode())).body)

    assert {"format": {"type": "json_schema", **form}} == body["text"]
    assert ({"effort": "low"}, 7) == (body["reasoning"], body["max_output_tokens"])
    assert "logit_bias" not in body


def test_json_mode_is_converted():
    assert {"format": {"type": "json_object"}} == written(extra={"response_format": {"type": "json_object"}})["text"]
    assert "text" not in written(extra={"response_format": {"type": "text"}})


def test_fields_of_this_api_go_to_no_other_upstream():
    body = json.loads(OPENAI_CHAT.encode_request(read(store=True, metadata={}, reasoning={"effort": "low"})).body)

    assert "low" == body["reasoning_effort"]
    assert not {"store", "metadata", "input", "reasoning"} & set(body)


def test_several_choices_are_rejected():
    with pytest.raises(RequestError, match="one choice"):
        written(n=2)
