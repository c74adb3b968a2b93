import functools
import json

import msgspec
import pytest

from fcshim.codecs.json_text import RequestLimits
from fcshim.codecs.openai_responses import OPENAI_RESPONSES, OpenAIResponses
from fcshim.errors import RequestError
from fcshim.events import JSON
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
from tests.steps import steps

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
    assert (False, None, None) == (request.stream, request.parallel_tool_calls, request.max_tokens)


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


def test_hosted_tools_are_kept_apart_from_functions():
    filters = {"allowed_domains": ["a.org"]}
    search = {"type": "web_search_preview_2025_03_11", "filters": filters}
    offline = {"type": "web_search", "external_web_access": False}
    hosted = {"type": "shell", "environment": {"type": "container_auto"}}
    request = read(
        tools=[FUNCTION, search, offline, hosted, {"type": "tool_search", "execution": "server"}, {"odd": 1}]
    )

    assert ["f"] == [tool.name for tool in request.tools]
    assert [
        ("web_search", "search", ("a.org",)),
        ("open_page", "fetch", ("a.org",)),
        ("web_search", None, ()),
        ("shell", None, ()),
        ("a tool without a type", None, ()),
    ] == [(tool.name, tool.action, tool.allowed_domains) for tool in request.provider_tools]
    choice = {"tools": [FUNCTION, search], "tool_choice": {"type": "web_search_preview"}}
    assert ToolChoice("required", ("web_search",)) == read(**choice).tool_choice


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
    ],
    ids=str,
)
def test_every_choice_of_tools(choice, expected):
    assert expected == read(tools=[FUNCTION, CUSTOM, SPACE], tool_choice=choice).tool_choice


def test_a_required_call_needs_a_tool():
    assert ToolChoice("required") == read(tools=[{"type": "web_search"}], tool_choice="required").tool_choice
    assert "tool_choice" == refused(tool_choice="required").param
    assert "tool_choice" == refused(tools=[FUNCTION], tool_choice={"type": "web_search"}).param


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


USER = {"role": "user", "content": "hi"}


def messages(*items):
    return read(input=[USER, *items]).messages[1:]


def assistant_message(text):
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def function_call(call_id="c1", name="f", arguments="{}", **fields):
    return {
        "type": "function_call",
        "id": "fc_" + call_id,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        **fields,
    }


def result(call_id="c1", output="3", kind="function_call_output"):
    return {"type": kind, "call_id": call_id, "output": output}


def texts(*contents):
    return tuple(map(TextPart, contents))


def test_every_role_is_read():
    roles = {"system": SystemMessage, "developer": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}

    assert tuple(kind(texts(role)) for role, kind in roles.items()) == messages(
        *({"role": role, "content": role} for role in roles)
    )


def test_every_part_type_is_read():
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"},
        {"type": "input_image", "image_url": "https://x/cat.png"},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_file", "file_id": "file-2", "filename": "b.pdf"},
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}},
        {"type": "hologram"},
    ]
    (message,) = messages({"role": "user", "content": parts})
    media = [(part.media_type, part.url, part.data) for part in message.content if isinstance(part, MediaPart)]

    assert [
        ("image/png", None, "iVBO"),
        ("image/*", "https://x/cat.png", None),
        ("application/pdf", None, "JVBE"),
        ("application/octet-stream", "https://x/a.pdf", None),
        ("audio/mp3", None, "UklG"),
    ] == media
    assert ["a", "[image: file-1]", "[file: b.pdf]"] == [
        part.text for part in message.content if isinstance(part, TextPart)
    ]


def test_a_refusal_is_text():
    assert (AssistantMessage(texts("no")),) == messages(
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    )


def test_a_turn_of_the_model_is_one_message():
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    items = [reasoning, assistant_message("a"), function_call(), function_call("c2", "g"), result(), result("c2")]

    assert (
        AssistantMessage(texts("a"), (ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}")), "hm"),
        ToolMessage("c1", texts("3"), "f"),
        ToolMessage("c2", texts("3"), "g"),
    ) == messages(*items)


def test_text_after_a_call_belongs_to_the_turn_and_a_second_text_does_not():
    assert [2, 1, 1] == [
        len(message.content)
        for message in messages(
            assistant_message("a"),
            function_call(),
            assistant_message("b"),
            assistant_message("c"),
            assistant_message("d"),
        )
    ]


def test_reasoning_begins_a_turn_and_keeps_its_signature():
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "gAAA"}
    first, second = messages(assistant_message("a"), reasoning, function_call())

    assert AssistantMessage(texts("a")) == first
    assert ("s", "gAAA") == (second.reasoning, second.signature)


def test_a_namespace_is_part_of_the_name():
    (message, answer) = messages(function_call(namespace="calc"), result())

    assert "calc__f" == message.tool_calls[0].name == answer.name


def test_custom_calls_are_calls_with_one_string():
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": 'a"b'}
    message, answer = messages(call, result(kind="custom_tool_call_output"))

    assert (ToolCall("c1", "patch", '{"input":"a\\"b"}'),) == message.tool_calls
    assert ToolMessage("c1", texts("3"), "patch") == answer


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("3", texts("3")),
        ([{"type": "input_text", "text": "3"}], texts("3")),
        ({"a": 1}, texts('{"a":1}')),
        (None, ()),
    ],
)
def test_results_have_several_forms(output, content):
    assert content == messages(function_call(), result(output=output))[1].content


def test_a_result_without_its_call_is_the_documented_error():
    error = refused(input=[USER, result("c9")])

    assert ("input", "No tool call found for function call output with call_id c9.") == (error.param, error.message)


def test_an_output_that_answers_no_call_is_a_document_of_the_client():
    """Codex reports the actions of its own tools so: `agent.goal_objective` follows the result of `create_goal`."""
    item = {"type": "function_call_output", "id": "fco_1", "name": "goal_objective", "namespace": "agent"}
    *_, answer, told = messages(function_call(), result(), {**item, "output": "Tidy up."})

    assert isinstance(answer, ToolMessage)
    assert (
        UserMessage(
            (TextPart("Output of agent__goal_objective:\n", document=True), TextPart("Tidy up.", document=True))
        )
        == told
    )
    assert "input[0].call_id" == refused(input=[{"type": "function_call_output", "output": "3"}]).param
    assert "input[0].name" == refused(input=[{"type": "function_call_output", "name": 3, "output": "3"}]).param


@pytest.mark.parametrize("left_out", [{"type": "item_reference", "id": "fc_9"}, {"type": "local_shell_call"}], ids=str)
def test_a_result_whose_call_may_have_been_skipped_is_kept(left_out):
    assert (ToolMessage("c9", texts("3")),) == messages(left_out, result("c9"))


def test_a_call_id_may_come_again_in_a_later_turn():
    first = messages(USER, function_call(), result("c1"), USER, {**function_call(), "name": "g"}, result("c1"))

    assert ["f", "g"] == [message.tool_calls[0].name for message in first if isinstance(message, AssistantMessage)]
    assert ["f", "g"] == [message.name for message in first if isinstance(message, ToolMessage)]


def test_two_calls_of_one_turn_with_the_same_id_are_an_error():
    with pytest.raises(RequestError, match="Duplicate"):
        read(input=[USER, function_call(), function_call()])


@pytest.mark.security
def test_calls_and_reasoning_of_one_turn_take_linear_time() -> None:
    def body(count: int) -> bytes:
        items: list[JSON] = [{"role": "user", "content": "hi"}]
        for at in range(count):
            items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]})
            items.append({"type": "function_call", "call_id": f"c{at}", "name": "f", "arguments": "{}"})
        return msgspec.json.encode({"model": "m", "input": items})

    few, many = (steps(functools.partial(OPENAI_RESPONSES.decode_request, body(size))) for size in (50, 200))

    assert many < 5 * few
