"""Never wrong: a call that ends without error has the arguments that were meant, however its tags are damaged.

A value may look like markup of its own dialect. What nobody can tell is left out: a value with the complete opening tag
of a parameter that may follow, and one with further markup directly after a closing tag, are valid as they stand.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcshim.events import StopReason
from fcshim.parse.dialect import Dialect
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.stream import parse
from fcshim.parse.tagged.syntax import ElementCalls, TaggedCalls, element_tags
from fcshim.parse.tagged.tags import Tags
from tests.examples import examples
from tests.parse.laws import executable, normalise

Pieces = list[tuple[str, str]]
"""Texts with their roles."""

NAMES = ["qwen3_xml", "seed_oss", "glm", "hy_v3", "minimax_m2", "dsml", "step3", "muse", "minimax_m3", "cline"]
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "integer": st.integers(-99, 99),
    "array": st.lists(st.sampled_from(["a", "b<c", "]"]), max_size=3),
    "object": st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from([1, "}", None]), max_size=2),
}
KEYS = ["city", "path", "content", "days"]
REMARKS = ["and", "The city is Rome.", "city: Rome", "<town>Rome</town>", "</b>", "{}", "<parameter>", "-"]


def _tags(dialect: Dialect) -> Tags:
    if isinstance(dialect.body, ElementCalls):
        return element_tags("f")
    assert isinstance(dialect.body, TaggedCalls)
    return dialect.body.tags


def _parameter_tags(tags: Tags, key: str, value: Any) -> tuple[str, str]:
    """The tags around a parameter: named after it in elements."""
    if tags.call.name:
        return f"<{key}>", f"</{key}>"
    return tags.parameter_opening(key, value), f"{tags.parameter_close}{key}>" if tags.nested else tags.parameter_close


def _strings(tags: Tags) -> st.SearchStrategy[str]:
    """Texts that look like markup here and there; none is the opening of a parameter that the tool has."""
    other = tags.parameter_opening("other", "")
    words = ["Rome", " ", "\n", "a < b", "<b>x</b>", "</", "&lt;", '"', "{", "5", "größe"]
    markup = [tags.parameter_close, tags.call_close, other, f"{other}1{tags.parameter_close}", "<city>", "</city>"]
    quoted = [f"{each}x" for each in markup]
    return st.lists(st.sampled_from([*words, *words, *quoted]), max_size=5).map("".join)


@st.composite
def _calls(draw: st.DrawFn, tags: Tags) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tool's properties, and arguments for some of them."""
    kinds = {key: draw(st.sampled_from(["string", "string", *KINDS])) for key in KEYS}
    given_keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=4))
    arguments = {key: draw(_strings(tags) if kinds[key] == "string" else KINDS[kinds[key]]) for key in given_keys}
    return {key: {"type": kind} for key, kind in kinds.items()}, arguments


def _pieces(dialect: Dialect, arguments: dict[str, Any]) -> Pieces:
    tags = _tags(dialect)
    line_break = "\n" if tags.lines else ""
    pieces = [("open", f"{dialect.call.open}\n" if dialect.call.open and tags.call.head else dialect.call.open)]
    pieces.append(("call", "<f>\n" if tags.call.name else tags.call_opening("f", 1) + "\n"))
    for key, value in arguments.items():
        opening, closing = _parameter_tags(tags, key, value)
        pieces.append(("parameter", opening + line_break))
        pieces.append(("value", value if isinstance(value, str) else json.dumps(value)))
        pieces.append(("parameter_close", line_break + closing))
        pieces.append(("gap", "\n"))
    pieces.append(("call_close", tags.call_close))
    if dialect.call.close not in {"", tags.call_close}:
        pieces.append(("close", f"\n{dialect.call.close}"))
    return pieces


def _as_children(pieces: Pieces, keys: list[str]) -> Pieces:
    """Name the tags after the parameters."""
    openings, closings = iter(keys), iter(keys)
    texts = {"parameter": lambda: f"<{next(openings)}>\n", "parameter_close": lambda: f"\n</{next(closings)}>"}
    return [(role, texts[role]() if role in texts else text) for role, text in pieces]


def _has_remark(pieces: Pieces) -> bool:
    """Whether a remark follows: after an element that is not closed, it is text of the element."""
    return bool(pieces) and pieces[0][0] == "gap" and bool(pieces[0][1].strip())


@st.composite
def _damaged(draw: st.DrawFn, dialect: Dialect, arguments: dict[str, Any]) -> tuple[str, StopReason]:
    """The call, damaged, and why the reply ended."""
    stop: StopReason = "complete"
    pieces = _pieces(dialect, arguments)
    tags = _tags(dialect)
    if tags.call.head and not (tags.nested or tags.call.name) and draw(st.booleans()):
        pieces = _as_children(pieces, list(arguments))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(1, len(pieces) - 1))
        role, text = pieces[at]
        match draw(st.sampled_from(["drop", "double", "remark", "cut"])):
            case "drop" if role.endswith("close") and not (tags.nested and _has_remark(pieces[at + 1 :])):
                pieces[at] = (role, "")
            case "double" if role not in {"value", "call", "gap"}:
                pieces[at] = (role, text * 2)
            case "remark" if role == "gap" and not (tags.nested and not pieces[at - 1][1]):
                pieces[at] = (role, f"\n{draw(st.sampled_from(REMARKS))}\n")
            case "cut" if at > 1:
                del pieces[at:]
                stop = "max_tokens"
                break
    return "".join(text for _, text in pieces), stop


@pytest.mark.parametrize("name", NAMES)
@examples(16)
@given(data=st.data())
def test_what_is_delivered_without_error_is_what_was_meant(name: str, data: st.DataObject) -> None:
    dialect = DIALECTS[name]
    properties, arguments = data.draw(_calls(_tags(dialect)))
    text, stop = data.draw(_damaged(dialect, arguments))
    tools = [{"name": "f", "parameters": {"type": "object", "properties": properties}}]
    calls = executable(normalise(parse(text, dialect, tools, stop_reason=stop)))

    assert [arguments] * len(calls) == [json.loads(call["arguments"]) for call in calls], repr(text)


@pytest.mark.parametrize("name", NAMES)
@examples(10)
@given(data=st.data())
def test_what_is_not_damaged_is_delivered(name: str, data: st.DataObject) -> None:
    dialect = DIALECTS[name]
    properties, arguments = data.draw(_calls(_tags(dialect)))
    plain = {key: re.sub(r"[<>]", "", value) if isinstance(value, str) else value for key, value in arguments.items()}
    text = "".join(text for _, text in _pieces(dialect, plain))
    tools = [{"name": "f", "parameters": {"type": "object", "properties": properties}}]
    (call,) = executable(normalise(parse(text, dialect, tools)))

    assert plain == json.loads(call["arguments"])
