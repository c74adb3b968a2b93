"""The request for an upstream of this API."""

import json

import pytest

from fcshim.codecs.gemini import GEMINI
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
from tests.codecs.gemini.test_request import FULL, read


def says(text):
    return (TextPart(text),)


def body(*messages, **fields):
    said = messages or (UserMessage(says("Hi")),)
    return json.loads(GEMINI.encode_request(Request(model="m", messages=said, **fields)).body)


@pytest.mark.parametrize(
    ("model", "path"), [("m", "m"), ("models/m", "m"), ("tuned/a b?x", "tuned/a%20b%3Fx"), ("a:8b", "a:8b")]
)
def test_the_model_is_in_the_path(model, path):
    outgoing = GEMINI.encode_request(Request(model=model, messages=(UserMessage(says("Hi")),)))

    assert f"/models/{path}:streamGenerateContent?alt=sse" == outgoing.path
    assert {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]} == json.loads(outgoing.body)


def test_settings():
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    config = body(
        stop=("END",), max_tokens=5, temperature=0.5, top_p=0.9, seed=1, extra={"top_k": 4, "response_format": form}
    )["generationConfig"]

    assert {
        "stopSequences": ["END"],
        "maxOutputTokens": 5,
        "temperature": 0.5,
        "topP": 0.9,
        "seed": 1,
        "topK": 4,
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    } == config
    assert {"responseMimeType": "application/json"} == body(extra={"response_format": {"type": "json_object"}})[
        "generationConfig"
    ]


def test_fields_of_this_api_survive_the_round_trip():
    written = json.loads(
        GEMINI.encode_request(
            read(**{**FULL, "generationConfig": {**FULL["generationConfig"], "candidateCount": 1}})
        ).body
    )

    assert FULL["safetySettings"] == written["safetySettings"]
    assert {**FULL["generationConfig"], "stopSequences": ["END"]} == {
        **written["generationConfig"],
        "candidateCount": 2,
    }
    assert FULL["toolConfig"] == written["toolConfig"]
    assert FULL["systemInstruction"] == written["systemInstruction"]


def test_system_messages():
    written = body(
        SystemMessage(says("a")), SystemMessage(says("b")), UserMessage(says("Hi")), SystemMessage(says("c"))
    )

    assert {"parts": [{"text": "a\n\nb"}]} == written["systemInstruction"]
    assert [{"text": "Hi"}, {"text": "<system_note>\nc\n</system_note>"}] == written["contents"][0]["parts"]


def test_calls_with_signatures_and_results_that_are_always_objects():
    picture = MediaPart("image/png", data="AA")
    contents = body(
        UserMessage(says("Hi")),
        AssistantMessage(says("a"), (ToolCall("t1", "f", '{"x":1}'), ToolCall("t2", "g", "[]")), "hm", "c2ln"),
        ToolMessage("t1", (TextPart("yes"), picture)),
        ToolMessage("t2", says("no"), is_error=True),
    )["contents"]

    assert ["user", "model", "user"] == [turn["role"] for turn in contents]
    assert [
        {"text": "a"},
        {"functionCall": {"id": "t1", "name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "t2", "name": "g", "args": {}}},
    ] == contents[1]["parts"]
    assert [
        {"functionResponse": {"id": "t1", "name": "f", "response": {"output": "yes"}}},
        {"inlineData": {"mimeType": "image/png", "data": "AA"}},
        {"functionResponse": {"id": "t2", "name": "g", "response": {"error": "no"}}},
    ] == contents[2]["parts"]


def test_an_unsigned_call_carries_the_documented_placeholder():
    contents = body(
        UserMessage(says("Hi")), AssistantMessage((), (ToolCall("t1", "f", "{}"), ToolCall("t2", "f", "{}")))
    )

    signatures = [part.get("thoughtSignature") for part in contents["contents"][1]["parts"]]

    assert ["skip_thought_signature_validator", None] == signatures


def test_a_leading_assistant_turn_gets_a_user_turn_before_it():
    contents = body(AssistantMessage(says("Hello")), UserMessage(says("")), AssistantMessage(says("x")))["contents"]

    assert ["user", "model"] == [turn["role"] for turn in contents]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (MediaPart("image/png", url="http://a"), {"fileData": {"fileUri": "http://a", "mimeType": "image/png"}}),
        (MediaPart("image/*"), {"text": "[image: image/*]"}),
        (MediaPart("image/png", raw={"inline_data": {"data": "x"}}), {"inline_data": {"data": "x"}}),
    ],
)
def test_media(part, expected):
    assert [expected] == body(UserMessage((part,)))["contents"][0]["parts"]


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        (ToolChoice(), None),
        (ToolChoice("auto", ("f",)), {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}),
        (ToolChoice("required"), {"mode": "ANY"}),
        (ToolChoice("required", ("f",)), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        (ToolChoice("none"), {"mode": "NONE"}),
    ],
)
def test_tools_and_choices(choice, calling):
    schema = {"$schema": "x", "type": "object", "properties": {"a": {}}}
    written = body(tools=(Tool("f", "does f", schema), Tool("g", "", {"type": "object"})), tool_choice=choice)

    assert [
        {"name": "f", "description": "does f", "parametersJsonSchema": {"type": "object", "properties": {"a": {}}}},
        {"name": "g", "description": "g"},
    ] == written["tools"][0]["functionDeclarations"]
    assert calling == written.get("toolConfig", {}).get("functionCallingConfig")


@pytest.mark.parametrize("model", ["..", "../files", "a/../../b", "models/./x"])
def test_a_model_name_with_dot_segments_is_rejected(model):
    with pytest.raises(RequestError, match="expected a name"):
        GEMINI.encode_request(Request(model=model, messages=(UserMessage(says("Hi")),)))


def test_several_choices_are_rejected():
    with pytest.raises(RequestError, match="one choice"):
        body(n=2)


@pytest.mark.parametrize(
    ("model", "effort", "budget"),
    [
        ("gemini-2.5-pro", "low", 1024),
        ("models/gemini-3-flash", "high", 24_576),
        ("gemini-2.5-flash", "none", None),
        ("gemma-3-27b-it", "high", None),
        ("gemini-2.5-pro", None, None),
    ],
)
def test_an_effort_becomes_a_budget_of_models_that_think(model, effort, budget):
    request = Request(model=model, messages=(UserMessage((TextPart("Hi"),)),), extra={"reasoning_effort": effort})
    config = json.loads(GEMINI.encode_request(request).body).get("generationConfig", {})

    assert budget == config.get("thinkingConfig", {}).get("thinkingBudget")
