"""One helper that runs a parser case in every way a stream can be cut, and the reader of the vector files.

Rule: whatever a case expects, it expects whole, character by character, in pieces of four, at random splits, and with
text after it; the laws are checked on every run.
Neighbours: `vectors/*.json` are the cases, `laws` judges the events, the test files of this room call `check`.
"""

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fcshim.events import Event, StopReason
from fcshim.parse.stream import StreamParser
from tests.parse.laws import Piece, check_reply, executable

VECTORS = Path(__file__).parent / "vectors"
TAIL = "\nThat is all.\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A reply and what it means.

    `events` are pieces as `laws.normalise` gives them, where a call may leave out `arguments` (any), give a `value`
    (equal as JSON) instead, and gives the kinds of error it accepts; `calls` instead of `events` expects only which
    calls run. `last` says that text after the reply changes its meaning, `loose` that white space around text is not
    compared, `finished` that the parser must have ended the reply by itself.
    """

    name: str
    input: str
    events: list[Piece] | None = None
    calls: list[Piece] | None = None
    tools: list[Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    stop_reason: StopReason = "complete"
    last: bool = False
    loose: bool = False
    finished: bool = False


def load(name: str) -> list[Case]:
    """Read the cases of one vector file; tools may be given by their names alone."""
    made = [Case(**case) for case in json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))]
    return [replace(case, tools=case.tools and [_tool(tool) for tool in case.tools]) for case in made]


def check(case: Case) -> list[Piece]:
    """Run a case in every way, compare each with what it expects, and give its normalised events."""
    first = _run_and_compare(case, [case.input])
    for pieces in splits(case.input, random.Random(case.name)):
        again = _run_and_compare(case, pieces)

        assert first == again, f"{case.name}: another split, other events: {pieces}"

    if not case.last and not case.finished and case.stop_reason == "complete":
        _check_with_text_after(case)
    return first


def run(case: Case, pieces: Sequence[str]) -> tuple[list[Event], bool]:
    """Feed the pieces to a fresh parser; give its events and whether it ended the reply by itself."""
    parser = StreamParser(**case.options, tools=case.tools)
    events = [event for piece in pieces for event in parser.feed(piece)]
    finished = parser.finished
    return events + parser.close(case.stop_reason), finished


def splits(text: str, source: random.Random, *, count: int = 3) -> Iterator[list[str]]:
    """Cut a text into characters, into pieces of four, into two, and at random places (with empty pieces)."""
    yield list(text)
    yield [text[at : at + 4] for at in range(0, len(text), 4)]
    middle = source.randint(0, len(text))
    yield [text[:middle], text[middle:]]
    for _ in range(count):
        yield random_split(text, source)


def random_split(text: str, source: random.Random) -> list[str]:
    """Cut a text at random places, some of them twice."""
    cuts = sorted(source.randint(0, len(text)) for _ in range(source.randint(0, max(1, len(text) // 3))))
    return [text[start:end] for start, end in itertools.pairwise([0, *cuts, len(text)])]


def matches(expected: Piece, actual: Piece) -> bool:
    """Say whether a normalised event is what a vector asks for."""
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
    """Compare as JSON, where true is not 1 and 1.0 is not 1."""
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
    expected, found = (case.events, actual) if case.events is not None else (case.calls, executable(actual))
    if case.loose:
        expected, found = strip_texts(expected or []), strip_texts(found)
    equal = len(expected or []) == len(found) and all(map(matches, expected or [], found))

    assert equal, f"{case.name}: {case.input!r}\nexpected {expected}\nactual   {found}"


def strip_texts(pieces: list[Piece]) -> list[Piece]:
    """Take white space around text and reasoning away."""
    stripped = [{"text": piece["text"].strip()} if "text" in piece else piece for piece in pieces]
    stripped = [{"reasoning": piece["reasoning"].strip()} if "reasoning" in piece else piece for piece in stripped]
    return [piece for piece in stripped if piece.get("text") != "" and piece.get("reasoning") != ""]


def _tool(tool: Any) -> Any:
    return {"type": "function", "function": {"name": tool}} if isinstance(tool, str) else tool
