"""`fcshim render`."""

import json

import pytest

from fcshim.messages import as_tools
from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt.render import render_system
from tests.cli.command import fcshim

TOOLS = [
    {"type": "function", "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "now"}},
]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Grüezi, 1 + 2?"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "3"},
]


@pytest.fixture
def files(tmp_path):
    """Return the options that name a file of tools and one of messages."""
    tools, messages = tmp_path / "tools.json", tmp_path / "chat.json"
    tools.write_text(json.dumps(TOOLS), "utf-8")
    messages.write_text(json.dumps(MESSAGES), "utf-8")
    return ("--tools", tools), ("--messages", messages)


def test_without_messages_only_the_tools_prompt_is_shown(files):
    tools, _ = files
    outcome = fcshim("render", *tools)

    assert (0, "") == (outcome.code, outcome.err)
    assert render_system(FUNCTION_CALL, as_tools(TOOLS)) + "\n" == outcome.out


def test_a_conversation_is_shown_turn_by_turn(files):
    tools, messages = files
    out = fcshim("render", *tools, *messages).out
    heads = [line for line in out.splitlines() if line.startswith("=== ")]

    assert ["=== system ===", "=== user ===", "=== assistant ===", "=== user ==="] == heads
    assert "=== system ===\nBe brief.\n\n# Tools\n" in out
    assert "=== user ===\nGrüezi, 1 + 2?\n" in out
    assert '{"name": "add", "arguments": {"a":1}}' in out


def test_the_profile_decides_whether_there_is_a_system_message(files):
    tools, messages = files
    out = fcshim("render", *tools, *messages, "--profile", "no-system").out

    assert out.startswith("=== user ===\nBe brief.\n\n# Tools\n")


def test_json_is_the_request_that_is_sent(files):
    tools, messages = files
    body = json.loads(fcshim("render", *tools, *messages, "--json").out)

    assert ["system", "user", "assistant", "user"] == [message["role"] for message in body["messages"]]
    assert body["stream"] is True
    assert "tools" not in body


def test_the_files_may_contain_a_whole_request(files, tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"model": "m", "messages": MESSAGES, "tools": TOOLS}), "utf-8")
    tools, messages = files

    assert fcshim("render", *tools, *messages).out == fcshim("render", "--tools", path, "--messages", path).out


@pytest.mark.parametrize(
    ("choice", "expected"), [("required", "you must call at least one"), ("now", 'you must call the function "now"')]
)
def test_the_tool_choice_is_part_of_the_prompt(files, choice, expected):
    tools, _ = files

    assert expected in fcshim("render", *tools, "--tool-choice", choice).out


def test_with_choice_none_no_tool_is_shown(files):
    tools, _ = files

    assert "\n" == fcshim("render", *tools, "--tool-choice", "none").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dialect", "nonsense"), "unknown dialect 'nonsense'"),
        (("--profile", "nonsense"), "unknown profile 'nonsense'"),
        (("--tool-choice", "subtract"), "subtract"),
        (("--messages", "missing.json"), "missing.json: No such file"),
    ],
)
def test_a_mistake_is_named(files, arguments, message):
    tools, _ = files
    outcome = fcshim("render", *tools, *arguments)

    assert (2, "") == (outcome.code, outcome.out)
    assert message in outcome.err
    assert 1 == outcome.err.count("\n")


@pytest.mark.parametrize("messages", ['"Hi"', "[5]", '[{"role": "king"}]'])
def test_invalid_messages_are_rejected(files, messages):
    tools, _ = files
    outcome = fcshim("render", *tools, "--messages", "-", stdin=messages.encode())

    assert 2 == outcome.code
    assert "messages" in outcome.err


def test_tools_can_be_described_by_signature(files):
    tools, _ = files
    out = fcshim("render", *tools, "--tools-style", "signature").out

    assert render_system(FUNCTION_CALL, as_tools(TOOLS), style="signature") + "\n" == out
    assert "function add(): any\nDescription: Add.\n\nfunction now(): any\n" in out


def test_what_the_budget_leaves_out_is_reported_on_stderr(files):
    tools, messages = files
    outcome = fcshim("render", *tools, *messages, "--max-tools", "1", "--prompt-budget", "100", "--max-result", "3")

    assert (0, True) == (outcome.code, outcome.err.startswith("fcshim: "))
    assert "Only their names and parameters are given here" in outcome.out


def test_a_signature_has_the_type_that_the_file_says(tmp_path):
    """Requirement 10."""
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([{"name": "now", "returns": {"type": "number"}}]))

    assert "function now(): number\n" in fcshim("render", "--tools", file, "--tools-style", "signature").out
