"""Everything whose size the model controls ends at a limit, with an error instead of a crash or exhausted memory."""

import gc
import sys
import tracemalloc
from types import FunctionType, ModuleType

import pytest

from fcshim.events import StopReason
from fcshim.parse.limits import Limits
from fcshim.parse.machine.text import ReasoningPolicy
from fcshim.parse.stream import StreamParser
from tests.parse.cases import Case, check, run
from tests.parse.hostile import BODY, CLOSE, FAMILIES, IN_DIALECTS, OPEN
from tests.parse.laws import check_reply, executable

SMALL = Limits(arguments=4_000, search=1_000, hold=4_000, look_ahead=500)
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def _limited(
    name: str, text: str, *, stop_reason: StopReason = "complete", limits: Limits | None = None, last: bool = False
) -> None:
    options = {} if limits is None else {"limits": limits}
    stop = {"stop": stop_reason}
    check(
        Case(name, text, [{"call": "f", "error": "limit"}, stop], stop_reason=stop_reason, options=options, last=last)
    )


def _pieces_of_four(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(0, len(text), 4)]


@pytest.mark.parametrize("opener", ["[", '{"a":', '[{"a":'])
def test_nesting_beyond_the_limit_ends_the_call(opener: str) -> None:
    _limited("nesting", BODY + '{"a": ' + opener * 65 + CLOSE)


@pytest.mark.parametrize("tail", ["", "]" * 100_000 + "}}" + CLOSE])
def test_a_hundred_thousand_brackets_are_a_limit_error(tail: str) -> None:
    case = Case("brackets", BODY + '{"a": ' + "[" * 100_000 + tail, [])
    for pieces in ([case.input], _pieces_of_four(case.input)):
        events, finished = run(case, pieces)
        actual = check_reply(case.input, "complete", events, finished=finished)

        assert [piece["error"]["kind"] for piece in actual if "call" in piece] == ["limit"]


@pytest.mark.parametrize("key", ["x", "arguments"])
def test_deep_nesting_before_the_name_runs_no_call(key: str) -> None:
    text = f'{OPEN}{{"{key}": {{"a": {"[" * 100_000}{"]" * 100_000}}}, "name": "f"}}{CLOSE}'
    events, _ = run(Case("first", text), _pieces_of_four(text))

    assert executable(check_reply(text, "complete", events)) == []


def test_a_body_too_long_to_repair_ends_the_call() -> None:
    _limited("mend", BODY + "{'a': '" + "x" * 20_000 + "'}}" + CLOSE)


def test_a_body_within_the_limit_is_repaired() -> None:
    text = BODY + "{'a': '" + "x" * 15_000 + "'}}" + CLOSE

    check(Case("mend", text, [{"call": "f", "value": {"a": "x" * 15_000}}, {"stop": "tool_use"}]))


def test_strict_arguments_have_no_repair_limit() -> None:
    arguments = '{"a": "' + "x" * 50_000 + '", "b": [' + "1, " * 20_000 + "1]}"

    check(Case("long", BODY + arguments + "}" + CLOSE, [{"call": "f", "arguments": arguments}, {"stop": "tool_use"}]))


@pytest.mark.parametrize("value", ["7" * 20_000, "-" + "7" * 5_000, "[1, " + "7" * 5_000 + "]"])
def test_a_number_that_python_cannot_read_ends_the_call(value: str) -> None:
    case = Case("digits", BODY + '{"a": ' + value + "}}" + CLOSE)
    for pieces in ([case.input], _pieces_of_four(case.input)):
        events, finished = run(case, pieces)
        actual = check_reply(case.input, "complete", events, finished=finished)

        assert [piece["error"]["kind"] for piece in actual if "call" in piece] == ["limit"]


@pytest.mark.parametrize("value", ["222", "[1, 222]", "{'b': 222}", "{222: 1}", "(222, 1)", "-2.5"])
def test_a_number_beyond_the_limit_ends_its_call(value: str) -> None:
    after = {"call": "f", "arguments": '{"c": 2}'}
    options = {"dialect": "pythonic", "limits": Limits(number=2)}
    case = Case("digits", f"[f(a={value}, b=1), f(c=2)]", at_most=[after], options=options)

    assert check(case)[0]["error"]["kind"] == "limit"


def test_a_list_whose_first_number_is_beyond_the_limit_is_text() -> None:
    text = "[f(222), f(c=2)]"
    options = {"dialect": "pythonic", "limits": Limits(number=2)}

    check(Case("digits", text, [{"text": text}, {"stop": "complete"}], options=options))


def test_arguments_beyond_the_limit_end_the_call() -> None:
    _limited("arguments", BODY + '{"a": "' + "x" * 5_000 + '"}}' + CLOSE, limits=SMALL)


def test_arguments_beyond_the_limit_end_the_call_before_text_that_is_not_json() -> None:
    text = BODY + '{"a": "' + "x" * 30 + '", "b": ' + "t" * 50 + CLOSE

    _limited("arguments", text, limits=Limits(arguments=20, search=40))


def test_arguments_that_the_repair_makes_too_long_end_the_call_at_the_end_of_the_reply() -> None:
    text = BODY + "{'a': '" + "x" * 30 + "'}}"

    _limited("arguments", text, limits=Limits(arguments=20), last=True)


def test_parsing_continues_after_a_call_beyond_a_limit() -> None:
    text = BODY + '{"a": "' + "x" * 5_000 + '"}}' + CLOSE + "so" + BODY + "{}}" + CLOSE
    after = [{"text": "so"}, {"call": "f", "arguments": "{}"}, {"stop": "tool_use"}]

    check(Case("arguments", text, [{"call": "f", "error": "limit"}, *after], options={"limits": SMALL}))


@pytest.mark.parametrize("name", FAMILIES)
def test_memory_is_bounded_by_the_limits(name: str) -> None:
    _check_memory(StreamParser(tools=TOOLS, limits=TINY), FAMILIES[name](LONG))


@pytest.mark.parametrize("reasoning", ["recover", "promote"])
@pytest.mark.parametrize("name", [name for name in FAMILIES if "<think>" in FAMILIES[name](100)])
def test_memory_is_bounded_in_reasoning(name: str, reasoning: ReasoningPolicy) -> None:
    _check_memory(StreamParser(tools=TOOLS, reasoning=reasoning, limits=TINY), FAMILIES[name](LONG))


@pytest.mark.parametrize("name", IN_DIALECTS)
def test_memory_is_bounded_in_other_dialects(name: str) -> None:
    dialect, make = IN_DIALECTS[name]
    _check_memory(StreamParser(dialect, TOOLS, limits=TINY), make(LONG))


def test_nothing_outside_the_parsers_grows() -> None:
    """What all parsers share, such as compiled grammars, is complete after the first reply of each kind."""
    kinds = [("function_call", make) for make in FAMILIES.values()] + list(IN_DIALECTS.values())
    for dialect, make in kinds:
        _feed(StreamParser(dialect, TOOLS, limits=TINY), make(4_000))
    gc.collect()
    threshold = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # Python's own: the peak is that of programs, not of the tests (see conftest.py)
    tracemalloc.start()
    try:
        for dialect, make in kinds:
            _feed(StreamParser(dialect, TOOLS, limits=TINY), make(4_000))
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.set_threshold(*threshold)

    assert grown < 0.1 * 4_000 * len(kinds)
    assert peak < 1_000_000


TINY = Limits(arguments=2_000, search=500, hold=2_000, look_ahead=500)
LONG = 40_000
"""Characters: far more than the limits of `TINY` and the bounds above and below."""

SHARED = (type, ModuleType, FunctionType)


def _feed(parser: StreamParser, text: str) -> None:
    for at in range(0, len(text), 50):
        parser.feed(text[at : at + 50])


def _check_memory(parser: StreamParser, text: str) -> None:
    """Check that the parser keeps little, and late in the reply no more than early."""
    step = LONG // 10
    at_first = _size(parser)
    sizes = []
    for at in range(0, 9 * step, step):
        _feed(parser, text[at : at + step])
        sizes.append(_size(parser) - at_first)

    assert max(sizes) < 64_000
    assert max(sizes[5:]) < max(sizes[:5]) + 5_000


def test_a_large_piece_is_parsed_in_parts():
    prose = "The weather is fine. " * 1_000

    events = StreamParser("hermes", TOOLS, rescue=True).feed(prose)

    assert prose == "".join(event.text for event in events)
    assert max(len(event.text) for event in events) <= 4_096


def _size(root: object) -> int:
    """Return the bytes of all objects that `root` refers to; unlike tracemalloc, without those that Python reuses."""
    found = {id(root): root}
    waiting = [root]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) not in found and not isinstance(each, SHARED):
                found[id(each)] = each
                waiting.append(each)
    return sum(map(sys.getsizeof, found.values()))
