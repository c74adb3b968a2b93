"""Checks on the kept replies: no delivered call says what the model did not write, and no split changes a reply.

A wrong call is one whose tool's name, or one of whose values, stands nowhere in the model's own text, spellings aside.
A lost call is a case without enough valid calls whose expected calls all stand in the text.
A call that the server has parsed itself was written as the server reported it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.models.loops import LoopResult, LoopTask
from benchmarks.models.relay import RawReply
from benchmarks.models.results import CaseResult
from fcshim.evaluate.case import Case, ExpectedCall
from fcshim.evaluate.result import ActualCall
from fcshim.events import JSON
from fcshim.messages import Tool
from fcshim.parse.stream import StreamParser, parse
from fcshim.reply import Reply, fold

_LOST_VERDICTS = ("missing_call", "malformed")
_IGNORED = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"-?\d[\d_,]*\.?\d*(?:[eE][-+]?\d+)?")


@dataclass(slots=True)
class Findings:
    """The cases with a wrong call, with a lost call, and whose reading depends on the split."""

    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    split: list[str] = field(default_factory=list)


def check(cases: Iterable[Case], results: Iterable[CaseResult]) -> Findings:
    """Check the results of one model in one mode."""
    findings = Findings()
    by_id = {case.id: case for case in cases}
    for result in results:
        case, texts = by_id[result.id], [raw.text for raw in result.raw]
        if not all(_is_written(call, result.raw) for call in result.calls if not call.error):
            findings.wrong.append(result.id)
        if (
            result.verdict in _LOST_VERDICTS
            and all(case.expected)
            and any(_stand_in(expected, text) for expected in case.expected for text in texts)
        ):
            findings.lost.append(result.id)
        if any(_depends_on_split(case.tools, text) for text in texts):
            findings.split.append(result.id)
    return findings


def check_loops(tasks: Iterable[LoopTask], results: Iterable[LoopResult]) -> Findings:
    """Check the loops of one model in one mode. What a lost call would have led to is unknown, so none is found."""
    findings = Findings()
    by_id = {task.id: task for task in tasks}
    for result in results:
        calls = [ActualCall(call.name, json.loads(call.arguments)) for call in result.calls if not call.invalid]
        if not all(_is_written(call, result.raw) for call in calls):
            findings.wrong.append(result.id)
        if any(_depends_on_split(by_id[result.id].definitions, raw.text) for raw in result.raw):
            findings.split.append(result.id)
    return findings


def _is_written(call: ActualCall, replies: Sequence[RawReply]) -> bool:
    return any(
        _plain(call.name) in _plain(text) and all(_stands_in(leaf, text) for leaf in _leaves(_values(call.arguments)))
        for text in (f"{reply.text}\n{reply.calls}" for reply in replies)
    )


def _values(arguments: JSON) -> JSON:
    """Return the values of the arguments: their names need not be written, for instance in a Python call."""
    return list(arguments.values()) if isinstance(arguments, dict) else arguments


def _leaves(value: JSON) -> Iterator[JSON]:
    """Yield the values that are no containers, and the keys."""
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _stands_in(value: JSON, text: str) -> bool:
    if isinstance(value, bool) or value is None:
        return json.dumps(value) in text.lower() or str(value) in text
    if isinstance(value, int | float):
        return any(float(value) == number for number in _numbers(text))
    return _plain(value) in _plain(text)


def _numbers(text: str) -> Iterator[float]:
    for match in _NUMBER.finditer(text):
        for written in {match[0].rstrip("."), match[0].rstrip(".,").replace(",", "").replace("_", "")}:
            try:
                yield float(written)
            except ValueError:
                continue


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower()


def _stand_in(expected: Sequence[ExpectedCall], text: str) -> bool:
    """Return whether all expected calls, and no more, seem to stand in a text: their names, and accepted values."""
    plain = _plain(text)
    names = [_plain(call.name) for call in expected]
    return all(plain.count(name) == names.count(name) for name in names) and all(
        any(value == "" or all(_stands_in(leaf, text) for leaf in _leaves(value)) for value in accepted)
        for call in expected
        for accepted in call.arguments.values()
    )


def _depends_on_split(tools: Sequence[Tool], text: str) -> bool:
    whole = fold(parse(text, "auto", tools))
    parser = StreamParser("auto", tools)
    pieces = fold([*(event for character in text for event in parser.feed(character)), *parser.close()])
    return (whole.text, _calls(whole)) != (pieces.text, _calls(pieces))


def _calls(reply: Reply) -> list[tuple[str, str]]:
    return [(end.tool_call_name, end.tool_call_arguments_complete) for end in reply.tool_calls]
