"""The start of a body with a header; `vectors/header_*.json` tests whole bodies."""

import pytest

from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import StreamParser
from tests.parse.cases import Case, check

OPEN = "[TOOL_CALLS]"


@pytest.mark.parametrize(
    ("dialect", "behind", "expected"),
    [
        ("mistral", "f[ARGS]{", True),
        ("mistral", "f{", True),
        ("mistral", " [{", True),
        ("mistral", "f[ARGS]", None),
        ("mistral", "", None),
        ("mistral", "a line\nand\nmore\n", False),
        ("mistral", "x" * 300, False),
        ("deepseek_v31", "f<｜tool▁sep｜>{", True),
        ("deepseek_v31", "function<｜tool▁sep｜>f\n```json\n{", True),
        ("deepseek_v31", "f<｜tool▁sep｜>", None),
        ("deepseek_v31", "{", False),
        ("kimi_k2", "functions.f:0<|tool_call_argument_begin|>", True),
        ("kimi_k2", "functions.f:0", None),
        ("functionary_v31", "f>\n{", True),
        ("functionary_v31", "f>", None),
        ("react", " f\nAction Input: {", True),
        ("react", " ```json", False),
        ("react", " f\nThen\nwe\nwait", False),
    ],
)
def test_a_header_begins_a_body(dialect: str, behind: str, expected: bool | None) -> None:
    assert expected is DIALECTS[dialect].body.begins(OPEN + behind, len(OPEN))


@pytest.mark.parametrize("name", ['say "hi"', "größe", "a b", "f" * 128, "functions", "a.b/c"])
@pytest.mark.parametrize("dialect", ["mistral", "deepseek_v31", "kimi_k2"])
def test_a_name_may_be_anything_on_one_line(dialect: str, name: str) -> None:
    texts = {
        "mistral": f"[TOOL_CALLS]{name}[ARGS]{{}}",
        "deepseek_v31": f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{{}}<｜tool▁call▁end｜>",
        "kimi_k2": f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{{}}<|tool_call_end|>",
    }
    events = [{"call": name, "arguments": "{}"}, {"stop": "tool_use"}]

    check(Case(name, texts[dialect], events, options={"dialect": dialect}))


def test_text_after_a_start_marker_without_a_header_is_parsed_again() -> None:
    text = f'{OPEN} is a marker.\nSo:\n\n{OPEN}f[ARGS]{{"a": 1}}'
    events = [{"text": f"{OPEN} is a marker.\nSo:\n\n"}, {"call": "f", "arguments": '{"a": 1}'}, {"stop": "tool_use"}]

    check(Case("again", text, events, options={"dialect": "mistral"}))


def test_a_header_that_never_ends_delays_little_text() -> None:
    parser = StreamParser("mistral")
    said = [event for _ in range(100) for event in parser.feed("word ")]
    before = len(said)
    parser.feed(OPEN)
    said += [event for _ in range(60) for event in parser.feed("word ")]

    assert len(said) > before
