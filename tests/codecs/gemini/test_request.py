"""The client's request: everything that clients send, in both spellings, and what is rejected."""

import json
import re

import pytest

from fcshim.codecs.base import RequestTarget
from fcshim.codecs.gemini import GEMINI
from fcshim.errors import RequestError
from fcshim.messages import (
    AUTO,
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMessage,
    UserMessage,
)

HI = {"role": "user", "parts": [{"text": "Hi"}]}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
F = {"name": "f", "description": "does f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}}


def target(verb="generateContent", query=""):
    return RequestTarget(f"/v1beta/models/a/b:{verb}", query, {"version": "v1beta", "model": "a/b"})


def read(where=None, **fields):
    return GEMINI.decode_request(json.dumps({"contents": [HI], **fields}).encode(), where or target())


def refused(**fields):
    with pytest.raises(RequestError) as caught:
        read(**fields)
    return caught.value


def messages(*contents):
    return read(contents=list(contents)).messages


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def called(name="f", **fields):
    return {"functionCall": {"name": name, "args": {}, **fields}}


def answered(name="f", response=None, **fields):
    return {"functionResponse": {"name": name, "response": response or {"output": "x"}, **fields}}


def snake(value):
    """Convert every key to the other spelling."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if isinstance(value, dict):
        return {re.sub("[A-Z]", lambda match: "_" + match[0].lower(), key): snake(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize(
    ("verb", "query", "stream", "array"),
    [
        ("generateContent", "", False, False),
        ("streamGenerateContent", "alt=sse", True, False),
        ("streamGenerateContent", "key=x&alt=sse&prettyPrint=false", True, False),
        ("streamGenerateContent", "", True, True),
        ("streamGenerateContent", "alt=json", True, True),
    ],
)
def test_the_path_tells_the_model_and_whether_to_stream(verb, query, stream, array):
    request = read(target(verb, query))

    assert ("a/b", stream, array) == (request.model, request.stream, request.client_options.array)


FULL = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        HI,
        model(
            {"text": "hm", "thought": True}, {"text": "Well."}, {**called(args={"a": 1}), "thoughtSignature": "c2ln"}
        ),
        user(answered(response={"output": "three"}), {"inlineData": {"mimeType": "image/png", "data": "AA"}}),
    ],
    "tools": [{"functionDeclarations": [F, {"name": "g", "parametersJsonSchema": SCHEMA}]}, {"googleSearch": {}}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "generationConfig": {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "seed": 7,
        "candidateCount": 2,
        "maxOutputTokens": 50,
        "stopSequences": ["END", ""],
        "presencePenalty": 0.1,
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT"},
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 100},
    },
    "safetySettings": [{"category": "X", "threshold": "BLOCK_NONE"}],
    "ofTheFuture": 1,
}


@pytest.mark.parametrize("spelled", [FULL, snake(FULL)], ids=["camel", "snake"])
def test_both_spellings_are_equivalent(spelled):
    request = read(**spelled)
    image = spelled["contents"][2]["parts"][1]

    assert (
        SystemMessage((TextPart("Be brief."),)),
        UserMessage((TextPart("Hi"),)),
        AssistantMessage((TextPart("Well."),), (ToolCall("call_1_2", "f", '{"a":1}'),), "hm", "c2ln"),
        ToolMessage("call_1_2", (TextPart("three"),), "f"),
        UserMessage((MediaPart("image/png", data="AA", raw=image),)),
    ) == request.messages
    assert (Tool("f", "does f", SCHEMA), Tool("g", "", SCHEMA)) == request.tools
    assert ToolChoice("required", ("f",)) == request.tool_choice
    assert (0.5, 0.9, 7, 2, 50, ("END",)) == (
        request.temperature,
        request.top_p,
        request.seed,
        request.n,
        request.max_tokens,
        request.stop,
    )
    assert (40, 0.1) == (request.extra["top_k"], request.extra["presence_penalty"])
    assert {"type": "object"} == request.extra["response_format"]["json_schema"]["schema"]
    assert request.client_options.thoughts
    assert ("google_search", "googleSearch", "search") == (
        request.provider_tools[0].name,
        request.provider_tools[0].type,
        request.provider_tools[0].action,
    )


@pytest.mark.parametrize(
    ("config", "form"),
    [
        ({"responseMimeType": "text/plain", "responseSchema": {"type": "OBJECT"}}, None),
        ({"responseMimeType": "application/json"}, {"type": "json_object"}),
        (
            {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}},
            {"type": "json_schema", "json_schema": {"name": "reply", "schema": {"type": "object"}, "strict": True}},
        ),
    ],
)
def test_json_can_be_requested_in_several_ways(config, form):
    assert form == read(generationConfig=config).extra.get("response_format")


def test_fields_of_this_api_are_kept_verbatim():
    own = read(**FULL).verbatim["gemini"]

    assert {"safetySettings", "ofTheFuture", "generationConfig"} == set(own)
    assert {"topK", "presencePenalty", "responseMimeType", "responseSchema", "thinkingConfig"} == set(
        own["generationConfig"]
    )


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({"parts": [{"text": "Hi"}]}, (UserMessage((TextPart("Hi"),)),)),
        ([{"parts": [{"text": "Hi"}]}], (UserMessage((TextPart("Hi"),)),)),
        (["Hi"], (UserMessage((TextPart("Hi"),)),)),
        ([{"text": "Hi"}], (UserMessage((TextPart("Hi"),)),)),
        ([HI, {"role": "model"}], (UserMessage((TextPart("Hi"),)), AssistantMessage())),
        ([user({"text": ""}, {"ofTheFuture": {}}), HI], (UserMessage((TextPart("Hi"),)),)),
    ],
)
def test_contents_are_read_in_every_form(contents, expected):
    assert expected == read(contents=contents).messages


@pytest.mark.parametrize(
    "system", ["Be brief.", {"text": "Be brief."}, [{"text": "Be brief."}], {"parts": ["Be brief."]}]
)
def test_the_system_instruction_is_read_in_every_form(system):
    assert SystemMessage((TextPart("Be brief."),)) == read(systemInstruction=system).messages[0]


def test_responses_without_ids_answer_the_calls_of_their_function_in_order():
    turns = messages(
        HI,
        model(called(args={"n": 1}), called("g"), called(args={"n": 2})),
        user(answered("g"), answered(response={"output": "1"}), answered(response={"output": "2"})),
    )

    assert ["call_1_1", "call_1_0", "call_1_2"] == [turn.tool_call_id for turn in turns[2:]]


def test_ids_are_kept_and_a_duplicate_id_is_replaced():
    turns = messages(HI, model(called(id="x"), called(id="x")), user(answered(id="x"), answered()))

    assert ["x", "call_1_1"] == [call.id for call in turns[1].tool_calls]
    assert ["x", "call_1_1"] == [turn.tool_call_id for turn in turns[2:]]


@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"output": "x"}, "x", False),
        ({"result": 5}, "5", False),
        ({"return_value": 5}, "5", False),
        ({"result": {"a": "é"}}, '{"a":"é"}', False),
        ({"name": "f", "content": "x"}, "x", False),
        ({"error": "no"}, "no", True),
        ({"error": "no", "code": 5}, '{"error":"no","code":5}', False),
        ({"a": 1, "b": 2}, '{"a":1,"b":2}', False),
        ({"temperature": 20}, '{"temperature":20}', False),
    ],
)
def test_a_response_object_is_read_in_every_convention(response, text, is_error):
    message = messages(HI, model(called()), user(answered(response=response)))[2]

    assert ((TextPart(text),), is_error) == (message.content, message.is_error)


def test_a_response_may_hold_images():
    picture = {"inlineData": {"mimeType": "image/png", "data": "AA"}}
    message = messages(HI, model(called()), user(answered(parts=[picture])))[2]

    assert MediaPart("image/png", data="AA", raw=picture) == message.content[1]


def test_files_and_the_role_function_are_read():
    file = {"fileData": {"fileUri": "gs://a", "mimeType": "video/mp4"}}
    turns = messages(user(file), model(called()), {"role": "function", "parts": [answered()]})

    assert UserMessage((MediaPart("video/mp4", url="gs://a", raw=file),)) == turns[0]
    assert isinstance(turns[2], ToolMessage)


@pytest.mark.parametrize(
    ("calling", "expected"),
    [
        ({}, AUTO),
        ({"mode": "AUTO"}, AUTO),
        ({"mode": "auto"}, AUTO),
        ({"mode": "MODE_UNSPECIFIED"}, AUTO),
        ({"mode": "VALIDATED"}, AUTO),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, ToolChoice("auto", ("f",))),
        ({"mode": "ANY"}, ToolChoice("required")),
        ({"mode": "NONE"}, ToolChoice("none")),
    ],
)
def test_function_calling_modes_become_tool_choices(calling, expected):
    request = read(tools=[{"functionDeclarations": [F]}], toolConfig={"functionCallingConfig": calling})

    assert expected == request.tool_choice


def test_mode_any_is_ignored_if_only_googles_own_tools_are_given():
    config = {"functionCallingConfig": {"mode": "ANY"}}

    assert AUTO == read(tools=[{"codeExecution": {}}], toolConfig=config).tool_choice


def test_a_part_of_a_conversation_can_be_counted():
    """Gemini CLI counts a result by itself, before it sends it."""
    response = {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "3"}}}
    contents = {"contents": [{"role": "user", "parts": [response]}]}
    request = GEMINI.decode_count(json.dumps(contents).encode(), target("countTokens"))

    assert (ToolMessage("c1", (TextPart("3"),), "f"),) == request.messages
    with pytest.raises(RequestError, match="there is no function call named 'f'"):
        GEMINI.decode_count(json.dumps({"generateContentRequest": contents}).encode(), target("countTokens"))


def test_a_count_request_may_be_nested_in_a_field():
    body = {
        "generateContentRequest": {"model": "models/a/b", "contents": [HI], "tools": [{"functionDeclarations": [F]}]}
    }
    request = GEMINI.decode_count(json.dumps(body).encode(), target("countTokens"))

    assert ("a/b", "f") == (request.model, request.tools[0].name)
    assert 1 == len(GEMINI.decode_count(json.dumps({"contents": [HI]}).encode(), target("countTokens")).messages)


def deep(levels):
    return {"type": "OBJECT"} if not levels else {"type": "ARRAY", "items": deep(levels - 1)}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"contents": []}, "contents: expected at least one"),
        ({"contents": None}, "contents: expected an array"),
        ({"contents": [5]}, "contents[0]: expected an array"),
        ({"contents": [{"role": "system", "parts": []}]}, "contents[0].role: expected 'user' or 'model'"),
        ({"contents": [user({"text": 5})]}, "contents[0].parts[0].text: expected a string"),
        ({"contents": [user(answered())]}, "there is no function call named 'f' that it answers"),
        ({"contents": [HI, model(called()), user(answered("g"))]}, "no function call named 'g'"),
        (
            {"contents": [HI, model({"functionCall": {"name": "f", "args": "{}"}})]},
            "functionCall.args: expected an object",
        ),
        ({"tools": {}}, "tools: expected an array"),
        ({"tools": [{"functionDeclarations": [{"name": "a b"}]}]}, "functionDeclarations[0].name"),
        ({"tools": [{"functionDeclarations": [F]}, {"functionDeclarations": [F]}]}, "two tools named 'f'"),
        ({"tools": [{"functionDeclarations": [{"name": "f", "parameters": deep(60)}]}]}, "nested too deeply"),
        (
            {"tools": [{"functionDeclarations": [{"name": "f", "response": deep(60)}]}]},
            "response: the schema is nested",
        ),
        ({"tools": [{"functionDeclarations": [{"name": "f", "responseJsonSchema": deep(60)}]}]}, "nested deeper"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}}, "mode: expected 'AUTO'"),
        (
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["h"]}}},
            "no function named 'h'",
        ),
        ({"generationConfig": {"temperature": "hot"}}, "temperature: expected a number"),
        ({"generationConfig": {"candidateCount": 0}}, "candidateCount"),
        (
            {"generationConfig": {"responseMimeType": "application/json", "responseSchema": deep(60)}},
            "nested too deeply",
        ),
    ],
    ids=lambda each: str(each)[:60],
)
def test_an_unsupported_request_is_rejected_with_its_field(fields, words):
    assert words in refused(**fields).message


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"contents":' + b"[" * 5000])
def test_a_malformed_body_is_rejected(body):
    with pytest.raises(RequestError):
        GEMINI.decode_request(body, target())


def test_a_declaration_s_response_is_the_type_of_the_result():
    """Requirement 10."""
    declarations = [{**F, "response": {"type": "NUMBER"}}, {"name": "g", "responseJsonSchema": {"type": "string"}}]
    first, second = read(tools=[{"functionDeclarations": declarations}]).tools

    assert ({"type": "number"}, {"type": "string"}) == (first.returns, second.returns)
