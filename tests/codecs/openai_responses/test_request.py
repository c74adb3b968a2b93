import json

import pytest

from fcshim.codecs.limits import RequestLimits
from fcshim.codecs.openai_responses import OPENAI_RESPONSES, OpenAIResponses
from fcshim.errors import RequestError
from fcshim.messages import AUTO, SystemMessage, TextPart, Tool, ToolChoice, UserMessage

FUNCTION = {"type": "function", "name": "f", "description": "F.", "parameters": {"type": "object"}, "strict": True}
CUSTOM = {"type": "custom", "name": "patch", "description": "Patch."}
SPACE = {
    "type": "namespace",
    "name": "calc",
    "description": "Sums.",
    "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "g"}],
}


def read(**fields):
    return OPENAI_RESPONSES.decode_request(json.dumps({"model": "m", "input": "hi", **fields}).encode())


def refused(**fields):
    with pytest.raises(RequestError) as caught:
        read(**fields)
    return caught.value


def test_a_string_is_the_users_message():
    request = read()

    assert ("m", (UserMessage((TextPart("hi"),)),)) == (request.model, request.messages)
    assert (False, True, None) == (request.stream, request.parallel_tool_calls, request.max_tokens)


def test_instructions_come_first():
    assert SystemMessage((TextPart("be brief"),)) == read(instructions="be brief").messages[0]


def test_settings_are_read_from_their_fields():
    request = read(max_output_tokens=7, temperature=0.5, top_p=0.9, parallel_tool_calls=False, stream=True)

    assert (7, 0.5, 0.9, False, True) == (
        request.max_tokens,
        request.temperature,
        request.top_p,
        request.parallel_tool_calls,
        request.stream,
    )


SCHEMA = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("fields", "extra"),
    [
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA},
                }
            },
        ),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": None}}, {}),
    ],
)
def test_settings_of_local_engines_get_their_chat_names(fields, extra):
    assert extra == read(**fields).extra


def test_functions_are_flat():
    assert (Tool("f", "F.", {"type": "object"}, strict=True),) == read(tools=[FUNCTION]).tools


def test_tools_in_the_chat_apis_form_are_read():
    assert ("f",) == tuple(tool.name for tool in read(tools=[{"type": "function", "function": {"name": "f"}}]).tools)


@pytest.mark.parametrize(
    "form", [{"type": "grammar", "syntax": "regex", "definition": "a+"}, {"type": "text"}, None], ids=str
)
def test_a_custom_tool_is_a_function_with_one_string(form):
    request = read(tools=[{**CUSTOM, "format": form}])
    (tool,) = request.tools

    assert ["input"] == tool.parameters["required"]
    assert tool.description.startswith("Patch.")
    assert ("a+" in tool.description) == (form is not None and form["type"] == "grammar")
    assert {"patch"} == request.client_options.custom


def test_tools_in_a_namespace_get_both_names():
    request = read(tools=[SPACE, FUNCTION])

    assert ["calc__f", "calc__g", "f"] == [tool.name for tool in request.tools]
    assert "Sums." == request.tools[0].description
    assert {"calc__f": "calc", "calc__g": "calc"} == request.client_options.namespaces
    assert {"calc__g"} == request.client_options.custom
    assert {"name": "f", "namespace": "calc"} == request.client_options.client_name("calc__f")
    assert {"name": "f"} == request.client_options.client_name("f")


def test_hosted_tools_are_left_out_and_noted():
    request = read(tools=[{"type": "web_search"}, {"type": "tool_search", "execution": "client"}, {"odd": 1}])

    assert () == request.tools
    assert "None, tool_search, web_search" in request.notes[0]


def test_tools_in_items_are_offered_once():
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [FUNCTION, {"type": "function", "name": "g"}]},
        {"type": "tool_search_output", "tools": [SPACE, "odd"]},
        {"role": "user", "content": "hi"},
    ]

    assert ["f", "g", "calc__f", "calc__g"] == [tool.name for tool in read(tools=[FUNCTION], input=items).tools]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, AUTO),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "f"}, ToolChoice("required", ("f",))),
        ({"type": "function", "name": "f", "namespace": "calc"}, ToolChoice("required", ("calc__f",))),
        ({"type": "custom", "name": "patch"}, ToolChoice("required", ("patch",))),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("required", ("f",))),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}, {"type": "mcp"}]},
            ToolChoice("auto", ("f",)),
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "patch"}]},
            ToolChoice("required", ("patch",)),
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}, ToolChoice("none")),
        ({"type": "web_search"}, AUTO),
    ],
    ids=str,
)
def test_every_choice_of_tools(choice, expected):
    assert expected == read(tools=[FUNCTION, CUSTOM, SPACE], tool_choice=choice).tool_choice


def test_required_becomes_auto_where_all_tools_are_hosted():
    assert AUTO == read(tools=[{"type": "web_search"}], tool_choice="required").tool_choice
    assert "tool_choice" == refused(tool_choice="required").param


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": ["hi"]}, "input[0]"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 7}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}]}, "input[0].arguments"),
        ({"tools": {}}, "tools"),
        ({"tools": [7]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [{"type": "custom", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"type": "namespace", "name": "a b", "tools": []}]}, "tools[0].name"),
        ({"tools": [{"type": "namespace", "name": "a"}]}, "tools[0].tools"),
        ({"tools": [SPACE, {"type": "function", "name": "calc__f"}]}, "tools[1]"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
        ({"tools": [FUNCTION], "tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tools": [FUNCTION], "tool_choice": "sometimes"}, "tool_choice"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"text": []}, "text"),
    ],
)
def test_errors_name_the_invalid_field(fields, place):
    error = refused(**fields)

    assert place in (error.param or "") or place in error.message
    assert 400 == error.status


@pytest.mark.parametrize("field", ["background", "conversation", "prompt"])
def test_unsupported_features_are_rejected_by_name(field):
    error = refused(**{field: True})

    assert (field, "unsupported_parameter") == (error.param, error.kind)


def test_unknown_fields_and_items_are_ignored():
    items = [
        {"type": "web_search_call", "id": "ws_1"},
        {"type": "compaction_trigger"},
        {"role": "user", "content": "x"},
    ]

    assert 1 == len(read(shimmer=1, include=["x"], input=items).messages)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_no_object_is_rejected(body):
    with pytest.raises(RequestError):
        OPENAI_RESPONSES.decode_request(body)


def test_limits_hold_for_tools():
    tools = [{"type": "function", "name": f"f{at}"} for at in range(3)]
    codec = OpenAIResponses(request_limits=RequestLimits(tools=2))
    with pytest.raises(RequestError, match="at most 2"):
        codec.decode_request(json.dumps({"model": "m", "input": "x", "tools": tools}).encode())
