"""The inputs on which other parsers fail, and the verdicts on the results of a reader.

Rule: results are compared as a client sees them: the calls that would run, and the text.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fcshim.events import JSON, StopReason

Verdict = Literal["right", "lost", "wrong"]
Call = dict[str, JSON]
PROPERTIES = {"text": {"type": "string"}, "n": {"type": "integer"}, "flag": {"type": "boolean"}}
TOOLS: list[dict[str, JSON]] = [
    {"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": PROPERTIES}}}
]


@dataclass(frozen=True, slots=True)
class ConformanceCase:
    """One input with the expected calls. `text` is the expected text, in cases where other parsers lose or change it.

    White space at its ends is ignored.
    """

    name: str
    origin: Literal["shims", "engines"]
    input: str
    calls: list[Call]
    text: str | None = None
    stop_reason: StopReason = "complete"
    tools: list[dict[str, JSON]] = field(default_factory=lambda: TOOLS)

    def pieces(self) -> list[str]:
        """Return the chunks of the stream: four characters each, or one chunk in the cases about large deltas."""
        if "one delta" in self.name:
            return [self.input]
        return [self.input[at : at + 4] for at in range(0, len(self.input), 4)]


@dataclass(frozen=True, slots=True)
class ReaderResult:
    """The output of a reader: the calls that would run, and the text."""

    calls: list[Call]
    text: str


Reader = Callable[[Sequence[ConformanceCase]], list[ReaderResult]]
"""A function that reads all cases and returns a result for each."""


def load(name: Literal["hermes", "repair_shapes"] = "hermes") -> list[ConformanceCase]:
    """Return the cases of one file.

    `hermes`: replies in the dialect hermes on which the parsers of engines and shims fail. `repair_shapes`: the shapes
    of broken calls of toolcall-repair-bench, mostly in JSON without tags.
    """
    path = Path(__file__).parent / "cases" / f"{name}.json"
    return [ConformanceCase(**case) for case in json.loads(path.read_text(encoding="utf-8"))]


def judge(case: ConformanceCase, result: ReaderResult) -> Verdict:
    """Return `right`, `lost` if a call or text is missing, `wrong` if an unexpected call would run or text is added."""
    if any(call not in case.calls for call in result.calls):
        return "wrong"
    if result.calls != case.calls:
        return "lost"
    if case.text is not None and case.text.strip() != result.text.strip():
        return "lost" if len(result.text.strip()) < len(case.text.strip()) else "wrong"
    return "right"
