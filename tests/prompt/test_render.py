"""Rendering with the templates."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fcshim.messages import Tool, ToolChoice
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS, FUNCTION_CALL
from fcshim.prompt.render import _as_json, _render, render_call, render_result, render_system

TOOLS = (
    Tool("get_weather", "Ask for 天気.", {"type": "object", "properties": {"city": {"type": "string"}}}),
    Tool("ping"),
)


def test_each_tool_is_one_line_of_json_in_the_clients_order() -> None:
    prompt = render_system(FUNCTION_CALL, TOOLS)
    lines = [
        json.loads(line)
        for line in prompt.splitlines()
        if line.startswith(('{"name": "get_weather"', '{"name": "ping"'))
    ]

    assert [
        {"name": "get_weather", "description": "Ask for 天気.", "parameters": TOOLS[0].parameters},
        {"name": "ping", "parameters": {"type": "object", "properties": {}}},
    ] == lines


def test_characters_of_every_script_are_not_escaped() -> None:
    assert '"description": "Ask for 天気."' in render_system(FUNCTION_CALL, TOOLS)


def test_the_example_call_uses_placeholders() -> None:
    assert '<function_call>\n{"name": "<function name>", "arguments": {"<parameter>": <value>}}\n</function_call>' in (
        render_system(FUNCTION_CALL, TOOLS)
    )


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        (ToolChoice("required"), "- Now you must call at least one function."),
        (ToolChoice("required", ("ping",)), '- Now you must call the function "ping".'),
        (ToolChoice("required", ("ping", "pong")), "- Now you must call at least one function of these: ping, pong."),
        (ToolChoice("auto", ("ping",)), "- Now you may call only these functions: ping."),
    ],
)
def test_a_choice_of_tools_is_the_last_rule(choice: ToolChoice, rule: str) -> None:
    free = render_system(FUNCTION_CALL, TOOLS)

    assert f"{free}\n{rule}" == render_system(FUNCTION_CALL, TOOLS, choice)


def test_one_call_per_reply_is_a_rule_without_parallel_calls() -> None:
    rule = " But write at most one block per reply."

    assert render_system(FUNCTION_CALL, TOOLS) == render_system(FUNCTION_CALL, TOOLS, parallel=False).replace(rule, "")
    assert rule in render_system(FUNCTION_CALL, TOOLS, parallel=False)


def test_a_past_call_has_the_requested_format() -> None:
    assert '<function_call>\n{"name": "f", "arguments": {"a":  1}}\n</function_call>' == render_call(
        FUNCTION_CALL, "f", '{"a":  1}'
    )


def test_a_result_names_its_tool() -> None:
    assert '<function_result name="f">\n4\n</function_result>' == render_result(FUNCTION_CALL, "f", "4")


def test_a_failed_result_is_marked_as_an_error() -> None:
    assert '<function_result name="f" error="true">\nno\n</function_result>' == render_result(
        FUNCTION_CALL, "f", "no", is_error=True
    )


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("name", ["f", 'a "b" {{ c }}', "a\0b", "\0", "x" * 200])
def test_what_is_written_around_a_text_is_remembered(dialect: Dialect, name: str) -> None:
    for text in ('{"a": "\\u0000 {{ name }}", "b": [1]}', "{}"):
        call, result = _render(dialect, "call", name=name, arguments=text), {"name": name, "content": text}

        assert [call] * 2 == [render_call(dialect, name, text) for _ in range(2)]
        for is_error in (False, True):
            expected = _render(dialect, "result", **result, is_error=is_error)
            assert [expected] * 2 == [render_result(dialect, name, text, is_error=is_error) for _ in range(2)]


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ("({{ arguments }})", ["({})", '({"a": 1})']),
        ("{{ arguments | length }}", ["2", "8"]),
        ("{{ arguments }}{{ arguments }}", ["{}{}", '{"a": 1}{"a": 1}']),
        ("{% if name %}{{ arguments }}{% endif %}", ["{}", '{"a": 1}']),
        ("{{ arguments }}{% if arguments == '{}' %}!{% endif %}", ["{}!", '{"a": 1}']),
        ("{% set arguments = 'x' %}{{ arguments }}", ["x", "x"]),
        ("{{ arguments }}{% include 'size.jinja' %}", ["{}2", '{"a": 1}8']),
    ],
)
def test_a_template_that_does_more_than_print_a_text_is_rendered(tmp_path: Path, call: str, written: list[str]) -> None:
    (tmp_path / "call.jinja").write_text(call)
    (tmp_path / "size.jinja").write_text("{{ arguments | length }}")
    dialect = replace(FUNCTION_CALL, templates=str(tmp_path))

    assert written == [render_call(dialect, "f", text) for text in ("{}", '{"a": 1}')]


@pytest.mark.parametrize(
    "value",
    [
        '\x00\x1f\x7f\u2028é\U0001f600"\\/\b\f\n\r\t',
        {"a": [{}, [], {"b": None, "c": [True, -1, 0.5]}], "": ""},
        2**70,
        "a lone \ud800",
        {None: 1},
    ],
)
def test_the_json_filter_writes_what_the_standard_library_does(value: object) -> None:
    assert json.dumps(value, ensure_ascii=False) == _as_json(value)
