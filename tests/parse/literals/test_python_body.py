"""The reader of Python calls, compared with Python's own parser and with the grammar."""

import ast
import json
import random
import warnings
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.parse.dialects import get_dialect
from fcshim.parse.grammar import load_grammar
from fcshim.parse.stream import StreamParser
from tests.parse.cases import Case, check
from tests.parse.laws import Piece, check_reply, executable
from tests.parse.literals.strategies import WrittenValue, calls_of, python_values, spaces

OPEN, CLOSE = "<|python_start|>", "<|python_end|>"
names = st.sampled_from(["a", "city", "größe", "x1"])


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[WrittenValue]]:
    """A list of calls, with their values."""
    made = []
    for name in draw(st.lists(st.sampled_from(["f", "get_weather"]), min_size=1, max_size=3)):
        keys = draw(st.lists(names, max_size=3, unique=True))
        arguments = [(key, draw(python_values)) for key in keys]
        text = ("," + draw(spaces)).join(f"{key}{draw(spaces)}={draw(spaces)}{value}" for key, (value, _) in arguments)
        made.append((f"{name}({draw(spaces)}{text})", (name, {key: value for key, (_, value) in arguments})))
    return "[" + ", ".join(text for text, _ in made) + "]", [call for _, call in made]


def _read(body: str, dialect: str = "llama4") -> list[WrittenValue]:
    text = f"{OPEN}{body}{CLOSE}" if dialect == "llama4" else body
    parser = StreamParser(dialect)
    pieces = executable(check_reply(text, "complete", parser.feed(text) + parser.close()))
    return [(piece["call"], json.loads(piece["arguments"])) for piece in pieces]


@given(calls())
def test_calls_have_the_written_values(written: tuple[str, list[WrittenValue]]) -> None:
    text, expected = written

    assert expected == _read(text)
    assert expected == _read(text, "pythonic")


@given(calls())
def test_any_split_gives_the_same_calls(written: tuple[str, list[WrittenValue]]) -> None:
    text, expected = written
    pieces: list[Piece] = [{"call": name, "value": value} for name, value in expected]

    check(Case("written", OPEN + text + CLOSE, [*pieces, {"stop": "tool_use"}], options={"dialect": "llama4"}))


@given(calls())
def test_the_grammar_and_the_reader_agree(written: tuple[str, list[WrittenValue]]) -> None:
    text, expected = written

    assert expected == calls_of(load_grammar("python_call").parse(text))


TOLERATED_BODIES = [
    '[f(a=\'it\'s\', b="the dogs\' bowl"), g(b="say "hi" now")]',
    "f(a: 1, b=[1, 2,],)\ng()",
    "[[f(a={k: 1, 2: 'x', None: 3}, b=(1, 2), c=(), d={})]])",
    "[f(a=[1, {'b': (2, 3",
    "f(a='one\ntwo'); g(), h()",
    "[f(**{'a b': 1}, c=1_0)]  # so",
]


@pytest.mark.parametrize("body", TOLERATED_BODIES)
def test_the_grammar_and_the_reader_agree_on_tolerated_bodies(body: str) -> None:
    brackets = sum(map(body.count, "([{")) - sum(map(body.count, ")]}"))

    assert calls_of(load_grammar("python_call").parse(body + "\x00" * max(0, brackets))) == _read(body)


# fmt: off
FRAGMENTS = [
    "'a'", '"b"', "x", "+", ",", ",", "(", ")", "[", "]", "{", "}", ":", "=", "1", "if", "else", "for", "in", "not",
    ".", "f'{x}'", "*", "**", "lambda", "'", '"', "it's", "r'\\'", "'''", "\\", "b=", "1.", "-", "True", "None", "and",
    "%", "==", "<", "'k':", "k", ".upper()", "@", "!", "u'", "...", "1_0", "0x1", "\\n", "\\'", "f(", "/", "&", ";",
    " ", " ", "\n", "#c\n", "'a' 'b'",
]
# fmt: on


def _meaning(body: str) -> dict[str, Any] | None:
    """Return a call's arguments by Python's own parser; None where they are not literals. Raises `SyntaxError`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = ast.parse(f"({body}\n)", mode="eval").body
    if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
        return None
    try:
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, TypeError):
        return None


def _plain(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {key if isinstance(key, str) else json.dumps(key): _plain(item) for key, item in value.items()}
        case _:
            return value


@pytest.mark.parametrize("seed", range(20))
def test_an_accepted_call_has_the_value_that_python_gives_it(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(500):
        body = f"f(a={''.join(source.choices(FRAGMENTS, k=source.randint(1, 7)))})"
        try:
            expected = _meaning(body)
        except SyntaxError:
            continue
        found = _read(body)
        if expected is None or any(isinstance(value, complex) or value is ... for value in expected.values()):
            assert not found or body != body.rstrip(") \n") + ")", body
        elif found:
            assert [("f", _plain(expected))] == found, body


PAYLOADS = [
    "__import__('os').system('id')",
    "open('/etc/passwd').read()",
    "eval('1')",
    "[].__class__",
    "().__class__.__bases__[0]",
    "f'{print(1)}'",
    "(lambda: 0)()",
    "[x for x in (1, 2)]",
    "{**{'a': 1}}",
    "x if y else z",
    "1 if True else 2",
    "10 ** 10 ** 10",
    "'a' * 10 ** 9",
    "exec",
    "globals()['x']",
    '"{}".format(secret)',
    "'%s' % x",
    "not 1",
    "await x",
    "(yield)",
    "a := 1",
]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("form", ["f(a={})", "f(a=[1, {}])", "f(a={{'k': {}}})", "f(**{{'k': {}}})", "f(a=(1, {}))"])
def test_an_expression_that_needs_evaluation_ends_the_call(payload: str, form: str) -> None:
    text = f"{OPEN}[{form.format(payload)}]{CLOSE}."
    calls: list[Piece] = [{"call": "f", "error": "malformed"}]

    check(Case("payload", text, [*calls, {"text": "."}, {"stop": "complete"}], options={"dialect": "llama4"}))


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), st.sampled_from(["complete", "max_tokens"]))
@example("'it' if 'x", "complete")
def test_any_split_of_arbitrary_text_gives_the_same_events(argument: str, stop: Any) -> None:
    for dialect, text in (("llama4", f"{OPEN}[f(a={argument}{CLOSE}x"), ("pythonic", f"[f(a={argument}")):
        whole = _events(dialect, [text], stop)

        assert whole == _events(dialect, list(text), stop)


def _events(dialect: str, pieces: list[str], stop: Any) -> list[Piece]:
    parser = StreamParser(dialect)
    events = [event for piece in pieces for event in parser.feed(piece)]
    return check_reply("".join(pieces), stop, events + parser.close(stop))


def test_a_string_streams_while_it_is_written() -> None:
    parser = StreamParser("pythonic")
    parser.feed("[write(path='a.py', content='#")
    chunks = [[event.tool_call_arguments_chunk for event in parser.feed(piece)] for piece in ("impo", "rt\\n", "os")]  # type: ignore[union-attr] # all are chunks

    assert [["impo"], ["rt\\n"], ["os"]] == chunks


@pytest.mark.parametrize("text", ["[f(", "[f.g (", "[ \n größe("])
def test_a_list_of_calls_starts_with_a_name_and_a_parenthesis(text: str) -> None:
    body = get_dialect("pythonic").body

    assert body.begins(text, 0)
    assert body.begins(text[:-1], 0) is None


@pytest.mark.parametrize(
    "text", ["[1, 2]", '["f(1)"]', "[see](x)", "[x] f(", "[]", "[note here (x)]", "[" + "x" * 200 + "("]
)
def test_other_lists_are_not_calls(text: str) -> None:
    body = get_dialect("pythonic").body

    assert body.begins(text, 0) is False
