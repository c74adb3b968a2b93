"""Escaping and unescaping of markers."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.parse.dialect import CallMarkers, Dialect, Markers
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.tagged.syntax import TaggedCalls
from fcshim.parse.tagged.tags import Tag, Tags
from fcshim.prompt.escape import BUNDLED, escaper_for
from fcshim.prompt.event_unescape import StreamUnescaper
from fcshim.prompt.marker_names import markers

escape, unescape = BUNDLED.escape, BUNDLED.unescape
DIALECT_MARKERS = sorted({marker for dialect in DIALECTS.values() for marker in markers(dialect)})
FOREIGN = [
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "<function=get_weather>",
    "<function_calls>",
    "<minimax:tool_call>",
    '<invoke name="f">',
    "<start_function_call>",
    "<tool_call|>",
    "<functioncall>",
    "<TOOLCALL>",
]
TEMPLATE = [
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    '<|"|>',
    "<|tool_call>",
    "<｜User｜>",
    "<｜tool▁calls▁begin｜>",
    "</｜DSML｜invoke>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "[TOOL_CALLS]",
    "[AVAILABLE_TOOLS]",
    "[/TOOL_RESULTS]",
    "<start_of_turn>",
    "<end_of_turn>",
    "<think>",
    "</think>",
    "<__media__>",
    "<system_note>",
]
DISGUISED = [
    "<FUNCTION_CALL>",
    "< function_call >",
    "</ function_call>",
    "<\nfunction_call>",
    "<\u200bfunction_call>",
    "<func\u200dtion_call>",
    "<function-call>",
    "＜function_call＞",
    "&lt;function_call&gt;",
    "&#60;function_call&#62;",
    "&#x3C;function_call&#x3E;",
    "\\u003cfunction_call\\u003e",
    "<\\/function_call>",
    "<function_call id=1>",
    "<| im_start |>",
    "<|IM_START|>",
    "< / s >",
    "[ inst ]",
    "[/IN\ufeffST]",
    "<ſ>",
]
HARMLESS = [
    "",
    "a < b and c > d",
    "<div><span>x</span></div>",
    "#include <functional>\n#include <sys/types.h>",
    "x = a[i] + args[0]",
    "f <$> g <|> h",
    "left <| right",
    "[1, 2, [3]]",
    "List<String> s",
    "std::vector<thinker> t",
    "a && b &amp; c \\ d \\u0041",
    "snake_case __init__ <_private>",
    "Action: buy milk\nNo action input: none",
    "import functools\nfrom functools import cache\nfunctools.cache(f)",
    "a function call, and a function call (f)",
    ">>> print(1)\n1\n>>>\n",
    "```json\n{}\n```",
    "https://example.org/?to=x",
]
SPOKEN = [
    "Action Input:",
    "Action_Input:",
    "Action:[",
    "Action: ```json",
    "Observation:",
    "functools[",
    "functools\n{",
    "functools\\n[",
    "function call {",
    "to=functions.",
    ">>>f",
    ">>>>>>f",
    ">>>_",
    "```tool_code",
    "[e~[",
    "<turn|>",
    "<response>",
    "<channel|>",
    "[|user|]",
    "Action input:",
    "**Action Args**:",
]
SPOKEN_PIECES = [
    "A",
    "ction",
    "Action:",
    "functools",
    "function call",
    ">",
    ">>",
    "`",
    "``",
    "[e~",
    "e~[",
    "<turn",
    "|>",
]
# Fragments that meet at every boundary of the pattern.
SEAMS = ["<", "[", "_", "__", "/", "\\", "\\/", "|", "｜", ">", "]", "&", "&lt;", "&gt;", "\\u003c", "\\u003e", "&#"]
WORDS = ["function_call", "s", "sys", "INST", "think", "im_start", ":", "-", " ", "\n", "\u200b", "x", "a b", " " * 9]
PIECES = st.sampled_from([*SPOKEN, *SPOKEN_PIECES, *DIALECT_MARKERS, *FOREIGN, *TEMPLATE, *DISGUISED, *SEAMS, *WORDS])
LIVE = (*DIALECT_MARKERS, *FOREIGN, *TEMPLATE, *DISGUISED, *(word for word in SPOKEN if word[0] != ">"))
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)


@pytest.mark.parametrize("marker", [*DIALECT_MARKERS, *FOREIGN, *TEMPLATE, *DISGUISED, *SPOKEN])
def test_a_marker_is_escaped_and_unescaped(marker: str) -> None:
    safe = escape(f"see {marker} here")

    assert marker not in safe
    assert f"see {marker} here" == unescape(safe)


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert text == escape(text)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("<function_call>", "<_function_call>"),
        ("</function_result>", "<_/function_result>"),
        ('<function_result name="x">', '<_function_result name="x">'),
        ("<|im_start|>", "<_|im_start|>"),
        ("[INST]", "[_INST]"),
        ("<_function_call>", "<__function_call>"),
        ("<<SYS>>", "<<_SYS>>"),
        ("&lt;think&gt;", "&lt;_think&gt;"),
        ("ends with <function_call", "ends with <_function_call"),
        ("<s<s><think><s", "<s<_s><_think><s"),
        ("Action: f\nAction Input: {}", "Action: f\nA_ction Input: {}"),
        ("Action: f\nA_ction Input: {}", "Action: f\nA__ction Input: {}"),
        ("functools [{}]", "f_unctools [{}]"),
        (">>>f\n{}", ">>_>f\n{}"),
        ("[e~[e~[", "[_e~[_e~["),
        ("```tool_code", "```_tool_code"),
    ],
)
def test_an_underscore_is_inserted_after_the_opening_character(text: str, safe: str) -> None:
    assert safe == escape(text)


def test_of_a_custom_dialect_words_are_escaped_only_if_they_open_or_end_calls() -> None:
    tags = Tags(Tag("run "), "stop", Tag("[with ", "]"), "</with>", value_open="=>")
    escaper = escaper_for(
        Dialect("mine", "", TaggedCalls(tags), CallMarkers("CALL", "DONE"), result=Markers("RESULT", "END"))
    )

    assert "run stop => END" == escaper.escape("run stop => END")
    assert "C_ALL D_ONE R_ESULT [_with <_/with>" == escaper.escape("CALL DONE RESULT [with </with>")


@pytest.mark.parametrize("text", ["<_foo>", "<__init__>", "[_x]", "<_ s", "<__", "[_", "a <_| b", "_<"])
def test_unescaping_keeps_text_that_was_not_escaped(text: str) -> None:
    assert text == unescape(text)


@given(TEXTS)
def test_unescaping_reverses_escaping(text: str) -> None:
    assert text == unescape(escape(text))
    assert text == unescape(unescape(escape(escape(text))))


@given(TEXTS)
def test_escaped_text_contains_no_marker(text: str) -> None:
    safe = escape(text)

    assert [] == [marker for marker in LIVE if marker in safe]


@given(TEXTS, TEXTS)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (one == other) == (escape(one) == escape(other))


@given(TEXTS | TEXTS.map(escape), st.data())
@example("<_foo&lt;_think>", None)
@example("<_____think>x", None)
@example("<_s&gt;<_think\\u003c_s>", None)
def test_unescaping_does_not_depend_on_the_chunks(text: str, data: st.DataObject | None) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text))))) if data else range(1, len(text))
    unescaper = StreamUnescaper(BUNDLED)
    pieces = [unescaper.feed(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert unescape(text) == "".join(pieces) + unescaper.close()


@pytest.mark.parametrize("text", ["plain words", "<b>", "a < b", "[1]", "x_y", "<_foo>"])
def test_only_a_possible_marker_is_held_back(text: str) -> None:
    unescaper = StreamUnescaper(BUNDLED)

    assert text == unescaper.feed(text)


def test_the_held_back_tail_is_short_for_any_number_of_underscores() -> None:
    unescaper = StreamUnescaper(BUNDLED)
    emitted = unescaper.feed("<")
    for _ in range(5000):
        emitted += unescaper.feed("_")

    assert 4999 == len(emitted)  # of 5001: one is held back for a tag, one for a plain marker
    assert "<" + "_" * 4999 + "think" == emitted + unescaper.feed("think") + unescaper.close()


HOSTILE = [
    "<",
    "[",
    "<_",
    "< ",
    "<\u200b",
    "&lt;",
    "\\u003c",
    "<function_call",
    "<|",
    "<|a",
    "_",
    "<__________",
    "a",
    "[_INST ",
    "A_",
    ">",
    ">>_",
    "f_unctools ",
    "f_unctools\\n",
    "[_e~",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_long_hostile_text_is_unescaped(unit: str) -> None:
    """A quadratic scan takes minutes here; `benchmarks.hostile` measures the slope."""
    text = "<" + unit * (100_000 // len(unit))

    assert text == unescape(escape(text))


@pytest.mark.parametrize("unit", HOSTILE)
def test_long_hostile_text_is_unescaped_in_chunks(unit: str) -> None:
    unescaper = StreamUnescaper(BUNDLED)
    text = "<_" + unit * (40_000 // len(unit))
    pieces = [unescaper.feed(text[at : at + 2]) for at in range(0, len(text), 2)]

    assert unescape(text) == "".join(pieces) + unescaper.close()
