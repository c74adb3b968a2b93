"""User-defined dialects are loaded from folders, and errors name file and line."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fcshim.errors import ConfigError
from fcshim.events import Stop, Text
from fcshim.messages import Request, TextPart, Tool, UserMessage, text_of
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import get_dialect
from fcshim.parse.stream import parse
from fcshim.pipeline.shim import prepare_shim
from fcshim.prompt.dialect_folder import find_dialect, load_dialect
from fcshim.prompt.escape import escaper_for
from fcshim.prompt.render import render_calls, render_system
from fcshim.reply import fold
from tests.parse.cases import Case, check

ROW = """
summary = "a format of our own"
[call]
open = "<my_call>"
close = "</my_call>"

[result]
open = "<my_result"
close = "</my_result>"
"""
BODIES = {
    "json": '[json]\nname_keys = ["fn"]\nargument_keys = ["with"]\n',
    "header": "[header]\nheader = '\\s?(?P<name>\\w{1,64})[ ]?(?=\\{)'\n",
    "python": "[python]\n",
    "tagged": """
[tagged]
call = {head = "<use", end = ">", attribute = "tool"}
call_close = "</use>"
parameter = {head = "<arg", end = ">", attribute = "name"}
parameter_close = "</arg>"
""",
}
CALLS = {
    "json": '{"fn": "f", "with": {"a": 1}}',
    "header": 'f {"a": 1}',
    "python": "f(a=1)",
    "tagged": '<use tool="f"><arg name="a">1</arg></use>',
}
WRITTEN = {
    "json": '{{ open }}{"fn": {{ name | json }}, "with": {{ arguments }}}{{ close }}',
    "header": "{{ open }}{{ name }} {{ arguments }}{{ close }}",
    "python": "{{ open }}{{ name }}({{ arguments | python_arguments }}){{ close }}",
    "tagged": '{% from "tagged/parts.jinja" import body_of %}\n'
    '{{ body_of(body.tags, open, close, [{"name": name, "arguments": arguments}]) }}',
}
TEMPLATES = {
    "system.jinja": "{% for tool in tools %}\n{{ tool | json }}\n{% endfor %}\nWrite {{ open }} and {{ close }}.\n",
    "call.jinja": WRITTEN["json"],
    "result.jinja": "{{ result_open }}>{{ content }}{{ result_close }}\n",
}


def make(folder: Path, row: str = ROW, body: str = BODIES["json"], **templates: str) -> Path:
    """Write a dialect's folder."""
    folder.mkdir(exist_ok=True)
    (folder / "dialect.toml").write_text(row + body, encoding="utf-8")
    for name, text in (TEMPLATES | {f"{name}.jinja": text for name, text in templates.items()}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", BODIES)
def test_calls_of_a_user_dialect_are_parsed(tmp_path: Path, kind: str) -> None:
    dialect = load_dialect(make(tmp_path / f"mine_{kind}", body=BODIES[kind], call=WRITTEN[kind]))
    text = f"So: <my_call>{CALLS[kind]}</my_call>"

    check(
        Case(
            kind,
            text,
            [{"text": "So: "}, {"call": "f", "value": {"a": 1}}, {"stop": "tool_use"}],
            tools=[{"name": "f"}],
            options={"dialect": dialect},
        )
    )


def test_a_user_dialect_renders_its_own_templates(tmp_path: Path) -> None:
    dialect = find_dialect(str(make(tmp_path / "mine")))

    assert (dialect.name, dialect.summary) == ("mine", "a format of our own")
    assert "Write <my_call> and </my_call>." in render_system(dialect, [Tool("f")])
    written = render_calls(dialect, [("f", '{"a": 1}')])
    assert '<my_call>{"fn": "f", "with": {"a": 1}}</my_call>' == written
    assert Stop("tool_use") == parse(written, dialect)[-1]


def system_text(dialect: Dialect, words: str) -> str:
    request = Request(model="m", messages=(UserMessage((TextPart(words),)),), tools=(Tool("f"),))
    return text_of(prepare_shim(request, dialect=dialect).prepared.messages[-1].content)


def test_the_markers_of_a_custom_dialect_are_escaped_only_in_its_own_requests(tmp_path: Path) -> None:
    own = load_dialect(make(tmp_path / "own", ROW.replace("my_call", "one_call")))
    other = load_dialect(make(tmp_path / "other", ROW.replace("my_call", "other_call").replace("<other", "[other")))
    words = "<one_call> [other_call> </other_call> <tool_call>"

    assert "<_one_call> [other_call> </other_call> <_tool_call>" == system_text(own, words)
    assert "<one_call> [_other_call> <_/other_call> <_tool_call>" == system_text(other, words)
    assert "<one_call> [other_call> </other_call> <_tool_call>" == system_text(get_dialect("hermes"), words)


def test_a_reply_is_unescaped_for_the_dialect_of_its_request(tmp_path: Path) -> None:
    own = load_dialect(make(tmp_path / "own", ROW.replace("my_call", "one_call")))
    request = Request(model="m", messages=(UserMessage((TextPart("say <one_call> <tool_call>"),)),), tools=(Tool("f"),))
    replies = []
    for dialect in (own, get_dialect("hermes")):
        stream = prepare_shim(request, dialect=dialect).stream()
        replies.append(fold([*stream.feed(Text("<_one_call>, <_tool_call>")), *stream.close()]).text)

    assert ["<one_call>, <tool_call>", "<_one_call>, <tool_call>"] == replies


def test_dialects_can_be_loaded_at_the_same_time(tmp_path: Path) -> None:
    folders = [make(tmp_path / f"mine{at}", ROW.replace("my_call", f"call_{at}")) for at in range(4)] * 4
    start = threading.Barrier(len(folders))

    def load(folder: Path) -> tuple[Dialect, str]:
        start.wait()
        dialect = load_dialect(folder)
        return dialect, escaper_for(dialect).escape("<call_0> <call_1> <call_2> <call_3>")

    with ThreadPoolExecutor(len(folders)) as pool:
        loaded = list(pool.map(load, folders))

    for at, (dialect, text) in enumerate(loaded):
        number = at % 4
        assert load_dialect(folders[at]) == dialect
        assert "<call_0> <call_1> <call_2> <call_3>".replace(f"<call_{number}", f"<_call_{number}") == text


def test_a_folder_is_loaded_once(tmp_path: Path) -> None:
    folder = make(tmp_path / "mine")

    assert load_dialect(folder) is find_dialect(str(folder))


def test_a_name_without_a_slash_is_looked_up_in_the_table() -> None:
    assert get_dialect("hermes") is find_dialect("hermes")
    with pytest.raises(ConfigError, match="unknown dialect 'hermse', did you mean 'hermes'"):
        find_dialect("hermse")


@pytest.mark.parametrize(
    ("row", "body", "templates", "message"),
    [
        ("open = <", "", {}, r"dialect\.toml: not TOML: .*line 1"),
        ("a = " + "[" * 100_000, "", {}, r"dialect\.toml: not TOML: maximum recursion"),
        (
            ROW,
            BODIES["json"],
            {"call": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
            "needs too much depth or memory",
        ),
        (
            ROW,
            BODIES["json"],
            {"system": "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}"},
            "needs too much depth or memory",
        ),
        (ROW, BODIES["json"], {"system": "{% extends 'system.jinja' %}"}, "needs too much depth or memory"),
        ("", BODIES["json"], {}, r"dialect\.toml: \[call\]: expected `open`"),
        (ROW, "", {}, r"dialect\.toml: expected one of the sections \[json\], \[header\], \[tagged\], \[python\]"),
        (ROW, BODIES["json"] + BODIES["python"], {}, "expected one of the sections"),
        (ROW, "[json]\nname_key = 'fn'\n", {}, r"\[json\]: unknown key 'name_key'; expected one of name_keys"),
        (ROW, "[json]\nname_keys = 'fn'\n", {}, r"\[json\]: Expected `array`, got `str`"),
        (ROW, "[header]\n", {}, r"\[header\]: expected 'header'"),
        (ROW, "[header]\nheader = '('\n", {}, r"\[header\]: not a regular expression: missing \)"),
        (ROW + "opens = 1\n", BODIES["json"], {}, r"dialect\.toml: \[result\]: Expected `array`, got `int`"),
        (ROW + "words = []\n", BODIES["json"], {}, r"\[result\]: unknown key 'words'; expected one of open, close"),
        ("call = 1\n", BODIES["json"], {}, r"dialect\.toml: \[call\]: expected a section"),
        (ROW, BODIES["json"], {"system": "a\n{% for %}\n"}, r"system\.jinja:2: "),
        (ROW, BODIES["json"], {"call": "a\nb\n{{ nonsense }}\n"}, r"call\.jinja:3: 'nonsense' is undefined"),
        (ROW, BODIES["json"], {"result": "{{ 1 // 0 }}"}, r"result\.jinja:1: "),
    ],
)
def test_an_invalid_folder_is_reported_with_file_and_line(
    tmp_path: Path, row: str, body: str, templates: dict[str, str], message: str
) -> None:
    folder = make(tmp_path / "mine", row, body, **templates)

    with pytest.raises(ConfigError, match=message):
        load_dialect(folder)


def test_an_invalid_grammar_is_reported_with_file_and_line(tmp_path: Path) -> None:
    folder = make(tmp_path / "mine", body='[json]\ngrammar = "body.lark"\n')
    (folder / "body.lark").write_text('start: "a"\nb: (\n', encoding="utf-8")

    with pytest.raises(ConfigError, match=r"(?s)body\.lark: the grammar cannot be used: .*line 2"):
        load_dialect(folder)


@pytest.mark.parametrize("name", [*TEMPLATES, "dialect.toml"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / "mine")
    (folder / name).unlink()

    with pytest.raises(ConfigError, match=name):
        load_dialect(folder)
