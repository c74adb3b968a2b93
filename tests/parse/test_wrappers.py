"""Any body in any wrapper gives the call that was meant; a wrapper with anything else in it stays text."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.parse.dialects import DIALECTS
from fcshim.parse.machine.wrapper_tags import read_wrapper_tag
from fcshim.parse.scanner import MoreNeeded
from tests.parse.cases import Case, run
from tests.parse.laws import check_reply

STRING = {"type": "string"}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "send_mail", "parameters": {"properties": {"to": STRING, "text": STRING}}},
    },
    {"type": "function", "function": {"name": "get_time"}},
]
WRAPPERS = [
    ("<tool>", "</tool>"),
    ("<appel_de_fonction>", "</appel_de_fonction>"),
    ('<tool type="function">', "</tool>"),
    ("<|call|>", "<|/call|>"),
    ("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
    ("[tool]", "[/tool]"),
    ("&lt;call&gt;", "&lt;/call&gt;"),
    ("\\<call\\>", "\\</call\\>"),
    ("<tool_call>", "</tool_call>"),
    ("<function_calls>", "</function_calls>"),
    ("<seed:tool_call>", "</seed:tool_call>"),
    ("<|tool_call_start|>", "<|tool_call_end|>"),
]
BODIES = [
    '{"name": "NAME", "arguments": ARGUMENTS}',
    '[{"name": "NAME", "arguments": ARGUMENTS}]',
    '{"tool_calls": [{"name": "NAME", "arguments": ARGUMENTS}]}',
    '{"tool_call": {"name": "NAME", "arguments": ARGUMENTS}}',
    '{"action": "NAME", "action_input": ARGUMENTS}',
    "NAME(ARGUMENTS)",
    "NAME\nARGUMENTS",
    "NAMEARGUMENTS",
    '```json\n{"name": "NAME", "arguments": ARGUMENTS}\n```',
]

wrappers = st.sampled_from(WRAPPERS)
bodies = st.sampled_from(BODIES)
plain = st.text(st.characters(codec="utf-8", exclude_characters="\\\"'`<>[](){}&|*"), max_size=12)
arguments = st.dictionaries(st.sampled_from(["to", "text"]), plain, min_size=1)
spaces = st.sampled_from(["", "\n", " ", "\n  "])
pieces = st.integers(1, 9)


def _read(text: str, size: int) -> list[Any]:
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    events, finished = run(Case("wrapper", text, tools=TOOLS, options={"rescue": True}), cut)
    return check_reply(text, "complete", events, finished=finished)


@given(wrappers, bodies, arguments, spaces, pieces)
@example(("<tool>", "</tool>"), BODIES[5], {"to": "x"}, "\n", 1)
def test_any_body_in_any_wrapper_is_the_call(
    wrapper: tuple[str, str], body: str, given_arguments: dict[str, str], space: str, size: int
) -> None:
    written = body.replace("NAME", "send_mail").replace("ARGUMENTS", json.dumps(given_arguments))

    text, call, stop = _read(f"So:\n{wrapper[0]}{space}{written}{space}{wrapper[1]}", size)

    assert text == {"text": "So:\n"}
    assert (call["call"], call["error"]) == ("send_mail", None)
    assert json.loads(call["arguments"]) == given_arguments
    assert stop == {"stop": "tool_use"}


UNKNOWN = [wrapper for wrapper in WRAPPERS[:10] if wrapper[0] not in {row.call.open for row in DIALECTS.values()}]


@given(st.sampled_from(UNKNOWN), bodies, st.sampled_from(range(6)), pieces)
def test_an_unknown_tag_with_anything_else_is_text(wrapper: tuple[str, str], body: str, kind: int, size: int) -> None:
    written = body.replace("NAME", "send_mail" if kind else "other_tool").replace("ARGUMENTS", '{"to": "x"}')
    start, end = wrapper
    text = (
        f"So:\n{start}{written}{end}",
        f"So:\n{start}{written} or so{end}",
        f"So:\n{start}Like this: {written}{end}",
        f"So: {start}{written}{end}",
        f"> {start}{written}{end}",
        f"So:\n{start}{written}</other>\n" + "and the text goes on. " * 20,
    )[kind]

    assert _read(text, size) == [{"text": text}, {"stop": "complete"}]


@pytest.mark.parametrize(
    ("text", "tag", "close"),
    [
        ("<tool>{", "<tool>", "</tool>"),
        ("<工具>{", "<工具>", "</工具>"),
        ('<tool id="1">{', '<tool id="1">', "</tool>"),
        ("<|tool|>{", "<|tool|>", "<|/tool|>"),
        ("[CALL]{", "[CALL]", "[/CALL]"),
    ],
)
def test_a_tag_has_the_end_marker_of_its_spelling(text: str, tag: str, close: str) -> None:
    found = read_wrapper_tag(text, 0)

    assert found is not None
    assert (found.text, found.closers()[0]) == (tag, close)


@pytest.mark.parametrize("text", ["<", "<tool", "<tool ", "&", "&lt", "&lt;tool", "\\", "\\<", "[", "[A"])
def test_the_beginning_of_a_tag_waits_for_more(text: str) -> None:
    with pytest.raises(MoreNeeded):
        read_wrapper_tag(text, 0)


@pytest.mark.parametrize("text", ["< b", "<1>", "&amp;", "\\n", "[ ]", "* one", "**bold**", "<a\nb>", "[1]", "<pre>{"])
def test_other_text_is_no_tag(text: str) -> None:
    assert read_wrapper_tag(text, 0) is None
