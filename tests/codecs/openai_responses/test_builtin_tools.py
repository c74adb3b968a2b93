"""Built-in tools that the client runs: functions for the model, items of their own types for the client."""

import json

import pytest
from openai.types.responses import Response, ResponseInputItemParam, ResponseStreamEvent
from pydantic import TypeAdapter

from fcshim.codecs.base import ReplyIdentity
from fcshim.codecs.openai_responses import OPENAI_RESPONSES
from fcshim.errors import RequestError
from fcshim.events import Stop, Text, ToolCallChunk, ToolCallEnd, ToolCallStart
from fcshim.messages import AssistantMessage, ToolChoice, ToolMessage, text_of
from fcshim.reply import fold
from fcshim.schema.validate import first_violation

SEARCH = {"type": "tool_search", "execution": "client", "parameters": {"type": "object", "properties": {"goal": {}}}}
TOOLS = [{"type": "shell", "environment": {"type": "local"}}, {"type": "local_shell"}, {"type": "apply_patch"}, SEARCH]
IDENTITY = ReplyIdentity(id="resp_1", created=1, model="m")
ITEM = TypeAdapter(ResponseInputItemParam)
EVENT = TypeAdapter(ResponseStreamEvent)

CALLS = {
    "shell": {"commands": ["ls", "pwd"], "timeout_ms": 500},
    "local_shell": {"command": ["bash", "-lc", "ls"], "working_directory": "/w"},
    "apply_patch": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"},
    "tool_search": {"goal": "mail"},
}
ITEMS = {
    "shell": {"type": "shell_call", "action": {"commands": ["ls", "pwd"], "timeout_ms": 500}},
    "local_shell": {
        "type": "local_shell_call",
        "action": {"type": "exec", "command": ["bash", "-lc", "ls"], "env": {}, "working_directory": "/w"},
    },
    "apply_patch": {
        "type": "apply_patch_call",
        "operation": {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b"},
    },
    "tool_search": {"type": "tool_search_call", "arguments": {"goal": "mail"}, "execution": "client"},
}
OUTPUTS = {
    "shell": {
        "output": [
            {"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "", "stderr": "slow", "outcome": {"type": "timeout"}},
        ]
    },
    "local_shell": {"output": "a.py"},
    "apply_patch": {"status": "failed", "output": "no such file"},
    "tool_search": {
        "execution": "client",
        "tools": [{"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send"}]}],
    },
}
RESULTS = {
    "shell": "a.py\n[exit code 0]\nstderr:\nslow\n[the time limit was reached]",
    "local_shell": "a.py",
    "apply_patch": "no such file",
    "tool_search": "These tools can be called now: mail__send",
}
BY_NAME = pytest.mark.parametrize("name", list(CALLS))


def read(**fields):
    body = {"model": "m", "input": "Hi", "tools": TOOLS, **fields}
    return OPENAI_RESPONSES.decode_request(json.dumps(body).encode())


def call_events(name, arguments):
    text = json.dumps(arguments)
    return [
        Text("See."),
        ToolCallStart("call_1", name, 0),
        ToolCallChunk("call_1", text, 0),
        ToolCallEnd("call_1", name, text, 0),
        Stop("tool_use"),
    ]


def streamed(events, **fields):
    encoder = OPENAI_RESPONSES.encoder(read(**fields), IDENTITY)
    data = b"".join(encoder.encode(0, [event]) for event in events) + encoder.close()
    return [json.loads(line.removeprefix("data: ")) for line in data.decode().split("\n") if line.startswith("data: ")]


def whole(events, **fields):
    return json.loads(OPENAI_RESPONSES.encode_reply(read(**fields), IDENTITY, [fold(events)]))


@BY_NAME
def test_the_model_gets_a_function_with_the_documented_schema(name):
    (tool,) = [tool for tool in read().tools if tool.name == name]

    assert first_violation(tool.parameters, CALLS[name]) is None
    assert tool.strict


@BY_NAME
def test_a_call_is_an_item_of_its_own_type(name):
    events = streamed(call_events(name, CALLS[name]))
    body = whole(call_events(name, CALLS[name]))
    item = events[-1]["response"]["output"][-1]
    added = [each["item"] for each in events if each["type"] == "response.output_item.added"][-1]
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"][-1]

    assert {**ITEMS[name], "call_id": "call_1", "status": "completed"} == {k: v for k, v in item.items() if k != "id"}
    assert item == done == {**added, "status": "completed"}
    assert item == body["output"][-1]
    assert ITEMS[name]["type"] == Response.model_validate(body).output[-1].type
    assert all(EVENT.validate_python(each).type == each["type"] for each in events)


@BY_NAME
def test_the_client_sends_the_call_and_its_output_back(name):
    call = {**whole(call_events(name, CALLS[name]))["output"][-1]}
    output = {"type": f"{ITEMS[name]['type'].removesuffix('_call')}_call_output", "call_id": "call_1", **OUTPUTS[name]}
    if name == "tool_search":
        output["type"] = "tool_search_output"
    ITEM.validate_python(call)
    request = read(input=[{"role": "user", "content": "Hi"}, call, output])
    _, said, result = request.messages

    assert isinstance(said, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert (name, CALLS[name]) == (said.tool_calls[0].name, json.loads(said.tool_calls[0].arguments))
    assert (RESULTS[name], name, name == "apply_patch") == (text_of(result.content), result.name, result.is_error)
    assert ("mail__send" in [tool.name for tool in request.tools]) == (name == "tool_search")


@pytest.mark.parametrize("own_id", ["call_1", "lsh_1"])
def test_the_output_of_a_local_shell_has_its_call_s_id_as_its_own(own_id):
    call = {**ITEMS["local_shell"], "id": "lsh_1", "call_id": "call_1"}
    *_, result = read(input=[call, {"type": "local_shell_call_output", "id": own_id, "output": "a.py"}]).messages

    assert "call_1" == result.tool_call_id


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shell", {"commands": "ls"}),
        ("shell", {"command": ["ls"]}),
        ("local_shell", {"command": "ls"}),
        ("apply_patch", {"type": "create_file", "path": "a.py"}),
        ("apply_patch", {"type": "move_file", "path": "a.py", "diff": "+a"}),
    ],
)
def test_a_call_that_does_not_fit_its_item_never_reaches_the_client(name, arguments):
    (tool,) = [tool for tool in read().tools if tool.name == name]
    events = streamed(call_events(name, arguments))
    body = whole(call_events(name, arguments))

    assert first_violation(tool.parameters, arguments)
    assert "response.failed" == events[-2]["type"]
    assert ["message"] == [item["type"] for item in body["output"]]
    assert "incomplete" == body["status"]


def test_a_file_is_deleted_without_a_diff():
    (item,) = whole(call_events("apply_patch", {"type": "delete_file", "path": "a"})[1:])["output"]

    assert {"type": "delete_file", "path": "a"} == item["operation"]


@BY_NAME
def test_a_choice_names_a_built_in_tool_by_its_type(name):
    assert ToolChoice("required", (name,)) == read(tool_choice={"type": name}).tool_choice


def test_a_shell_in_a_container_runs_at_the_provider():
    request = read(tools=[{"type": "shell", "environment": {"type": "container_auto"}}])

    assert ((), "shell") == (request.tools, request.provider_tools[0].type)


def test_two_tools_with_one_name_are_refused():
    with pytest.raises(RequestError, match="two tools named 'shell'"):
        read(tools=[{"type": "shell"}, {"type": "function", "name": "shell"}])
