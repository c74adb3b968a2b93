"""Arguments of past calls, valid or not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.parse.dialects import DIALECTS
from fcshim.prompt.history import MALFORMED, PastArguments
from fcshim.prompt.render import render_calls


def kept(text: str) -> str:
    return json.dumps({MALFORMED: text}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("given_text", "written"),
    [
        ('{"a":  1}', '{"a":  1}'),
        ('{"a": "\\u00e9"}', '{"a": "\\u00e9"}'),
        ("", "{}"),
        (" \n", "{}"),
        ("null", "{}"),
        (json.dumps('{"a": 1}'), '{"a": 1}'),
        ("{'a': True,}", '{"a": true}'),
        ('{"a": {"b": 1', '{"a": {"b": 1}}'),
        ('{"a": "x\ny"}', '{"a": "x\\ny"}'),
        ('{"a": "\\ud800"}', '{"a": "\ufffd"}'),
        ('{"a": "\ud800"}', '{"a": "\ufffd"}'),
        ('{"city": "Par', kept('{"city": "Par')),
        ('{"a": NaN}', kept('{"a": NaN}')),
        ("[1]", kept("[1]")),
        ('"Paris"', kept('"Paris"')),
        ("{} and more", kept("{} and more")),
        ('{"a":' * 65 + "1" + "}" * 65, kept('{"a":' * 65 + "1" + "}" * 65)),
    ],
)
def test_any_arguments_become_an_object(given_text: str, written: str) -> None:
    assert written == PastArguments().write(given_text)


@pytest.mark.parametrize("text", ["[" * 5000, "9" * 5000, "{" * 5000], ids=["deep", "long", "open"])
def test_unreadable_arguments_are_shortened(text: str) -> None:
    written = json.loads(PastArguments().write(text))

    assert "[... 3,000 characters left out ...]" in written[MALFORMED]


def test_repair_is_limited_per_conversation() -> None:
    arguments = PastArguments()
    broken = "{'a': '" + "x" * 30_000 + "'}"

    assert ["a", "a", MALFORMED] == [next(iter(json.loads(arguments.write(broken)))) for _ in range(3)]
    assert '{"a": 1}' == arguments.write("{'a': 1}")


@given(st.text(alphabet="{}[]\"\\:, 'a1\n\ud800", max_size=30) | st.recursive(st.none(), st.lists).map(json.dumps))
def test_the_result_is_always_a_strict_object(text: str) -> None:
    value = json.loads(PastArguments().write(text).encode())

    assert isinstance(value, dict)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("text", ['{"city": "Par', "[1]", '{"a": "\\ud800"}', '{"a":' * 300 + "1" + "}" * 300])
def test_every_dialect_can_write_the_result(dialect: object, text: str) -> None:
    assert render_calls(dialect, [("f", PastArguments().write(text))]).encode()
