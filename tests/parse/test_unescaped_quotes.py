"""Law 10 for arguments with quotes that were not escaped, and for other careless spellings: never a wrong call."""

import ast
import functools
import json
import random
import warnings
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.events import ToolCallEnd
from fcshim.parse.stream import StreamParser, parse
from fcshim.testing.splits import random_split
from tests.steps import steps

KEYS = ("path", "content", "mode", "days")
TOOL = {
    "name": "f",
    "parameters": {
        "type": "object",
        "properties": {key: {"type": "integer" if key == "days" else "string"} for key in KEYS},
        "required": ["path"],
    },
}
CODE = st.lists(
    st.sampled_from(
        ['print("hi")', '"', "'", " ", "\n", ", ", "x", "{", "}", "[", "]", "(", ")", ": ", '"mode": ', "# ", "// ",
         '"""', '", "', '"}', "+", "days=3", 'd["k"]', "it's", "\\", "=", '"content"', "\x00", "%", ".join", "é"]
    ),
    max_size=8,
).map("".join)  # fmt: skip
ARGUMENTS = st.fixed_dictionaries({"path": CODE}, optional={"content": CODE, "mode": CODE, "days": st.integers(0, 99)})
CARELESS = ("quotes", "single", "comment", "comma", "closers", "controls")


def in_json(arguments: dict[str, Any], careless: set[str]) -> str:
    """Write a call in JSON, carelessly."""
    members = ", ".join(f'"{key}": {_spell(value, careless)}' for key, value in arguments.items())
    comment = " // a note\n" if "comment" in careless else ""
    comma = "," if "comma" in careless else ""
    return f'{{"name": "f", "arguments": {{{members}{comma}{comment}}}' + ("" if "closers" in careless else "}")


def _spell(value: Any, careless: set[str]) -> str:
    written = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        return written
    content = written[1:-1]
    if "quotes" in careless:
        content = content.replace('\\"', '"')
    if "controls" in careless:
        content = content.replace("\\\\", "\\\\").replace("\\n", "\n") if "\\\\" not in content else content
    quote = "'" if "single" in careless else '"'
    if quote == "'" and "quotes" not in careless:
        content = content.replace("'", "\\'")
    return quote + content + quote


def in_python(arguments: dict[str, Any], careless: set[str]) -> str:
    """Write a call in Python, carelessly."""
    return "[f(" + ", ".join(f"{key}={_spell(value, careless)}" for key, value in arguments.items()) + ")]"


def _accepted(dialect: str, text: str, source: random.Random) -> list[Any]:
    parser = StreamParser(dialect, tools=[TOOL])
    events = [event for piece in random_split(text, source) for event in parser.feed(piece)] + parser.close()
    ends = [event for event in events if isinstance(event, ToolCallEnd)]
    return [json.loads(end.tool_call_arguments_complete) for end in ends if end.error is None]


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except ValueError:
        return False
    return True


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


@given(ARGUMENTS, st.sets(st.sampled_from(CARELESS)), st.integers(0, 10**6))
@example({"path": 'a "_" # b'}, {"quotes"}, 0)
@example({"path": 's = ",".join(x)'}, {"quotes"}, 0)
def test_an_accepted_call_in_json_says_what_was_meant(arguments: dict[str, Any], careless: set[str], seed: int) -> None:
    written = in_json(arguments, careless)
    found = _accepted("hermes", f"<tool_call>\n{written}\n</tool_call>", random.Random(seed))

    assert _is_json(written) or found in ([], [arguments]), written


@given(ARGUMENTS, st.sets(st.sampled_from(("quotes", "single", "controls"))), st.integers(0, 10**6))
@example({"path": 'x = d["k"] + 1', "days": 2}, {"quotes"}, 0)
def test_an_accepted_call_in_python_says_what_was_meant(
    arguments: dict[str, Any], careless: set[str], seed: int
) -> None:
    written = in_python(arguments, careless)
    found = _accepted("lfm2", f"<|tool_call_start|>{written}<|tool_call_end|>", random.Random(seed))

    assert _is_python(written) or found in ([], [arguments]), written


@pytest.mark.parametrize("careless", [set(), {"quotes"}], ids=["escaped", "quotes"])
def test_code_with_quotes_is_read_whole(careless: set[str]) -> None:
    arguments = {"path": "a.py", "content": 'def f():\n    print("a", d["b"])\n    return {"c": "d"}', "days": 3}
    body = in_json(arguments, careless)

    assert [arguments] == _accepted("hermes", f"<tool_call>\n{body}\n</tool_call>", random.Random(1))
    assert [arguments] == _accepted("pythonic", in_python(arguments, careless), random.Random(1))


WITH_ONE_READING = (
    "say(\"hi\") or ', '.join(names)",
    'a header of one line\nplus ": " if a name was given',
    'item = make(f"{key!r}:", value, set)\nadd(item)',
    'if char in ")]}":\n    stack.pop()',
    'if char == ";":\n    end()\nelif char == "]":\n    close()',
    'pack(side="top", fill="both")\n"""The rest',
)


@pytest.mark.parametrize("content", WITH_ONE_READING)
def test_code_with_one_reading_is_read(content: str) -> None:
    arguments = {"path": "a.py", "content": content}
    body = in_json(arguments, {"quotes"})

    assert [arguments] == _accepted("hermes", f"<tool_call>\n{body}\n</tool_call>", random.Random(1))
    assert [arguments] == _accepted("pythonic", in_python(arguments, {"quotes"}), random.Random(1))


def test_contents_with_many_quotes_are_read() -> None:
    members = {f"key{number}": {"name": f"n{number}", "tags": ["ab", "c"]} for number in range(250)}
    arguments = {"path": "a.json", "content": json.dumps(members)}
    body = in_json(arguments, {"quotes"})

    assert [arguments] == _accepted("hermes", f"<tool_call>{body}</tool_call>", random.Random(1))
    assert [arguments] == _accepted("pythonic", in_python(arguments, {"quotes"}), random.Random(1))


@pytest.mark.parametrize("quotes", ['"', "'", "\"'", '"" '])
@pytest.mark.parametrize(
    ("dialect", "start", "end"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"path": ', "}}</tool_call>"),
        ("pythonic", "[f(path=", ")]"),
        ("gemma4", "<|tool_call>call:f{path:", "}<tool_call|>"),
    ],
)
def test_text_of_quotes_alone_takes_a_limited_number_of_steps(dialect: str, start: str, end: str, quotes: str) -> None:
    text = f"{start}{quotes * (10_000 // len(quotes))}{end}"

    assert steps(functools.partial(parse, text, dialect=dialect, tools=[TOOL]), "line") < 60 * len(text)


@pytest.mark.parametrize(
    "content", ['show("two", "words")', "don't: re.sub(r'=a', f'b')", 'show("two", fill=1) # it\'s']
)
def test_code_in_single_quotes_is_read(content: str) -> None:
    arguments = {"path": "a.py", "content": content, "mode": "it's"}

    assert [arguments] == _accepted("pythonic", in_python(arguments, {"quotes", "single"}), random.Random(1))


def test_an_invented_argument_after_an_escaped_quote_is_refused() -> None:
    body = r"""[f(path="a", content="x(bg=\"white", width=0)\n pack(fill="both\", side='left')")]"""

    assert [] == _accepted("pythonic", body, random.Random(1))


@pytest.mark.parametrize("separator", [", ", "; ", " | "])
def test_two_values_are_not_one_string(separator: str) -> None:
    body = f'{{"name": "f", "arguments": {{"path": "50 %"{separator}" padded ", "content": "x"}}}}'

    assert [] == _accepted("hermes", f"<tool_call>{body}</tool_call>", random.Random(1))


@pytest.mark.parametrize("content", ['say "hello', '用"你好', '"yes" and "no', 'x="value', "{'k': \"v"])
def test_a_quotation_without_its_end_is_refused(content: str) -> None:
    assert [] == _accepted("hermes", _call_of_content(content), random.Random(1))
    assert [] == _accepted("pythonic", f'[f(path="a.py", content="{content}")]', random.Random(1))


@pytest.mark.parametrize("content", ['a 5" disk', '用5"的', 'up to 12" wide'])
def test_a_quote_after_a_word_is_content_or_the_call_is_refused(content: str) -> None:
    arguments = {"path": "a.py", "content": content}

    assert _accepted("hermes", _call_of_content(content), random.Random(1)) in ([], [arguments])
    assert _accepted("pythonic", f'[f(path="a.py", content="{content}")]', random.Random(1)) in ([], [arguments])


@pytest.mark.parametrize("start", ["", "x", "x, y"])
def test_a_member_without_two_quotes_is_not_content(start: str) -> None:
    body = f'{{"name": "f", "arguments": {{"path": "{start}, "content": Paris"}}}}'

    assert [] == _accepted("hermes", f"<tool_call>{body}</tool_call>", random.Random(1))


def _call_of_content(content: str) -> str:
    body = f'{{"name": "f", "arguments": {{"path": "a.py", "content": "{content}"}}}}'
    return f"<tool_call>{body}</tool_call>"
