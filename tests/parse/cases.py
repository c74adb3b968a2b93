"""Run a parser case under many splits of its text, and load the vector files.

Rule: a case must give the expected events whole, character by character, in pieces of four, at random splits, and with
text after it; the laws are checked on every run.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fcshim.events import Event, StopReason
from fcshim.parse.stream import StreamParser
from fcshim.testing.splits import splits
from tests.parse.laws import Piece, check_reply, executable

VECTORS = Path(__file__).parent / "vectors"
TAIL = "\nThat is all.\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A reply and its expected events.

    `events` are pieces as `laws.normalise` returns them. A call may omit `arguments` (any are accepted) or have a
    `value` (equal as JSON) instead, and its `error` is the kind or the list of kinds that are accepted. `calls` instead
    of `events` expects only the calls that run. `at_most` expects that no other calls run, each of them once or not at
    all: right, an error or text, but never wrong. `last` means that text after the reply changes its events, `loose`
    that white space around text is not compared, `finished` that the parser must end the reply by itself.
    """

    name: str
    input: str
    events: list[Piece] | None = None
    calls: list[Piece] | None = None
    at_most: list[Piece] | None = None
    tools: list[Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    stop_reason: StopReason = "complete"
    last: bool = False
    loose: bool = False
    finished: bool = False


def load(name: str) -> list[Case]:
    """Load the cases of one vector file; a tool may be just its name."""
    made = [Case(**case) for case in json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))]
    return [replace(case, tools=case.tools and [_tool(tool) for tool in case.tools]) for case in made]


def check(case: Case) -> list[Piece]:
    """Run a case under every split, compare each run with its expected events, and return the normalised events."""
    first = _run_and_compare(case, [case.input])
    for pieces in splits(case.input, random.Random(case.name), count=2):
        again = _run_and_compare(case, pieces)

        assert first == again, f"{case.name}: another split, other events: {pieces}"

    if not case.last and not case.finished and case.stop_reason == "complete":
        _check_with_text_after(case)
    return first


def run(case: Case, pieces: Sequence[str]) -> tuple[list[Event], bool]:
    """Feed the pieces to a new parser; return its events, and whether it ended the reply by itself."""
    parser = StreamParser(**case.options, tools=case.tools)
    events = [event for piece in pieces for event in parser.feed(piece)]
    finished = parser.finished
    return events + parser.close(case.stop_reason), finished


def matches(expected: Piece, actual: Piece) -> bool:
    """Return whether a normalised event is what a vector expects."""
    if "call" not in expected:
        return expected == actual
    if expected["call"] != actual.get("call"):
        return False
    if "arguments" in expected and expected["arguments"] != actual["arguments"]:
        return False
    kinds = expected.get("error")
    kind = actual["error"] and actual["error"]["kind"]
    if kind not in kinds if isinstance(kinds, list) else kind != kinds:
        return False
    return "value" not in expected or _same_json(expected["value"], json.loads(actual["arguments"]))


def _same_json(one: Any, other: Any) -> bool:
    """Compare as JSON text, in which true and 1.0 differ from 1, unlike in Python."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _check_with_text_after(case: Case) -> None:
    after = replace(case, input=case.input + TAIL, events=_with_text_after(case))
    for pieces in ([after.input], list(after.input), [case.input, TAIL]):
        _run_and_compare(after, pieces)


def _with_text_after(case: Case) -> list[Piece] | None:
    if case.events is None:
        return None
    *before, stop = case.events
    if before and "text" in before[-1]:
        return [*before[:-1], {"text": before[-1]["text"] + TAIL}, stop]
    return [*before, {"text": TAIL}, stop]


def _run_and_compare(case: Case, pieces: Sequence[str]) -> list[Piece]:
    events, finished = run(case, pieces)
    actual = check_reply(case.input, case.stop_reason, events, finished=finished)
    _compare(case, actual)

    assert case.finished == finished, case.name

    return actual


def _compare(case: Case, actual: list[Piece]) -> None:
    if case.at_most is not None:
        found = executable(actual)
        allowed = [[number for number, call in enumerate(case.at_most) if matches(call, each)] for each in found]

        assert all(allowed), f"{case.name}: {case.input!r}\nmay run {case.at_most}\nruns    {found}"
        assert len({numbers[0] for numbers in allowed}) == len(found), f"{case.name}: a call runs twice: {found}"

        return
    expected, found = (case.events, actual) if case.events is not None else (case.calls, executable(actual))
    if case.loose:
        expected, found = strip_texts(expected or []), strip_texts(found)
    equal = len(expected or []) == len(found) and all(map(matches, expected or [], found))

    assert equal, f"{case.name}: {case.input!r}\nexpected {expected}\nactual   {found}"


def strip_texts(pieces: list[Piece]) -> list[Piece]:
    """Strip white space around text and reasoning, and drop the pieces that become empty."""
    stripped = [{"text": piece["text"].strip()} if "text" in piece else piece for piece in pieces]
    stripped = [{"reasoning": piece["reasoning"].strip()} if "reasoning" in piece else piece for piece in stripped]
    return [piece for piece in stripped if piece.get("text") != "" and piece.get("reasoning") != ""]


def _tool(tool: Any) -> Any:
    return {"type": "function", "function": {"name": tool}} if isinstance(tool, str) else tool
