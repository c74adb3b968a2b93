"""Laws 1 to 8 of the design as properties of any reply under any split.

Law 9 is tested with the codecs. The fuzzer checks the same laws on many more replies; law 7 uses the families in
`hostile`.
"""

import itertools
import json
import random
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fcshim.errors import ConfigError
from fcshim.events import Event, Stop, StopReason, Text, ToolCallStart
from fcshim.parse.dialects import DIALECTS
from fcshim.parse.machine.known_markers import ROLE_MARKERS
from fcshim.parse.machine.quotations import QUOTATION_STARTS
from fcshim.parse.markers import END_TOKENS
from fcshim.parse.stream import StreamParser, parse
from fcshim.prompt.render import render_call
from tests.fuzz.documents import JUNK, NASTY, WORDS
from tests.parse.hostile import CALL, CLOSE, FAMILIES, IN_DIALECTS, IN_TEMPLATES, OPEN
from tests.parse.laws import Piece, check_reply, emitted_text, executable, normalise
from tests.parse.line_count import count_lines
from tests.parse.response_template.test_results import dialect_of

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("f", "get_weather")]
STOPS: list[StopReason] = ["complete", "stop_sequence", "max_tokens", "content_filter", "error"]

stops = st.sampled_from(STOPS)
options = st.fixed_dictionaries(
    {
        "tools": st.sampled_from([None, TOOLS]),
        "reasoning": st.sampled_from(["ignore", "recover", "promote"]),
        "arguments": st.sampled_from(["stream", "validated"]),
        "rescue": st.booleans(),
    }
)
strings = st.lists(st.sampled_from(NASTY) | st.characters(exclude_categories=["Cs"]), max_size=4).map("".join)
strings = strings.map(lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | strings
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3), max_leaves=5
)
arguments = st.dictionaries(strings, values, max_size=3)
layouts = st.fixed_dictionaries({"ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 1, "\t"])})
names = st.sampled_from(["f", "get_weather", 'say "hi"', "größe", "a b"])
prose = st.lists(st.sampled_from([word for word in WORDS if "`" not in word and word != "//"]), max_size=6).map(
    " ".join
)


@st.composite
def written_calls(draw: st.DrawFn) -> tuple[str, Piece]:
    """A strict call as a model writes it, and its expected piece."""
    name, spelled = draw(names), json.dumps(draw(arguments), **draw(layouts))
    members = draw(st.permutations([f'"name": {json.dumps(name)}', f'"arguments": {spelled}']))
    space = draw(st.sampled_from(["", "\n", " \r\n\t"]))
    text = f"{OPEN}{space}{{{', '.join(members)}{space}}}{space}{CLOSE}"
    return text, {"call": name, "arguments": spelled, "coerced": [], "error": None}


@st.composite
def exact_replies(draw: st.DrawFn) -> tuple[str, list[Piece]]:
    """Alternating prose and strict calls, and their expected pieces."""
    text, pieces = "", list[Piece]()
    for said, call in draw(st.lists(st.tuples(prose, written_calls()), max_size=3)):
        text += f"{said} {call[0]}"
        pieces += [{"text": f"{said} "}, call[1]]
    return text, pieces


@st.composite
def replies(draw: st.DrawFn) -> str:
    """Any reply: random fragments, or calls and prose with the errors that models make."""
    if draw(st.booleans()):
        return "".join(draw(st.lists(st.sampled_from(JUNK) | st.text(max_size=3), max_size=15)))
    text, _ = draw(exact_replies())
    for _ in range(draw(st.integers(0, 3))):
        text = _damage(text, *draw(st.tuples(st.integers(0, len(text)), st.integers(0, 9), st.integers(0, 5))), draw)
    return text


def _damage(text: str, at: int, length: int, kind: int, draw: st.DrawFn) -> str:
    before, part, after = text[:at], text[at : at + length], text[at + length :]
    match kind:
        case 0:
            return before + after
        case 1:
            return before
        case 2:
            return before + part + part + after
        case 3:
            return before + draw(st.sampled_from(JUNK)) + part + after
        case 4:
            return before + text[at:].replace('"', "'")
        case _:
            return before + text[at:].replace('\\"', '"').replace("true", "True")


def _read(text: str, cuts: list[int], stop_reason: StopReason = "complete", **settings: Any) -> list[Piece]:
    """Parse a reply in the pieces that the cuts make, and check all laws of `check_reply`."""
    parser = StreamParser(**settings)
    ends = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    events = [event for start, end in itertools.pairwise(ends) for event in parser.feed(text[start:end])]
    finished = parser.finished
    return check_reply(text, stop_reason, events + parser.close(stop_reason), finished=finished)


cuts = st.lists(st.integers(0, 10_000), max_size=8)
EVERYWHERE = list(range(400))


@given(replies(), cuts, stops, options)
@example("a ` b <function_call", [3], "complete", {})
@example("\ud83d\ude42", [1], "complete", {})
def test_law_1_any_split_gives_the_same_events(text: str, cuts: list[int], stop: StopReason, options: Any) -> None:
    whole = _read(text, [], stop, **options)

    assert whole == _read(text, cuts, stop, **options)
    assert whole == _read(text, EVERYWHERE, stop, **options)


@given(st.lists(replies(), max_size=3))
def test_law_2_ids_are_unique_in_a_conversation(texts: list[str]) -> None:
    events = [event for text in texts for event in parse(text)]
    ids = [event.tool_call_id for event in events if isinstance(event, ToolCallStart)]

    assert len(set(ids)) == len(ids)


@given(replies(), cuts, stops, options)
def test_laws_2_3_and_4_calls_are_balanced_add_up_and_are_json(
    text: str, cuts: list[int], stop: StopReason, options: Any
) -> None:
    _read(text, cuts, stop, **options)


@given(exact_replies(), cuts, st.sampled_from(["stream", "validated"]))
def test_law_4_strict_arguments_are_forwarded_byte_for_byte(
    reply: tuple[str, list[Piece]], cuts: list[int], held: str
) -> None:
    text, pieces = reply

    assert executable(pieces) == executable(_read(text, cuts, arguments=held))


@given(arguments, st.sampled_from(["True", "None", "'x'", "[1,]", '{"a": 1,}', "/**/1"]))
def test_law_4_repaired_arguments_are_json(before: dict[str, object], lenient: str) -> None:
    strict = json.dumps({"k": 0, **before})
    text = f'{OPEN}{{"name": "f", "arguments": {strict[:-1]}, "zz\\u0001": {lenient}}}}}{CLOSE}'
    (call, _) = _read(text, EVERYWHERE)

    assert call["error"] is None
    assert {**json.loads(strict)} == {k: v for k, v in json.loads(call["arguments"]).items() if k != "zz\x01"}


@given(exact_replies(), cuts)
def test_law_5_text_outside_calls_survives(reply: tuple[str, list[Piece]], cuts: list[int]) -> None:
    text, pieces = reply
    expected = [*pieces, {"stop": "tool_use" if pieces else "complete"}]

    assert expected == _read(text, cuts)


@given(replies(), cuts, stops)
def test_law_5_without_tools_a_reply_is_its_text(text: str, cuts: list[int], stop: StopReason) -> None:
    prefaced = f"So: {text}"

    assert prefaced.encode("utf-16", "surrogatepass").decode("utf-16", "replace") == emitted_text(
        _read(prefaced, cuts, stop, tools=[])
    )


@given(exact_replies(), st.sampled_from(["max_tokens", "content_filter", "error"]))
def test_law_6_a_truncated_reply_runs_only_complete_calls(reply: tuple[str, list[Piece]], stop: StopReason) -> None:
    text, pieces = reply
    calls = executable(pieces)
    for end in {*range(0, len(text), 7), *range(max(0, len(text) - 40), len(text))}:
        finished = text[:end].count(CLOSE)
        found = executable(_read(text[:end], [], stop))

        assert calls[: len(found)] == found
        assert len(found) <= finished
        assert end == len(text) or len(found) < max(1, len(calls))


QUOTES = [
    "As in:\n```\n{}\n```\nso.",
    "~~~json\n{}\n~~~\n\nwait",
    "````\n```\n{}\n```\n````\n",
    "Write `{}` so.",
    "Write ``{}``.",
    "> {}\n",
    "He said:\n> {}\nand left.",
    "<think>{}</think>no",
    "<think>maybe {}",
    "```\n# so\n{}\n```",
    '<function_result name="f">\n{}\n</function_result>',
    "Seen:\n<function_result>{}",
    "Then\n<|im_start|>assistant\n{}",
    "We said:\n\nUser: hi\nAssistant: {}\n",
    "As\n<|start_header_id|>assistant<|end_header_id|>\n\n{}",
]


@pytest.mark.parametrize("quote", QUOTES)
@given(json_text=st.dictionaries(st.sampled_from("abc"), st.integers() | st.booleans()).map(json.dumps), cuts=cuts)
def test_law_6_a_quoted_call_never_runs(quote: str, json_text: str, cuts: list[int]) -> None:
    text = quote.replace("{}", f'{OPEN}{{"name": "f", "arguments": {json_text}}}{CLOSE}')

    assert executable(_read(text, cuts)) == []


@given(replies(), cuts, stops)
def test_law_6_only_offered_tools_are_called(text: str, cuts: list[int], stop: StopReason) -> None:
    pieces = _read(text, cuts, stop, tools=TOOLS)

    assert {piece["call"] for piece in pieces if "call" in piece} <= {"f", "get_weather"}


@pytest.mark.parametrize("name", FAMILIES)
def test_law_7_work_is_linear(name: str) -> None:
    small, large = (count_lines(FAMILIES[name](size), "function_call", TOOLS) for size in (1_000, 4_000))

    assert large < 5.3 * small


@pytest.mark.parametrize("name", IN_DIALECTS)
def test_law_7_work_is_linear_in_other_dialects(name: str) -> None:
    dialect, make = IN_DIALECTS[name]
    small, large = (count_lines(make(size), dialect, TOOLS) for size in (1_000, 4_000))

    assert large < 5.3 * small


@pytest.mark.parametrize("name", IN_TEMPLATES)
def test_law_7_work_is_linear_in_response_templates(name: str) -> None:
    template, make = IN_TEMPLATES[name]
    dialect = dialect_of({"template": template})
    small, large = (count_lines(make(size), dialect, TOOLS) for size in (1_000, 4_000))

    assert large < 5.3 * small


@given(st.text(st.characters()) | replies(), cuts, stops, options)
@example("\ud83d", [], "complete", {})
@example("\x00\ufeff\ufffe" + CALL, [1], "complete", {})
def test_law_8_no_input_raises(text: str, cuts: list[int], stop: StopReason, options: Any) -> None:
    _read(text, cuts, stop, **options)


def test_law_8_an_unknown_dialect_is_a_documented_error() -> None:
    with pytest.raises(ConfigError):
        StreamParser(dialect="function_cal")


@pytest.mark.parametrize(
    ("halves", "expected"),
    [
        (["\ud83d", "\ude42"], "🙂"),
        (["x\ud83d", "y"], "x\ufffdy"),
        (["\ude42"], "\ufffd"),
        (["x", "\ud83d"], "x\ufffd"),
        (["\ud83d", "", "\ude42!"], "🙂!"),
    ],
)
def test_surrogate_pairs_are_joined_across_chunks(halves: list[str], expected: str) -> None:
    inside = f'{OPEN}{{"name": "f", "arguments": {{"a": "', f'"}}}}{CLOSE}'
    assert {"text": expected} == _fed(halves)[0]

    call = _fed([inside[0], *halves, inside[1]])[0]
    assert {"a": expected} == json.loads(call["arguments"])


def _fed(pieces: list[str]) -> list[Piece]:
    parser = StreamParser()
    events: list[Event] = [event for piece in pieces for event in parser.feed(piece)]
    return check_reply("".join(pieces), "complete", events + parser.close())


def test_whole_texts_and_streams_share_one_path() -> None:
    source = random.Random(1)
    text = "".join(source.choices([*JUNK, CALL], k=200))
    ids = map(str, itertools.count())
    again = parse(text, new_id=lambda: next(ids))
    ids = map(str, itertools.count())
    parser = StreamParser(new_id=lambda: next(ids))

    assert again == parser.feed(text) + parser.close()


def test_a_surrogate_after_the_end_of_the_reply_is_dropped() -> None:
    call = '<function_call>{"name": "f", "arguments": {}}</function_call>'
    parser = StreamParser(tools=[{"name": "f"}])
    events = [*parser.feed(call), *parser.feed("<function_result n\ud83d"), *parser.feed("\ude42"), *parser.close()]

    assert [Stop("tool_use")] == events[-1:]
    assert not [event for event in events if isinstance(event, Text)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_line_break_in_the_markup_counts_the_same_under_any_split(dialect: str) -> None:
    call = render_call(DIALECTS[dialect], "get_weather", '{"city": "Paris"}').strip("\n")
    for found in re.finditer(r"[<\[{✿]|(?<=[>\]:])", call):
        text = f"{call[: found.start()]}\n{call[found.start() :]}"
        whole, single = (_read_in(dialect, pieces) for pieces in ([text], list(text)))

        assert whole == single, text


MARKERS = sorted({*QUOTATION_STARTS, *ROLE_MARKERS, *END_TOKENS, *(row.call.open for row in DIALECTS.values())})


@pytest.mark.parametrize("rescue", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_marker_can_stand_anywhere(dialect: str, *, rescue: bool) -> None:
    for marker in MARKERS:
        for text in (f"a {marker} b", f"{marker}\n{marker}]", f"a\n{marker}}} b"):
            whole, single = (_read_in(dialect, pieces, rescue=rescue) for pieces in ([text], list(text)))

            assert whole == single, text


def _read_in(dialect: str, pieces: list[str], *, rescue: bool = True) -> list[Piece]:
    parser = StreamParser(dialect, TOOLS, rescue=rescue)
    return normalise([event for piece in pieces for event in parser.feed(piece)] + parser.close())
