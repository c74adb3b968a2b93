"""The prefilter of tags: whatever is escaped is never taken for a text without markers."""

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.parse.dialects import FUNCTION_CALL
from fcshim.prompt import marker_names
from fcshim.prompt.escape import _CANDIDATE, BUNDLED, MarkerEscaper, map_strings, strings_of
from fcshim.prompt.marker_names import MarkerNames, OrdinaryNames, keys_of

CUSTOM = MarkerEscaper(
    replace(
        FUNCTION_CALL,
        call=replace(FUNCTION_CALL.call, open="<my_call>", close="</my_call>"),
        result=replace(FUNCTION_CALL.result, open="RESULT:"),
    )
)
PIECES = [
    *("my_call", "My-Call", "RESULT:"),
    *("<", "＜", "[", "&lt;", "&LT;", "&#60;", "&#x0003c;", "\\u003c", "\\x3C", ">", "＞", "]", "&gt;", "\\u003e"),
    *("_", "__", "-", " ", "\n", "\t", "\u2003", "/", "\\/", "\\", ":", "|", "｜", "&", "\0"),
    *("\u200b", "\ufeff", "\u00ad", "\u2060"),
    *("tool_call", "Tool-Call", "toolcall", "to\u200bol_call", "TOOL_CALLS", "function", "function=f", "thin\u212a"),
    *("think", "\u017fys", "s", "ſ", "image", "minimax:tool_call", "a:b:invoke", "INST", "tool▁call▁begin", "results"),
    *("1", "23", "ifm|tool_call", "tool_call|", "invoke name=", "/\\u003c"),
    *("channel|>analysis to=", "im_start", "table", "x", "é", "A", "ction:", "unctools", ">>", "["),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


def substituted(text: str) -> list[str]:
    """Return the text with its tags escaped and unescaped, without the prefilter."""
    return [_CANDIDATE.sub(change, text) for change in (BUNDLED._escape_match, BUNDLED._unescape_match)]


@example("<thin\u212a>")
@example("\\u003c\\u003ctool_call>")
@example("<__/ \u200btool_call>")
@example("[ / INST\u200b ]")
@given(TEXTS)
def test_a_text_that_the_prefilter_drops_has_no_marker(text: str) -> None:
    if not BUNDLED._names.may_occur_in(text):
        assert [text, text] == substituted(text)


@given(TEXTS)
def test_escaping_with_the_prefilter_is_escaping_without_it(text: str) -> None:
    escaped, restored = substituted(text)
    plain = BUNDLED._plain_markers

    assert plain._marker_re.sub(lambda found: f"{found[0]}_", escaped) == BUNDLED.escape(text)
    assert restored == BUNDLED._unescape_tags(text, len(text))


@given(st.lists(TEXTS, max_size=4))
def test_one_search_of_several_texts_finds_what_is_escaped_in_any_of_them(texts: list[str]) -> None:
    if not BUNDLED.may_change(texts):
        assert texts == [BUNDLED.escape(text) for text in texts] == [BUNDLED.unescape(text) for text in texts]


@given(TEXTS)
def test_the_tags_of_a_custom_dialect_may_occur(text: str) -> None:
    if not CUSTOM.may_change([text]):
        substituted = _CANDIDATE.sub(CUSTOM._escape_match, text)

        assert text == substituted == CUSTOM._plain_markers.escape(text)


@pytest.mark.parametrize(
    "text",
    ["a < b", "x[0]", "<td>a &amp; b</td>", "if (a <b && c> d)", "\\n<div class='a'>", "[1, 2]", "cin >> x", "Option:"],
)
def test_common_text_has_no_marker(text: str) -> None:
    assert not BUNDLED.may_change([text])


@pytest.mark.parametrize("count", [16_380, 16_384, 16_390])
def test_a_marker_at_the_end_of_a_piece_is_escaped(count: int) -> None:
    for text in ("x" * count + "<tool_call>", "<a>" * (count // 3) + " <\n/tool_call> [INST]"):
        assert BUNDLED.escape(text) != text
        assert BUNDLED.unescape(BUNDLED.escape(text)) == text
        assert re.sub(r"<(?=\n?/?tool_call)|\[", lambda found: f"{found[0]}_", text) == BUNDLED.escape(text)


def test_few_short_names_are_remembered() -> None:
    names = OrdinaryNames(lambda name: name == "marker")
    for start in range(0, 20_000, 500):
        assert names.contain([f"n{number}" for number in range(start, start + 500)])
    assert names.contain(["x" * 1_000] * 3)
    assert names.contain([f"m{number}" for number in range(20_000)])

    assert len(names._known) <= 4_096
    assert max(map(len, names._known)) <= 64
    assert not names.contain(["n1", "marker"])
    assert not names.contain(["n1", "marker"])


def test_numbers_in_square_brackets_are_not_remembered() -> None:
    names = MarkerNames(["tool"], ["inst"], [])

    assert not names.may_occur_in("x[0] [ 1] [/2 ] [12:30] [٣] a < 5")
    assert {"12:30"} == names._ordinary_brackets._known


@pytest.mark.parametrize("text", ["[7]", "[ /_7 ]", "[n:7]"])
def test_a_number_may_be_the_marker_of_a_custom_dialect(text: str) -> None:
    assert MarkerNames(["tool"], ["7"], []).may_occur_in(text)
    assert not MarkerNames(["tool"], ["8"], []).may_occur_in(text)


@pytest.mark.parametrize("text", ["<tool|", "<a|b>", "<|a|>", "</|", "&lt;_|", "\\u003c/|a", "<a｜b>", "<end|>"])
def test_a_bar_ends_a_name_or_begins_a_token(text: str) -> None:
    names = MarkerNames(["tool"], [], ["end|"])

    assert (text != "<a|b>") == names.may_occur_in(text)


def test_every_string_of_a_value_is_listed() -> None:
    value = {"a": ["b", {"c": "d", "e": [["f"], 1, None]}], "g": True}
    mapped: list[str] = []

    def record(text: str) -> str:
        mapped.append(text)
        return text

    map_strings(value, record)

    assert sorted("abcdefg") == sorted(strings_of(value)) == sorted(mapped)


def test_no_list_repeats_what_the_dialects_say() -> None:
    """Only what no dialect, turn marker or reasoning tag has is listed beside them."""
    of_dialects = keys_of((*marker_names._NAMES, *marker_names._whole_tags(marker_names.TURNS)))

    assert set() == keys_of(marker_names._TAGS) & of_dialects
    assert set() == keys_of(marker_names._CLOSED_TAGS) & keys_of(marker_names._whole_tags(marker_names._TOKENS))
    assert set() == keys_of(marker_names._BRACKETS) & (of_dialects | keys_of(marker_names._TOKENS_IN_BRACKETS))
